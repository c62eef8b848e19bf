//! What a run is called.

use std::fmt;
use std::io;
use std::str::FromStr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Twelve hexadecimal digits: eight of the second in which it began, four by chance. Their order is that of the runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RunId(u64);

/// It is no id of a run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no id of a run: twelve hexadecimal digits")]
pub struct NoRunId(String);

const DIGITS: usize = 12;
const CHANCE: u32 = 16;

impl RunId {
    /// One of a run that begins now. Two of one second are the same once in 65,536 times; whoever takes one sees to that.
    pub(crate) fn now() -> io::Result<Self> {
        let mut bytes = [0; 2];
        rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
        let seconds = u64::try_from(Timestamp::now().as_second()).unwrap_or(0);
        let chance = u64::from(u16::from_le_bytes(bytes));
        Ok(Self(((seconds & 0xffff_ffff) << CHANCE) | chance))
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:012x}", self.0)
    }
}

impl FromStr for RunId {
    type Err = NoRunId;

    fn from_str(text: &str) -> Result<Self, NoRunId> {
        let is_one = text.len() == DIGITS
            && (text.bytes()).all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let value = is_one.then(|| u64::from_str_radix(text, 16).ok()).flatten();
        value
            .map(Self)
            .ok_or_else(|| NoRunId(text.escape_debug().to_string()))
    }
}

impl TryFrom<String> for RunId {
    type Error = NoRunId;

    fn try_from(text: String) -> Result<Self, NoRunId> {
        text.parse()
    }
}

impl From<RunId> for String {
    fn from(id: RunId) -> Self {
        id.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_survive_text_and_have_the_order_of_time() {
        let id = RunId::now().unwrap();
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_eq!(id.to_string().len(), DIGITS);
        let earlier: RunId = "000000010000".parse().unwrap();
        assert!(earlier < id && earlier.to_string() < id.to_string());
        for bad in ["", "0123", "0123456789AB", "0123456789abc", "../456789ab"] {
            assert!(bad.parse::<RunId>().is_err(), "{bad}");
        }
    }
}
