//! What a sandbox says has changed, spooled to a file and checked as a whole before anything is made of it. All of it is
//! hostile: a path may be any bytes, a size any number, and the end may be missing.

use std::fs::File;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

use cofferdam_guest::protocol::files::{self, Entry, LONGEST_PATH, MOST_LEFT, Why};

use crate::fsx::{Context, FileError};
use crate::git::gate;

/// The longest text of a link that any system takes.
const LONGEST_LINK: usize = 4096;
/// Bytes of a path among many, as the gate counts them.
const OF_A_PATH: u64 = 200;

/// Bounds of what one sandbox may say at a time.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Paths that changed.
    pub paths: u64,
    /// Bytes of one file.
    pub file_bytes: u64,
}

/// Something that could not come along. Its path is as the sandbox said it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stayed {
    /// Below the top, any bytes.
    pub path: Vec<u8>,
    /// What was in the way.
    pub why: Why,
}

/// Why nothing is made of it.
#[derive(Debug, thiserror::Error)]
pub enum ChangesError {
    /// The sandbox's doing, and final.
    #[error("{0}")]
    Refused(String),
    /// What the sandbox sent could not be written down.
    #[error(transparent)]
    File(#[from] FileError),
}

/// A stream that is whole, and in which every path is one that a commit may have.
#[derive(Debug)]
pub struct Changes {
    spool: PathBuf,
    gone: Vec<Vec<u8>>,
    there: u64,
    /// The first ones of those that could not come along.
    pub stayed: Vec<Stayed>,
    /// How many they are altogether, as the sandbox says.
    pub left: u64,
}

impl Changes {
    /// Reads `spool` to its end. Blocks as long as that takes.
    pub fn read(spool: &Path, limits: Limits) -> Result<Self, ChangesError> {
        let mut changes = Self {
            spool: spool.to_owned(),
            gone: Vec::new(),
            there: 0,
            stayed: Vec::new(),
            left: 0,
        };
        let length = std::fs::metadata(spool).context("look at", spool)?.len();
        let mut reader = Reader::open(spool)?;
        let (mut paths, mut path_bytes) = (0, 0);
        loop {
            let entry = reader.next()?;
            paths += 1;
            path_bytes += path(&entry).map_or(0, <[u8]>::len) as u64;
            if paths > limits.paths || path_bytes > limits.paths.saturating_mul(OF_A_PATH) {
                let limit = limits.paths;
                return Err(refused(format!("more than {limit} paths have changed")));
            }
            if let Some(path) = path(&entry)
                && let Some(why) = gate::forbidden(path)
            {
                let path = crate::text::printable_bytes_line(path);
                return Err(refused(format!("the path `{path}` is refused: {why}")));
            }
            match entry {
                Entry::File { size, .. } => {
                    if size > limits.file_bytes || size > length {
                        let limit = limits.file_bytes;
                        let what =
                            format!("a file in it has {size} bytes, and {limit} are allowed");
                        return Err(refused(what));
                    }
                    reader.skip(size)?;
                    changes.there += 1;
                }
                Entry::Link { target, .. } => {
                    if target.is_empty() || target.len() > LONGEST_LINK {
                        return Err(refused("a link in it has no text that a link can have"));
                    }
                    changes.there += 1;
                }
                Entry::Gone { path } => changes.gone.push(path),
                Entry::Left { path, why } => {
                    if path.len() > LONGEST_PATH {
                        return Err(refused("a path that stays inside is longer than a path is"));
                    }
                    if changes.stayed.len() < MOST_LEFT {
                        changes.stayed.push(Stayed { path, why });
                    }
                }
                // No commit has one.
                Entry::Directory { .. } => {}
                Entry::End { left } => {
                    changes.left = left;
                    break;
                }
            }
        }
        if reader.at < length {
            return Err(refused("something follows its end"));
        }
        Ok(changes)
    }

    /// Whether nothing changed at all.
    pub fn is_nothing(&self) -> bool {
        self.there == 0 && self.gone.is_empty()
    }

    /// Files that are no longer there.
    pub(super) fn gone(&self) -> &[Vec<u8>] {
        &self.gone
    }

    /// From the beginning again.
    pub(super) fn reader(&self) -> Result<Reader, ChangesError> {
        Reader::open(&self.spool)
    }
}

/// Those that are to become part of a commit.
fn path(entry: &Entry) -> Option<&[u8]> {
    match entry {
        Entry::Directory { path, .. }
        | Entry::File { path, .. }
        | Entry::Link { path, .. }
        | Entry::Gone { path } => Some(path),
        Entry::Left { .. } | Entry::End { .. } => None,
    }
}

fn refused(why: impl Into<String>) -> ChangesError {
    ChangesError::Refused(format!(
        "what it says has changed is refused: {}",
        why.into()
    ))
}

/// One value after another.
#[derive(Debug)]
pub(super) struct Reader {
    from: BufReader<File>,
    path: PathBuf,
    /// How far it is.
    at: u64,
}

impl Reader {
    fn open(path: &Path) -> Result<Self, ChangesError> {
        Ok(Self {
            from: BufReader::with_capacity(64 << 10, File::open(path).context("open", path)?),
            path: path.to_owned(),
            at: 0,
        })
    }

    pub(super) fn next(&mut self) -> Result<Entry, ChangesError> {
        let mut counted = Counted {
            from: &mut self.from,
            count: 0,
        };
        let read = files::read(&mut counted);
        self.at += counted.count;
        match read {
            Ok(entry) => Ok(entry),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                Err(refused("it does not follow the protocol"))
            }
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Err(refused("it is cut off"))
            }
            Err(error) => Err(FileError::new("read", &self.path, error).into()),
        }
    }

    /// Past a file's bytes. That they are there at all is seen by what follows.
    fn skip(&mut self, bytes: u64) -> Result<(), ChangesError> {
        let step = i64::try_from(bytes).unwrap_or(i64::MAX);
        self.from.seek_relative(step).context("read", &self.path)?;
        self.at += bytes;
        Ok(())
    }

    /// Of a file's bytes the next ones; none where the spool ends.
    pub(super) fn bytes(&mut self, buffer: &mut [u8]) -> Result<usize, ChangesError> {
        let got = io::Read::read(&mut self.from, buffer).context("read", &self.path)?;
        self.at += got as u64;
        Ok(got)
    }
}

struct Counted<'a> {
    from: &'a mut BufReader<File>,
    count: u64,
}

impl io::Read for Counted<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let got = self.from.read(buffer)?;
        self.count += got as u64;
        Ok(got)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        paths: 10,
        file_bytes: 100,
    };

    fn file(path: &str, size: u64) -> Entry {
        Entry::File {
            path: path.into(),
            mode: 0o644,
            size,
        }
    }

    fn stream(entries: &[Entry]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for entry in entries {
            files::write(&mut bytes, entry).unwrap();
            if let Entry::File { size, .. } = entry {
                bytes.extend(std::iter::repeat_n(
                    b'x',
                    usize::try_from(*size).unwrap().min(200),
                ));
            }
        }
        bytes
    }

    fn read(bytes: &[u8]) -> Result<Changes, String> {
        let mut spool = tempfile::NamedTempFile::new().unwrap();
        io::Write::write_all(&mut spool, bytes).unwrap();
        Changes::read(spool.path(), LIMITS).map_err(|error| error.to_string())
    }

    const END: Entry = Entry::End { left: 3 };

    #[test]
    fn what_is_whole_is_read() {
        let gone = Entry::Gone { path: "b/c".into() };
        let left = Entry::Left {
            path: "../x".into(),
            why: Why::NoFile,
        };
        let changes = read(&stream(&[file("a", 3), gone, left, file("d", 0), END])).unwrap();
        assert_eq!((changes.there, changes.left), (2, 3));
        assert_eq!(changes.gone, [b"b/c"]);
        assert_eq!(changes.stayed.len(), 1);
        assert!(!changes.is_nothing());
        assert!(read(&stream(&[END])).unwrap().is_nothing());
    }

    #[track_caller]
    fn is_refused(entries: &[Entry], words: &str) {
        let error = read(&stream(entries)).unwrap_err();
        assert!(error.contains(words), "{error}");
    }

    #[test]
    fn paths_that_no_commit_may_have() {
        for path in [
            "../a",
            "/a",
            "a//b",
            "",
            ".",
            "a/..",
            ".git/config",
            "a/.GIT/x",
            "git~1",
            ".g\u{200c}it",
            "a\\b",
        ] {
            is_refused(&[file(path, 0), END], "the path");
            let (path, mode) = (path.into(), 0o755);
            is_refused(&[Entry::Gone { path }, END], "the path");
            let path = "a/.git".into();
            is_refused(
                &[Entry::Directory { path, mode }, END],
                "`.git` in some form",
            );
        }
        let link = |target: &str| Entry::Link {
            path: "l".into(),
            target: target.into(),
        };
        is_refused(&[link(""), END], "a link");
        is_refused(&[link(&"x".repeat(5000)), END], "a link");
    }

    #[test]
    fn too_much_too_little_and_something_else() {
        is_refused(&[file("a", 101), END], "101 bytes");
        is_refused(&[file("a", u64::MAX), END], "bytes");
        is_refused(&vec![file("a", 0); 11], "more than 10 paths");
        is_refused(&[file("a", 1)], "cut off");
        is_refused(&[], "cut off");
        is_refused(&[END, END], "follows its end");
        let long = ["d/", &"x".repeat(240)].concat();
        is_refused(&vec![file(&long, 0); 9], "more than 10 paths");
        let left = |length: usize| Entry::Left {
            path: vec![b'x'; length],
            why: Why::NoPath,
        };
        is_refused(&[left(LONGEST_PATH + 1), END], "longer than a path is");
        assert_eq!(
            read(&stream(&[left(LONGEST_PATH), END]))
                .unwrap()
                .stayed
                .len(),
            1
        );
        let whole = stream(&[file("a", 20), END]);
        for cut in 0..whole.len() {
            assert!(read(&whole[..cut]).is_err(), "{cut}");
        }
    }

    #[test]
    fn fuzz_changed_files() {
        let gone = Entry::Gone { path: "b".into() };
        let seeds = [stream(&[file("a", 3), gone, END]), stream(&[END])];
        cofferdam_lab::fuzz::mutate("changed files", &seeds, |bytes| {
            if let Ok(changes) = read(bytes) {
                assert!(
                    changes
                        .gone
                        .iter()
                        .all(|path| gate::forbidden(path).is_none())
                );
            }
        });
    }
}
