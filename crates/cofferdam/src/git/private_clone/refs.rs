//! The quick look: refs of a private clone, read as files. Everything below the directory is
//! hostile, so names are resolved beneath it, only regular files are read, and all is bounded.

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Dir, FileType};
use rustix::io::Errno;

use crate::git::{ObjectFormat, Oid, beneath};

/// Bounds of what is read. A repository that exceeds them is collected by the slow way.
const REFS: usize = 20_000;
const DEPTH: usize = 40;
const ENTRIES: usize = 100_000;
const LOOSE: u64 = 4096;
const PACKED: u64 = 16 << 20;

/// What HEAD of a private clone says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PrivateHead {
    /// The full name of the ref it points at; hostile bytes.
    Symbolic(Vec<u8>),
    Detached(Oid),
}

/// The refs of a private clone. Names are full (`refs/heads/…`) and hostile bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrivateRefs {
    pub head: PrivateHead,
    pub refs: BTreeMap<Vec<u8>, Oid>,
}

impl PrivateRefs {
    /// The commit that HEAD names, if its branch exists.
    pub fn head_commit(&self) -> Option<&Oid> {
        match &self.head {
            PrivateHead::Symbolic(name) => self.refs.get(name),
            PrivateHead::Detached(oid) => Some(oid),
        }
    }
}

/// The refs cannot be read as files; they may still be read by git in a jail.
#[derive(Debug, thiserror::Error)]
pub enum RefsError {
    #[error("{} in the sandbox's git directory cannot be read: {source}", name.display())]
    Unreadable {
        name: PathBuf,
        source: std::io::Error,
    },
    #[error("{} in the sandbox's git directory is larger than it may be", name.display())]
    TooLarge { name: PathBuf },
    #[error("{} in the sandbox's git directory is not what git writes", name.display())]
    Malformed { name: PathBuf },
    #[error("the sandbox's git directory has too many refs")]
    TooMany,
    #[error(
        "the sandbox's git directory stores its refs in the reftable format, which is not read"
    )]
    Tables,
}

/// Reads HEAD, loose refs and packed refs below `git_dir`.
pub fn read_refs(git_dir: &Path, format: ObjectFormat) -> Result<PrivateRefs, RefsError> {
    let root = beneath::root(git_dir).map_err(|errno| unreadable(git_dir, errno))?;
    if beneath::directory(&root, Path::new("reftable")).is_ok() {
        return Err(RefsError::Tables);
    }
    let mut reader = Reader {
        root: root.as_fd(),
        format,
        seen: 0,
        symbolic: Vec::new(),
    };
    let mut refs = reader.packed()?;
    reader.loose(&mut refs)?;
    reader.resolve_symbolic(&mut refs);
    let name = Path::new("HEAD");
    let head = match reader.value(name)? {
        Value::Direct(oid) => PrivateHead::Detached(oid),
        Value::Symbolic(target) => PrivateHead::Symbolic(target),
    };
    Ok(PrivateRefs { head, refs })
}

struct Reader<'a> {
    root: std::os::fd::BorrowedFd<'a>,
    format: ObjectFormat,
    seen: usize,
    symbolic: Vec<(Vec<u8>, Vec<u8>)>,
}

enum Value {
    Direct(Oid),
    Symbolic(Vec<u8>),
}

impl Reader<'_> {
    fn oid(&self, text: &[u8]) -> Option<Oid> {
        let oid = std::str::from_utf8(text).ok()?.parse::<Oid>().ok()?;
        (oid.as_str().len() == self.format.hex_len()).then_some(oid)
    }

    fn value(&self, name: &Path) -> Result<Value, RefsError> {
        let malformed = || RefsError::Malformed {
            name: name.to_owned(),
        };
        let bytes = beneath::read(self.root, name, LOOSE)
            .map_err(|errno| unreadable(name, errno))?
            .ok_or_else(|| RefsError::TooLarge {
                name: name.to_owned(),
            })?;
        let text = bytes.trim_ascii_end();
        if let Some(target) = text.strip_prefix(b"ref:") {
            return Ok(Value::Symbolic(target.trim_ascii().to_owned()));
        }
        let end = text
            .iter()
            .position(u8::is_ascii_whitespace)
            .unwrap_or(text.len());
        self.oid(&text[..end])
            .map(Value::Direct)
            .ok_or_else(malformed)
    }

    fn packed(&self) -> Result<BTreeMap<Vec<u8>, Oid>, RefsError> {
        let name = Path::new("packed-refs");
        let bytes = match beneath::read(self.root, name, PACKED) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => {
                return Err(RefsError::TooLarge {
                    name: name.to_owned(),
                });
            }
            Err(Errno::NOENT) => return Ok(BTreeMap::new()),
            Err(errno) => return Err(unreadable(name, errno)),
        };
        let mut refs = BTreeMap::new();
        for line in bytes.split(|&b| b == b'\n') {
            if line.is_empty() || line.starts_with(b"#") || line.starts_with(b"^") {
                continue;
            }
            let malformed = || RefsError::Malformed {
                name: name.to_owned(),
            };
            let space = line.iter().position(|&b| b == b' ').ok_or_else(malformed)?;
            let oid = self.oid(&line[..space]).ok_or_else(malformed)?;
            if refs.len() == REFS {
                return Err(RefsError::TooMany);
            }
            refs.insert(line[space + 1..].to_owned(), oid);
        }
        Ok(refs)
    }

    fn loose(&mut self, refs: &mut BTreeMap<Vec<u8>, Oid>) -> Result<(), RefsError> {
        let mut pending = vec![(PathBuf::from("refs"), 0)];
        while let Some((path, depth)) = pending.pop() {
            let directory = match beneath::directory(self.root, &path) {
                Ok(directory) => directory,
                // Emptied and removed meanwhile.
                Err(Errno::NOENT) if depth > 0 => continue,
                Err(errno) => return Err(unreadable(&path, errno)),
            };
            let entries = Dir::new(directory).map_err(|errno| unreadable(&path, errno))?;
            for entry in entries {
                let entry = entry.map_err(|errno| unreadable(&path, errno))?;
                let bytes = entry.file_name().to_bytes();
                if matches!(bytes, b"." | b"..") {
                    continue;
                }
                self.seen += 1;
                if self.seen > ENTRIES || refs.len() >= REFS {
                    return Err(RefsError::TooMany);
                }
                let name = path.join(std::ffi::OsStr::from_bytes(bytes));
                match entry.file_type() {
                    FileType::Directory if depth < DEPTH => pending.push((name, depth + 1)),
                    FileType::Directory => return Err(RefsError::TooMany),
                    // A file that git is about to rename.
                    FileType::RegularFile if bytes.ends_with(b".lock") => {}
                    FileType::RegularFile | FileType::Unknown => {
                        let full = name.as_os_str().as_bytes().to_owned();
                        match self.value(&name)? {
                            Value::Direct(oid) => {
                                refs.insert(full, oid);
                            }
                            Value::Symbolic(target) => {
                                refs.remove(&full);
                                self.symbolic.push((full, target));
                            }
                        }
                    }
                    _ => return Err(RefsError::Malformed { name }),
                }
            }
        }
        Ok(())
    }

    /// Five levels, as git does. What then still points nowhere has no commit.
    fn resolve_symbolic(&mut self, refs: &mut BTreeMap<Vec<u8>, Oid>) {
        for _ in 0..5 {
            for (name, target) in &self.symbolic {
                if let Some(oid) = refs.get(target).cloned() {
                    refs.insert(name.clone(), oid);
                }
            }
        }
    }
}

pub(super) fn unreadable(name: &Path, errno: Errno) -> RefsError {
    RefsError::Unreadable {
        name: name.to_owned(),
        source: errno.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    const A: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    const B: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

    fn git_dir() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("refs/heads/x")).unwrap();
        put(&dir, "HEAD", "ref: refs/heads/x/y\n");
        put(&dir, "refs/heads/x/y", &format!("{A}\n"));
        dir
    }

    fn put(dir: &tempfile::TempDir, name: &str, text: &str) {
        crate::fsx::write_private(&dir.path().join(name), text.as_bytes()).unwrap();
    }

    fn read(dir: &tempfile::TempDir) -> Result<PrivateRefs, RefsError> {
        read_refs(dir.path(), ObjectFormat::Sha1)
    }

    #[test]
    fn loose_wins_over_packed() {
        let dir = git_dir();
        let packed =
            format!("# pack-refs with: peeled\n{B} refs/heads/x/y\n{B} refs/tags/t\n^{A}\n");
        put(&dir, "packed-refs", &packed);
        put(&dir, "refs/heads/sym", "ref: refs/tags/t\n");
        let refs = read(&dir).unwrap();
        assert_eq!(refs.head_commit().unwrap().as_str(), A);
        assert_eq!(refs.refs[&b"refs/heads/sym"[..]].as_str(), B);
        assert_eq!(refs.refs.len(), 3);
    }

    #[test]
    fn nothing_outside_is_read() {
        let secret = tempfile::tempdir().unwrap();
        put(&secret, "oid", &format!("{B}\n"));
        for place in ["refs/heads/evil", "packed-refs", "HEAD"] {
            let dir = git_dir();
            let path = dir.path().join(place);
            let _ = fs::remove_file(&path);
            symlink(secret.path().join("oid"), &path).unwrap();
            assert!(read(&dir).is_err(), "{place}");
        }
        let dir = git_dir();
        fs::remove_dir_all(dir.path().join("refs")).unwrap();
        fs::create_dir_all(secret.path().join("heads")).unwrap();
        symlink(secret.path(), dir.path().join("refs")).unwrap();
        assert!(read(&dir).is_err());
    }

    #[test]
    fn pipes_and_floods_end_at_once() {
        let dir = git_dir();
        let pipe = dir.path().join("refs/heads/pipe");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        assert!(matches!(read(&dir), Err(RefsError::Malformed { .. })));
        fs::remove_file(&pipe).unwrap();
        put(&dir, "refs/heads/big", &"a".repeat(5000));
        assert!(matches!(read(&dir), Err(RefsError::TooLarge { .. })));
        put(&dir, "refs/heads/big", "ref: refs/heads/big");
        assert!(read(&dir).is_ok());
        let lines: Vec<_> = (0..=REFS).map(|n| format!("{A} refs/x/{n}\n")).collect();
        put(&dir, "packed-refs", &lines.concat());
        assert!(matches!(read(&dir), Err(RefsError::TooMany)));
    }

    #[test]
    fn another_format_is_refused() {
        let dir = git_dir();
        assert!(read_refs(dir.path(), ObjectFormat::Sha256).is_err());
        fs::create_dir(dir.path().join("reftable")).unwrap();
        assert!(matches!(read(&dir), Err(RefsError::Tables)));
    }
}
