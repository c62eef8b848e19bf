//! Object ids.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The hash a repository names its objects by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ObjectFormat {
    Sha1,
    Sha256,
}

impl ObjectFormat {
    pub fn hex_len(self) -> usize {
        match self {
            Self::Sha1 => 40,
            Self::Sha256 => 64,
        }
    }

    /// As `git init --object-format` takes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sha1 => "sha1",
            Self::Sha256 => "sha256",
        }
    }
}

/// A full object id in lower-case hexadecimal: 40 digits (SHA-1) or 64 (SHA-256).
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Oid(String);

/// The text is not an object id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an object id")]
pub struct NotAnOid(String);

impl Oid {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The first ten digits, for people.
    pub fn short(&self) -> &str {
        &self.0[..10]
    }

    /// All zeros: "no object" in `update-ref`.
    pub fn null(format: ObjectFormat) -> Self {
        Self("0".repeat(format.hex_len()))
    }

    pub fn is_null(&self) -> bool {
        self.0.bytes().all(|b| b == b'0')
    }
}

impl FromStr for Oid {
    type Err = NotAnOid;
    fn from_str(text: &str) -> Result<Self, NotAnOid> {
        let digits = text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        if digits && matches!(text.len(), 40 | 64) {
            Ok(Self(text.to_owned()))
        } else {
            Err(NotAnOid(
                text.chars()
                    .take(80)
                    .collect::<String>()
                    .escape_debug()
                    .to_string(),
            ))
        }
    }
}

impl TryFrom<String> for Oid {
    type Error = NotAnOid;
    fn try_from(text: String) -> Result<Self, NotAnOid> {
        text.parse()
    }
}

impl From<Oid> for String {
    fn from(oid: Oid) -> Self {
        oid.0
    }
}

impl fmt::Display for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
