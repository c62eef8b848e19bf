//! Network logs as people read them: the one of a sandbox is found, read to its end and followed. A
//! log outlives its sandbox.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use cofferdam_wall::log::Event;
use jiff::Timestamp;

use crate::fsx::{Context, FileError};
use crate::home::Home;
use crate::names::{RepoPath, SandboxId, Slug};
use crate::network::NetworkKind;
use crate::registry;
use crate::text::LineFramer;
use crate::wall::Refused;

pub use cofferdam_wall::log::{Entry, Event as EntryEvent, Verdict, Via};

/// The longest line that is read, in bytes.
const MAX_LINE: usize = 64 << 10;
/// So much is read at once.
const PIECE: usize = 64 << 10;

/// One sandbox's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Log {
    /// The file.
    pub path: PathBuf,
    /// Whose it is.
    pub sandbox: SandboxId,
    /// The sandbox's name, as the log says it.
    pub name: String,
    /// When the sandbox was made.
    pub began: Timestamp,
    /// "open" or "none" where it has no wall, so that nothing more is logged.
    pub network: Option<NetworkKind>,
}

/// There is no such log.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// It could not be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// No sandbox of that name has had one.
    #[error("there is no network log of a sandbox `{name}` in {}", repository.display())]
    Unknown {
        /// As it was given.
        name: String,
        /// Where it was looked for.
        repository: PathBuf,
    },
    /// None of its sandboxes has had one.
    #[error("there is no network log of a sandbox in {}", repository.display())]
    None {
        /// Where it was looked for.
        repository: PathBuf,
    },
}

/// The newest log of a sandbox of `repository`; with `name`, of one that is called so or has that id.
pub fn find(home: &Home, repository: &RepoPath, name: Option<&str>) -> Result<Log, LogError> {
    let place = repository.as_path().display().to_string();
    let mut newest: Option<Log> = None;
    for (path, sandbox) in files(home)? {
        let Some(first) = first_line(&path) else {
            continue;
        };
        let called = first.name.unwrap_or_default();
        let wanted = name.is_none_or(|name| {
            let slug = Slug::sandbox_name(name);
            name == called
                || name == sandbox.to_string()
                || slug.is_ok_and(|slug| slug.as_str() == called)
        });
        if first.repository.as_ref() != Some(&place) || !wanted {
            continue;
        }
        if newest
            .as_ref()
            .is_none_or(|newest| newest.began <= first.at)
        {
            newest = Some(Log {
                path,
                sandbox,
                name: called,
                began: first.at,
                network: first.network.and_then(|network| network.parse().ok()),
            });
        }
    }
    let repository = repository.as_path().to_owned();
    newest.ok_or_else(|| match name {
        Some(name) => LogError::Unknown {
            name: name.escape_debug().to_string(),
            repository,
        },
        None => LogError::None { repository },
    })
}

impl Log {
    /// Whether more can come: a process owns the sandbox.
    pub fn is_live(&self, home: &Home) -> bool {
        registry::owner(home, self.sandbox).is_some()
    }

    /// Opens it at its beginning. Fails where it cannot be read.
    pub fn open(&self) -> Result<Reader, FileError> {
        Reader::open(&self.path)
    }
}

/// Reads a log that may be growing.
#[derive(Debug)]
pub struct Reader {
    file: File,
    path: PathBuf,
    lines: LineFramer,
}

impl Reader {
    pub(crate) fn open(path: &Path) -> Result<Self, FileError> {
        Ok(Self {
            file: open(path)?,
            path: path.to_owned(),
            lines: LineFramer::new(MAX_LINE),
        })
    }

    /// Of what is in it now nothing is given.
    pub(crate) fn at_end(path: &Path) -> Result<Self, FileError> {
        let mut reader = Self::open(path)?;
        let end = reader.file.seek(SeekFrom::End(0));
        end.context("read", path)?;
        Ok(reader)
    }

    /// Gives every whole line that came since the last call to `each`. A line that is half written is
    /// given when its end has come.
    pub fn read(&mut self, mut each: impl FnMut(&[u8])) -> Result<(), FileError> {
        let mut piece = vec![0; PIECE];
        loop {
            match self.file.read(&mut piece) {
                Ok(0) => return Ok(()),
                Ok(count) => self.lines.push(&piece[..count], |line| {
                    if !line.bytes.is_empty() && !line.truncated {
                        each(line.bytes);
                    }
                }),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(FileError::new("read", &self.path, error)),
            }
        }
    }
}

/// Where an entry's program wanted to go, in the words of [`Refused::what`]; none where it says no place.
pub fn destination(entry: &Entry) -> Option<String> {
    let mut text = match (&entry.name, entry.address, entry.port) {
        (Some(name), _, Some(port)) => format!("{name}:{port}"),
        (Some(name), _, None) => name.clone(),
        (None, Some(address), Some(port)) => SocketAddr::new(address, port).to_string(),
        (None, Some(address), None) => address.to_string(),
        (None, None, _) => return None,
    };
    if let Some(protocol) = entry.protocol.as_deref().filter(|name| *name != "tcp") {
        text.push(' ');
        text.push_str(protocol);
    }
    Some(text)
}

/// What a line says that was refused, once.
pub(crate) fn refused(line: &[u8]) -> Option<Refused> {
    refused_at(line).map(|(_, refused)| refused)
}

/// The same, and when.
pub(crate) fn refused_at(line: &[u8]) -> Option<(Timestamp, Refused)> {
    let entry = parse(line).filter(|entry| entry.verdict == Some(Verdict::Refused))?;
    let refused = Refused {
        what: destination(&entry)?,
        reason: entry.reason.unwrap_or_default(),
        opens: entry.opens,
        count: 1,
    };
    Some((entry.at, refused))
}

/// A line that makes sense.
pub fn parse(line: &[u8]) -> Option<Entry> {
    serde_json::from_slice(line).ok()
}

fn files(home: &Home) -> Result<Vec<(PathBuf, SandboxId)>, FileError> {
    let directory = home.net();
    let entries = match std::fs::read_dir(&directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.context("read", &directory)?,
    };
    let mut files = Vec::new();
    for entry in entries {
        let entry = entry.context("read", &directory)?;
        let name = entry.file_name();
        let id = name.to_str().and_then(|name| name.strip_suffix(".jsonl"));
        if let Some(id) = id.and_then(|id| id.parse().ok()) {
            files.push((entry.path(), id));
        }
    }
    Ok(files)
}

/// Says whose log it is; none where the file does not begin as a log does.
fn first_line(path: &Path) -> Option<Entry> {
    let mut line = Vec::new();
    let mut reader = BufReader::with_capacity(4096, open(path).ok()?).take(MAX_LINE as u64);
    reader.read_until(b'\n', &mut line).ok()?;
    parse(&line).filter(|entry| entry.event == Event::Sandbox)
}

fn open(path: &Path) -> Result<File, FileError> {
    File::options()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)
        .context("open", path)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::fsx;

    struct World {
        directory: tempfile::TempDir,
        home: Home,
    }

    fn place() -> World {
        let directory = tempfile::tempdir().unwrap();
        let home = Home::new(directory.path().join("home"));
        fsx::private_dir(&home.net()).unwrap();
        World { directory, home }
    }

    impl World {
        fn repository(&self) -> RepoPath {
            RepoPath::resolve(self.directory.path()).unwrap()
        }

        fn log(&self, name: &str, repository: &str, second: i64) -> SandboxId {
            let id = SandboxId::random().unwrap();
            let mut entry = Entry::new(Timestamp::from_second(second).unwrap(), Event::Sandbox);
            entry.name = Some(name.to_owned());
            entry.repository = Some(repository.to_owned());
            let mut line = serde_json::to_vec(&entry).unwrap();
            line.push(b'\n');
            fsx::write_private(&self.home.network_log(id), &line).unwrap();
            id
        }
    }

    #[test]
    fn the_newest_of_that_name_in_that_repository_is_found() {
        let place = place();
        let repository = place.repository();
        let here = repository.as_path().display().to_string();
        let find = |name: Option<&str>| {
            let found = find(&place.home, &repository, name);
            found.map(|log| log.sandbox).ok()
        };
        assert_eq!((find(None), find(Some("a"))), (None, None));
        let old = place.log("a", &here, 100);
        let new = place.log("a", &here, 200);
        let other = place.log("b", &here, 150);
        place.log("a", "/elsewhere", 300);
        fsx::write_private(
            &place.home.network_log(SandboxId::random().unwrap()),
            b"junk",
        )
        .unwrap();
        fsx::write_private(&place.home.net().join("x.jsonl"), b"junk").unwrap();
        assert_eq!(find(Some("a")), Some(new));
        assert_eq!(find(Some("b")), Some(other));
        assert_eq!(find(Some(old.to_string().as_str())), Some(old));
        assert_eq!(find(None), Some(new));
        assert_eq!(find(Some("c")), None);
    }

    #[test]
    fn a_half_written_line_comes_when_it_is_whole() {
        let place = place();
        let here = place.repository().as_path().display().to_string();
        let id = place.log("a", &here, 100);
        let log = find(&place.home, &place.repository(), None).unwrap();
        assert!(!log.is_live(&place.home));
        let mut reader = log.open().unwrap();
        let mut read = || -> Vec<Vec<u8>> {
            let mut lines = Vec::new();
            reader.read(|line| lines.push(line.to_vec())).unwrap();
            lines
        };
        assert_eq!(read().len(), 1);
        let path = place.home.network_log(id);
        let mut file = File::options().append(true).open(path).unwrap();
        file.write_all(b"{\"at\":\"1970-01-01T00:00:01Z\",")
            .unwrap();
        assert_eq!(read().len(), 0);
        file.write_all(b"\"event\":\"gap\",\"count\":3,\"new\":1}\n\nnot json\n{")
            .unwrap();
        let lines = read();
        let parsed: Vec<_> = lines.iter().map(|line| parse(line)).collect();
        assert_eq!(parsed.len(), 2);
        assert_eq!(parsed[0].as_ref().and_then(|entry| entry.count), Some(3));
        assert_eq!(parsed[1], None);
        file.write_all(&[b"x".repeat(MAX_LINE + 1), b"\n{\"a\":1}\n".to_vec()].concat())
            .unwrap();
        assert_eq!(read(), [b"{\"a\":1}"]);
    }
}
