//! The forms of records on disk. The version is read before anything else.

use serde::Deserialize;

use super::record::{Record, VERSION};

/// Why bytes are no record.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unreadable {
    Newer(u64),
    Malformed(String),
}

impl std::fmt::Display for Unreadable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Newer(version) => {
                write!(f, "it was written by a newer version (format {version})")
            }
            Self::Malformed(reason) => f.write_str(reason),
        }
    }
}

/// Reads a record of this version or an older one; what an older one says is told in the words of this one.
pub(super) fn parse(bytes: &[u8]) -> Result<Record, Unreadable> {
    #[derive(Deserialize)]
    struct Head {
        version: u64,
    }
    let malformed = |error: serde_json::Error| Unreadable::Malformed(error.to_string());
    let Head { version } = serde_json::from_slice(bytes).map_err(malformed)?;
    if version > u64::from(VERSION) {
        return Err(Unreadable::Newer(version));
    }
    // Version 1 lacks fields, which have defaults, and has other words in its landing.
    let mut record: Record = serde_json::from_slice(bytes).map_err(malformed)?;
    record.version = VERSION;
    Ok(record)
}

/// What sandbox these bytes seem to be about, if they are no record of ours: its name, and its repository's top. Only to name
/// it: a newer version may mean something else.
pub(super) fn seems(bytes: &[u8]) -> Option<(String, Option<String>)> {
    #[derive(Deserialize)]
    struct Named {
        name: String,
        repository: Option<serde_json::Value>,
    }
    let Named { name, repository } = serde_json::from_slice(bytes).ok()?;
    let repository = repository.and_then(|value| value.as_str().map(str::to_owned));
    Some((name, repository))
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use super::*;
    use crate::git::land::Landing;
    use crate::registry::{ExtraMount, Lifetime, Mode, Outcome, Phase, Reach, Strategy};

    /// In the form of the first version; state that it wrote itself is in `tests/session/older.rs`.
    const FIRST: &str = include_str!("record-1.json");

    #[test]
    fn a_record_of_version_1() {
        let record = parse(FIRST.as_bytes()).unwrap();
        assert_eq!(record.version, VERSION);
        assert_eq!((record.mode, record.phase), (Mode::Copy, Phase::Stopped));
        assert_eq!(record.lifetime, Lifetime::Command);
        assert!(!record.lives_on());
        let Strategy::MergeToHead { target } = &record.strategy else {
            panic!("{record:?}")
        };
        assert_eq!(target.as_str(), "main");
        let Some(Outcome { landing, .. }) = &record.outcome else {
            panic!("{record:?}")
        };
        let Landing::Refused { pack, why } = landing else {
            panic!("{landing:?}")
        };
        assert_eq!(
            pack.as_deref(),
            Some("/home/u/.cofferdam/state/x/refused.pack".as_ref())
        );
        assert!(why.contains("symlink"), "{why}");
        assert!(matches!(record.network, Some(Reach::Allowlist { .. })));
        assert_eq!(record.begins(), &record.base);
        assert_eq!(record.mounts, []);
        // Where there are none it is as an earlier build wrote it.
        let plain = serde_json::to_string(&record).unwrap();
        assert!(!plain.contains("mounts"), "{plain}");
        // What is written now is read again, whatever bytes a path has.
        let mut record = record;
        let odd = std::ffi::OsStr::from_bytes(b"/x/\xff\\");
        record.outcome.as_mut().unwrap().landing = Landing::Refused {
            pack: Some(odd.into()),
            why: "no".into(),
        };
        record.mounts.push(ExtraMount {
            source: odd.into(),
            target: odd.into(),
            writable: true,
        });
        let bytes = serde_json::to_vec(&record).unwrap();
        assert_eq!(parse(&bytes).unwrap(), record);
    }

    #[test]
    fn what_a_later_build_of_this_version_says_is_not_dropped() {
        let record = parse(FIRST.as_bytes()).unwrap();
        let mut value = serde_json::to_value(&record).unwrap();
        value["not_yet"] = true.into();
        let refused = parse(value.to_string().as_bytes());
        assert!(
            matches!(&refused, Err(Unreadable::Malformed(why)) if why.contains("not_yet")),
            "{refused:?}"
        );
        value.as_object_mut().unwrap().remove("not_yet");
        value["outcome"]["not_yet"] = true.into();
        parse(value.to_string().as_bytes()).unwrap_err();
    }

    #[test]
    fn the_version_is_read_first() {
        let newer = br#"{"version": 3, "id": {"of": "another kind"}}"#;
        assert_eq!(parse(newer), Err(Unreadable::Newer(3)));
        assert!(matches!(parse(b"{}"), Err(Unreadable::Malformed(_))));
        assert!(matches!(parse(b"[1"), Err(Unreadable::Malformed(_))));
    }
}
