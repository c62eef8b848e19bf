//! The quick look: refs of a private clone, read as files. Everything below the directory is
//! hostile, so names are resolved beneath it, only regular files are read, and all is bounded.
//!
//! One odd file hides no other: what cannot be read is listed, and the rest is read.

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Dir, FileType};
use rustix::io::Errno;

use crate::fsx::beneath;
use crate::git::{ObjectFormat, Oid};

/// Bounds of what is read. Where there is more, that is among the oddities.
const REFS: usize = 20_000;
const DEPTH: usize = 40;
const ENTRIES: usize = 100_000;
const LOOSE: u64 = 4096;
const PACKED: u64 = 16 << 20;
/// What a stash is called that a log alone names.
pub const STASH: &[u8] = b"a stash";
/// So many oddities tell enough.
const ODD: usize = 10;

/// What HEAD of a private clone says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PrivateHead {
    /// The full name of the ref it points at; hostile bytes.
    Symbolic(Vec<u8>),
    /// No branch: this commit.
    Detached(Oid),
}

/// The refs of a private clone. Names are full (`refs/heads/…`) and hostile bytes.
#[derive(Debug, Default)]
pub struct PrivateRefs {
    /// `None`: it cannot be read.
    pub head: Option<PrivateHead>,
    /// Where each one is.
    pub refs: BTreeMap<Vec<u8>, Oid>,
    /// What only a linked worktree's HEAD or the list of stashes names; names for a person, as hostile.
    pub others: Vec<(Vec<u8>, Oid)>,
    /// What could not be read: commits may hide there.
    pub odd: Vec<RefsError>,
}

impl PrivateRefs {
    /// The commit that HEAD names, if its branch exists.
    pub fn head_commit(&self) -> Option<&Oid> {
        match self.head.as_ref()? {
            PrivateHead::Symbolic(name) => self.refs.get(name),
            PrivateHead::Detached(oid) => Some(oid),
        }
    }
}

/// Something in a sandbox's git directory cannot be read as a file of git's.
#[derive(Debug, thiserror::Error)]
pub enum RefsError {
    /// The system does not let it be read.
    #[error(
        "`{}` in the sandbox's git directory cannot be read: {source}",
        shown(name)
    )]
    Unreadable {
        /// Below the git directory.
        name: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// More than any file of its kind has.
    #[error(
        "`{}` in the sandbox's git directory is larger than it may be",
        shown(name)
    )]
    TooLarge {
        /// Below the git directory.
        name: PathBuf,
    },
    /// It has another form.
    #[error(
        "`{}` in the sandbox's git directory is not what git writes",
        shown(name)
    )]
    Malformed {
        /// Below the git directory.
        name: PathBuf,
    },
    /// More than a sandbox of honest work has.
    #[error("the sandbox's git directory has too many files or refs")]
    TooMany,
    /// Git's other store of refs, which a sandbox never begins with.
    #[error(
        "the sandbox's git directory stores its refs in the reftable format, which is not read"
    )]
    Tables,
    /// It had a branch when it was made.
    #[error("the sandbox's git directory names no commit any more")]
    NoCommit,
}

impl RefsError {
    /// Whether this machine, and not the sandbox, is the cause: then another try may do better.
    pub fn is_of_the_host(&self) -> bool {
        let Self::Unreadable { source, .. } = self else {
            return false;
        };
        Errno::from_io_error(source).is_some_and(|errno| {
            [
                Errno::IO,
                Errno::NOMEM,
                Errno::MFILE,
                Errno::NFILE,
                Errno::NOSPC,
            ]
            .contains(&errno)
        })
    }
}

fn shown(name: &Path) -> String {
    crate::text::printable_bytes_line(name.as_os_str().as_bytes())
}

/// Reads HEAD, loose refs, packed refs, stashes and linked worktrees below `git_dir`. `own` is the ref
/// that is read even where there are too many others. An error is the host's alone.
pub fn read_refs(
    git_dir: &Path,
    format: ObjectFormat,
    own: Option<&str>,
) -> Result<PrivateRefs, RefsError> {
    let root = beneath::root(git_dir).map_err(|errno| unreadable(git_dir, errno))?;
    let mut reader = Reader {
        root: root.as_fd(),
        format,
        seen: 0,
        symbolic: Vec::new(),
        odd: Vec::new(),
    };
    if beneath::directory(&root, Path::new("reftable")).is_ok() {
        reader.note(RefsError::Tables)?;
    }
    let mut refs = reader.packed()?;
    let head = match reader.value(Path::new("HEAD")) {
        Ok(Value::Direct(oid)) => Some(PrivateHead::Detached(oid)),
        Ok(Value::Symbolic(target)) => Some(PrivateHead::Symbolic(target)),
        Err(error) => {
            reader.note(error)?;
            None
        }
    };
    reader.loose(&mut refs)?;
    let checked_out = match &head {
        Some(PrivateHead::Symbolic(name)) => Some(name.as_slice()),
        _ => None,
    };
    for name in [checked_out, own.map(str::as_bytes)].into_iter().flatten() {
        let path = Path::new(std::ffi::OsStr::from_bytes(name));
        if name.starts_with(b"refs/")
            && !refs.contains_key(name)
            && let Ok(Value::Direct(oid)) = reader.value(path)
        {
            refs.insert(name.to_owned(), oid);
        }
    }
    let mut others = reader.stashes()?;
    others.extend(reader.worktrees()?);
    reader.resolve_symbolic(&mut refs);
    let mut found = PrivateRefs {
        head,
        refs,
        others,
        odd: reader.odd,
    };
    if found.refs.is_empty() && found.head_commit().is_none() && found.odd.is_empty() {
        found.odd.push(RefsError::NoCommit);
    }
    Ok(found)
}

struct Reader<'a> {
    root: std::os::fd::BorrowedFd<'a>,
    format: ObjectFormat,
    seen: usize,
    symbolic: Vec<(Vec<u8>, Vec<u8>)>,
    odd: Vec<RefsError>,
}

enum Value {
    Direct(Oid),
    Symbolic(Vec<u8>),
}

impl Reader<'_> {
    /// Lists what cannot be read; an error of the host's ends the reading.
    fn note(&mut self, error: RefsError) -> Result<(), RefsError> {
        if error.is_of_the_host() {
            return Err(error);
        }
        if self.odd.len() < ODD {
            self.odd.push(error);
        }
        Ok(())
    }

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

    /// The lines of a file that need not be there.
    fn lines(&mut self, name: &Path) -> Result<Vec<Vec<u8>>, RefsError> {
        match beneath::read(self.root, name, PACKED) {
            Ok(Some(bytes)) => {
                let lines = bytes.split(|&b| b == b'\n').filter(|line| !line.is_empty());
                return Ok(lines.map(<[u8]>::to_vec).collect());
            }
            Ok(None) => self.note(RefsError::TooLarge { name: name.into() })?,
            Err(Errno::NOENT) => {}
            Err(errno) => self.note(unreadable(name, errno))?,
        }
        Ok(Vec::new())
    }

    fn packed(&mut self) -> Result<BTreeMap<Vec<u8>, Oid>, RefsError> {
        let name = Path::new("packed-refs");
        let mut refs = BTreeMap::new();
        for line in self.lines(name)? {
            if line.starts_with(b"#") || line.starts_with(b"^") {
                continue;
            }
            let space = line.iter().position(|&b| b == b' ').unwrap_or(line.len());
            match (self.oid(&line[..space]), line.get(space + 1..)) {
                _ if refs.len() == REFS => {
                    self.note(RefsError::TooMany)?;
                    break;
                }
                (Some(oid), Some(full)) => {
                    refs.insert(full.to_owned(), oid);
                }
                _ => self.note(RefsError::Malformed { name: name.into() })?,
            }
        }
        Ok(refs)
    }

    /// All but the newest stash are named by a log alone.
    fn stashes(&mut self) -> Result<Vec<(Vec<u8>, Oid)>, RefsError> {
        let lines = self.lines(Path::new("logs/refs/stash"))?;
        let news = lines.iter().filter_map(|line| {
            let new = line.split(|&b| b == b' ').nth(1)?;
            Some((STASH.to_vec(), self.oid(new)?))
        });
        Ok(news.take(REFS).collect())
    }

    fn worktrees(&mut self) -> Result<Vec<(Vec<u8>, Oid)>, RefsError> {
        let directory = match beneath::directory(self.root, Path::new("worktrees")) {
            Ok(directory) => directory,
            Err(Errno::NOENT) => return Ok(Vec::new()),
            Err(errno) => {
                self.note(unreadable(Path::new("worktrees"), errno))?;
                return Ok(Vec::new());
            }
        };
        let entries =
            Dir::new(directory).map_err(|errno| unreadable("worktrees".as_ref(), errno))?;
        let mut found = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|errno| unreadable("worktrees".as_ref(), errno))?;
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            self.seen += 1;
            if self.seen > ENTRIES {
                self.note(RefsError::TooMany)?;
                break;
            }
            let head = Path::new("worktrees")
                .join(std::ffi::OsStr::from_bytes(name))
                .join("HEAD");
            match self.value(&head) {
                Ok(Value::Direct(oid)) => {
                    found.push(([b"the worktree ", name].concat(), oid));
                }
                Ok(Value::Symbolic(_)) => {}
                Err(error) => self.note(error)?,
            }
        }
        Ok(found)
    }

    fn loose(&mut self, refs: &mut BTreeMap<Vec<u8>, Oid>) -> Result<(), RefsError> {
        let mut pending = vec![(PathBuf::from("refs"), 0)];
        while let Some((path, depth)) = pending.pop() {
            let directory = match beneath::directory(self.root, &path) {
                Ok(directory) => directory,
                // Emptied and removed meanwhile.
                Err(Errno::NOENT) if depth > 0 => continue,
                Err(errno) => {
                    self.note(unreadable(&path, errno))?;
                    continue;
                }
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
                    return self.note(RefsError::TooMany);
                }
                let name = path.join(std::ffi::OsStr::from_bytes(bytes));
                match entry.file_type() {
                    FileType::Directory if depth < DEPTH => pending.push((name, depth + 1)),
                    FileType::Directory => self.note(RefsError::TooMany)?,
                    // A file that git is about to rename.
                    FileType::RegularFile if bytes.ends_with(b".lock") => {}
                    FileType::RegularFile | FileType::Unknown => {
                        let full = name.as_os_str().as_bytes().to_owned();
                        match self.value(&name) {
                            Ok(Value::Direct(oid)) => {
                                refs.insert(full, oid);
                            }
                            Ok(Value::Symbolic(target)) => {
                                refs.remove(&full);
                                self.symbolic.push((full, target));
                            }
                            Err(error) => self.note(error)?,
                        }
                    }
                    _ => self.note(RefsError::Malformed { name })?,
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

    fn read(dir: &tempfile::TempDir) -> PrivateRefs {
        read_refs(dir.path(), ObjectFormat::Sha1, Some("refs/heads/x/y")).unwrap()
    }

    /// There is one oddity, and what is beside it was read.
    fn check_odd(dir: &tempfile::TempDir, want: &str) {
        let refs = read(dir);
        assert_eq!(refs.refs[&b"refs/heads/x/y"[..]].as_str(), A);
        assert!(refs.odd[0].to_string().contains(want), "{:?}", refs.odd);
    }

    /// As if nobody had committed, although somebody may have.
    #[test]
    fn a_directory_without_a_reference_is_odd() {
        let dir = git_dir();
        assert!(read(&dir).odd.is_empty());
        fs::remove_dir_all(dir.path().join("refs/heads/x")).unwrap();
        assert!(matches!(read(&dir).odd[..], [RefsError::NoCommit]));
        // HEAD alone is enough, and so is any other branch.
        put(&dir, "HEAD", &format!("{A}\n"));
        assert!(read(&dir).odd.is_empty());
        put(&dir, "HEAD", "ref: refs/heads/new\n");
        put(&dir, "packed-refs", &format!("{A} refs/heads/z\n"));
        assert!(read(&dir).odd.is_empty());
    }

    #[test]
    fn loose_wins_over_packed() {
        let dir = git_dir();
        let packed =
            format!("# pack-refs with: peeled\n{B} refs/heads/x/y\n{B} refs/tags/t\n^{A}\n");
        put(&dir, "packed-refs", &packed);
        put(&dir, "refs/heads/sym", "ref: refs/tags/t\n");
        let refs = read(&dir);
        assert_eq!(refs.head_commit().unwrap().as_str(), A);
        assert_eq!(refs.refs[&b"refs/heads/sym"[..]].as_str(), B);
        assert_eq!(refs.refs.len(), 3);
        assert!(refs.odd.is_empty() && refs.others.is_empty());
    }

    #[test]
    fn stashes_and_worktrees_are_found() {
        let dir = git_dir();
        fs::create_dir_all(dir.path().join("logs/refs")).unwrap();
        fs::create_dir_all(dir.path().join("worktrees/w")).unwrap();
        let zero = "0".repeat(40);
        put(
            &dir,
            "logs/refs/stash",
            &format!("{zero} {A} x\n{A} {B} x\n"),
        );
        put(&dir, "worktrees/w/HEAD", &format!("{B}\n"));
        let found = read(&dir).others;
        let names: Vec<_> = found.iter().map(|(name, _)| name.as_slice()).collect();
        assert_eq!(names, [&b"a stash"[..], b"a stash", b"the worktree w"]);
        assert_eq!(found[1].1.as_str(), B);
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
            check_odd(&dir, place);
            assert!(!read(&dir).refs.values().any(|oid| oid.as_str() == B));
        }
        let dir = git_dir();
        fs::remove_dir_all(dir.path().join("refs")).unwrap();
        fs::create_dir_all(secret.path().join("heads")).unwrap();
        symlink(secret.path(), dir.path().join("refs")).unwrap();
        let refs = read(&dir);
        assert!(refs.refs.is_empty() && !refs.odd.is_empty());
    }

    #[test]
    fn pipes_and_floods_end_at_once_and_hide_nothing() {
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
        check_odd(
            &dir,
            "refs/heads/pipe` in the sandbox's git directory is not",
        );
        fs::remove_file(&pipe).unwrap();
        put(&dir, "refs/heads/a\nb", "no id\n");
        check_odd(&dir, "refs/heads/a\\nb");
        fs::remove_file(dir.path().join("refs/heads/a\nb")).unwrap();
        put(&dir, "refs/heads/big", &"a".repeat(5000));
        check_odd(&dir, "larger than it may be");
        put(&dir, "refs/heads/big", "ref: refs/heads/big");
        assert!(read(&dir).odd.is_empty());
        let lines: Vec<_> = (0..=REFS).map(|n| format!("{B} refs/x/{n}\n")).collect();
        put(&dir, "packed-refs", &lines.concat());
        check_odd(&dir, "too many");
    }

    #[test]
    fn another_format_is_told() {
        let dir = git_dir();
        let refs = read_refs(dir.path(), ObjectFormat::Sha256, None).unwrap();
        assert!(refs.refs.is_empty() && refs.odd.len() == 1);
        fs::create_dir(dir.path().join("reftable")).unwrap();
        assert!(matches!(read(&dir).odd[..], [RefsError::Tables]));
    }

    /// Whatever is in the files that git writes there: what is found is of the format, within the bounds, and hides
    /// no commit of a file beside it. The first byte of an input says which file holds the rest.
    #[test]
    fn fuzz_private_refs() {
        const PLACES: [&str; 5] = [
            "HEAD",
            "packed-refs",
            "refs/heads/a",
            "logs/refs/stash",
            "worktrees/w/HEAD",
        ];
        let dir = git_dir();
        for made in ["logs/refs", "worktrees/w"] {
            fs::create_dir_all(dir.path().join(made)).unwrap();
        }
        let zero = "0".repeat(40);
        let texts = [
            "ref: refs/heads/x/y\n".to_owned(),
            format!("# pack-refs with: peeled\n{B} refs/heads/a\n{B} refs/tags/t\n^{B}\n"),
            format!("{B}\n"),
            format!("{zero} {B} x <x> 1 +0000\tWIP\n"),
            format!("{B}\n"),
        ];
        let seeds: Vec<Vec<u8>> = (0..)
            .zip(&texts)
            .map(|(place, text): (u8, _)| [&[place], text.as_bytes()].concat())
            .collect();
        let tell = |input: &[u8]| {
            let (place, text) = input.split_first().unwrap_or((&0, &[]));
            let place = dir.path().join(PLACES[usize::from(*place) % PLACES.len()]);
            crate::fsx::write_private(&place, text).unwrap();
            let refs = read(&dir);
            fs::remove_file(&place).unwrap();
            refs
        };
        // The seeds are what they look like.
        let told: Vec<_> = seeds.iter().map(|seed| tell(seed)).collect();
        assert_eq!(told[0].head_commit().unwrap().as_str(), A);
        assert_eq!(told[1].refs.len(), 3);
        assert_eq!(told[2].refs[&b"refs/heads/a"[..]].as_str(), B);
        assert!(told[3].others.len() == 1 && told[4].others.len() == 1);
        cofferdam_lab::fuzz::mutate("private refs", &seeds, |input| {
            let found = tell(input);
            assert!(
                found.refs.len() <= REFS && found.others.len() <= REFS && found.odd.len() <= ODD
            );
            assert_eq!(found.refs[&b"refs/heads/x/y"[..]].as_str(), A);
            let named = found
                .refs
                .iter()
                .chain(found.others.iter().map(|(name, id)| (name, id)));
            assert!(named.into_iter().all(|(_, id)| id.as_str().len() == 40));
            for odd in &found.odd {
                let told = odd.to_string();
                assert_eq!(crate::text::printable_line(&told), told);
            }
        });
    }
}
