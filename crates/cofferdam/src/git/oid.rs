//! Object ids.

use std::fmt;
use std::io::{self, Read};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::Digest;

/// The hash a repository names its objects by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ObjectFormat {
    /// Ids of 40 hexadecimal digits.
    Sha1,
    /// Ids of 64 hexadecimal digits.
    Sha256,
}

impl ObjectFormat {
    /// Hexadecimal digits of a whole id.
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
    /// All of its digits, in lower case.
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

    /// The id of a blob of `size` bytes that `from` has (gitformat-objects: `blob`, a space, the size, a zero byte, the bytes).
    pub fn of_blob(format: ObjectFormat, size: u64, from: &mut impl Read) -> io::Result<Self> {
        fn digest<D: Digest>(size: u64, from: &mut impl Read) -> io::Result<String> {
            let mut digest = D::new();
            digest.update(format!("blob {size}\0").as_bytes());
            let mut buffer = vec![0; 1 << 16];
            loop {
                match from.read(&mut buffer)? {
                    0 => return Ok(super::hex::hex(&digest.finalize())),
                    count => digest.update(&buffer[..count]),
                }
            }
        }
        Ok(Self(match format {
            ObjectFormat::Sha1 => digest::<sha1::Sha1>(size, from)?,
            ObjectFormat::Sha256 => digest::<sha2::Sha256>(size, from)?,
        }))
    }

    /// Whether it is all zeros, by which git says "none".
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
