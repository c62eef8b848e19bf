//! Paths in JSON: serde refuses a path that is not UTF-8, and a run in such a directory must be shown and kept all
//! the same. For people and scripts, bytes that are no text become U+FFFD; in what we read again they are written
//! out ([`exact`]).

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize, Serializer};

pub(crate) fn lossy<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&path.to_string_lossy())
}

#[expect(clippy::ref_option, reason = "serde hands the field over so")]
pub(crate) fn optional<S: Serializer>(
    path: &Option<PathBuf>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match path {
        Some(path) => serializer.serialize_some(&path.to_string_lossy()),
        None => serializer.serialize_none(),
    }
}

pub(crate) fn lossy_list<S: Serializer>(
    paths: &[PathBuf],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(paths.iter().map(|path| path.to_string_lossy()))
}

/// A relative path in a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PathText(#[serde(with = "exact")] pub PathBuf);

/// Paths as JSON text: UTF-8 as it is, other bytes and the backslash as `\xNN`.
pub(crate) mod exact {
    use std::ffi::OsString;
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    use std::path::{Path, PathBuf};

    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn encode(path: &Path) -> String {
        let mut text = String::new();
        for chunk in path.as_os_str().as_bytes().utf8_chunks() {
            text.push_str(&chunk.valid().replace('\\', "\\x5c"));
            for byte in chunk.invalid() {
                text.push_str(&format!("\\x{byte:02x}"));
            }
        }
        text
    }

    pub(crate) fn decode(text: &str) -> Option<PathBuf> {
        let mut bytes = Vec::with_capacity(text.len());
        let mut parts = text.split("\\x");
        bytes.extend_from_slice(parts.next()?.as_bytes());
        for part in parts {
            bytes.push(u8::from_str_radix(part.get(..2)?, 16).ok()?);
            bytes.extend_from_slice(part.get(2..)?.as_bytes());
        }
        Some(OsString::from_vec(bytes).into())
    }

    pub(crate) fn serialize<S: Serializer>(path: &Path, out: S) -> Result<S::Ok, S::Error> {
        out.serialize_str(&encode(path))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<PathBuf, D::Error> {
        let text = String::deserialize(input)?;
        decode(&text).ok_or_else(|| serde::de::Error::custom("a path with a bad escape"))
    }
}

pub(crate) mod optional_exact {
    use std::path::PathBuf;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[expect(clippy::ref_option, reason = "serde's `with` calls it so")]
    pub(crate) fn serialize<S: Serializer>(
        path: &Option<PathBuf>,
        out: S,
    ) -> Result<S::Ok, S::Error> {
        path.as_deref().map(super::exact::encode).serialize(out)
    }

    pub(crate) fn deserialize<'de, D>(input: D) -> Result<Option<PathBuf>, D::Error>
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
