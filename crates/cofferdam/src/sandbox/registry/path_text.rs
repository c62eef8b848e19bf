//! Paths in records.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A relative path in a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PathText(#[serde(with = "exact")] pub PathBuf);

/// Paths as JSON text: UTF-8 as it is, other bytes and the backslash as `\xNN`.
pub(super) mod exact {
    use std::ffi::OsString;
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    use std::path::{Path, PathBuf};

    use serde::{Deserialize, Deserializer, Serializer};

    pub(in crate::sandbox::registry) fn encode(path: &Path) -> String {
        let mut text = String::new();
        for chunk in path.as_os_str().as_bytes().utf8_chunks() {
            text.push_str(&chunk.valid().replace('\\', "\\x5c"));
            for byte in chunk.invalid() {
                text.push_str(&format!("\\x{byte:02x}"));
            }
        }
        text
    }

    pub(in crate::sandbox::registry) fn decode(text: &str) -> Option<PathBuf> {
        let mut bytes = Vec::with_capacity(text.len());
        let mut parts = text.split("\\x");
        bytes.extend_from_slice(parts.next()?.as_bytes());
        for part in parts {
            bytes.push(u8::from_str_radix(part.get(..2)?, 16).ok()?);
            bytes.extend_from_slice(part.get(2..)?.as_bytes());
        }
        Some(OsString::from_vec(bytes).into())
    }

    pub(in crate::sandbox::registry) fn serialize<S: Serializer>(
        path: &Path,
        out: S,
    ) -> Result<S::Ok, S::Error> {
        out.serialize_str(&encode(path))
    }

    pub(in crate::sandbox::registry) fn deserialize<'de, D: Deserializer<'de>>(
        input: D,
    ) -> Result<PathBuf, D::Error> {
        let text = String::deserialize(input)?;
        decode(&text).ok_or_else(|| serde::de::Error::custom("a path with a bad escape"))
    }
}

pub(super) mod optional {
    use std::path::PathBuf;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[expect(clippy::ref_option, reason = "serde's `with` calls it so")]
    pub(in crate::sandbox::registry) fn serialize<S: Serializer>(
        path: &Option<PathBuf>,
        out: S,
    ) -> Result<S::Ok, S::Error> {
        path.as_deref().map(super::exact::encode).serialize(out)
    }

    pub(in crate::sandbox::registry) fn deserialize<'de, D>(
        input: D,
    ) -> Result<Option<PathBuf>, D::Error>
    where
        D: Deserializer<'de>,
    {
        let Some(text) = Option::<String>::deserialize(input)? else {
            return Ok(None);
        };
        let path = super::exact::decode(&text);
        path.map(Some)
            .ok_or_else(|| serde::de::Error::custom("a path with a bad escape"))
    }
}
