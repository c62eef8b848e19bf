//! Finding git directories below a checkout: each of them makes git execute what its configuration
//! says, so those that exist are read-only inside, and those an agent left are moved out. A directory
//! with the right entries is one too, whatever its name: git takes it for a bare repository.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Dir, FileType, Mode};
use rustix::io::Errno;

use super::beneath;
use crate::fsx::{Context, FileError};

/// What to do with a directory of the user's that cannot be listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closed {
    /// An agent can do with it what its user can.
    Skip,
    /// An agent may have closed it: its owner gets his rights back.
    Open,
}

/// Every path below `top` whose last component is `.git` in any case, and the `HEAD` of every other
/// directory that git takes for a repository, relative to `top`. The top's own `.git` and
/// `.cofferdam` are left out; pipes in the place of `.gitignore` and the like count with
/// [`Closed::Open`]; symlinks are not followed. What is deeper than a path can name is
/// skipped: git cannot reach it either.
pub fn scan(top: &Path, closed: Closed) -> Result<BTreeSet<PathBuf>, FileError> {
    let root = match beneath::root(top) {
        Err(Errno::ACCESS) if closed == Closed::Open => {
            let _ = rustix::fs::chmod(top, Mode::RWXU);
            beneath::root(top)
        }
        opened => opened,
    };
    let root = root.context("open", top)?;
    let mut found = BTreeSet::new();
    let mut pending = vec![PathBuf::new()];
    while let Some(path) = pending.pop() {
        let opened = match beneath::directory(&root, &path) {
            Err(Errno::ACCESS) if closed == Closed::Open => {
                let _ = beneath::open_up(&root, &path);
                beneath::directory(&root, &path)
            }
            opened => opened,
        };
        let directory = match opened {
            Ok(directory) => directory,
            Err(error) if path.as_os_str().is_empty() => {
                return Err(FileError::new("open", top, error.into()));
            }
            // Gone, replaced by a symlink, or out of reach.
            Err(
                Errno::NOENT
                | Errno::NOTDIR
                | Errno::LOOP
                | Errno::ACCESS
                | Errno::NAMETOOLONG
                | Errno::XDEV
                | Errno::AGAIN,
            ) => continue,
            Err(error) => return Err(FileError::new("open", top.join(path), error.into())),
        };
        let at_top = path.as_os_str().is_empty();
        let mut bare = Bare::default();
        let entries = Dir::new(directory).context("list", &path)?;
        for entry in entries {
            let entry = entry.context("list", &path)?;
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            let is_git = is_dot_git(Path::new(OsStr::from_bytes(name)));
            if at_top && (name == b".git" || name == b".cofferdam") {
                continue;
            }
            bare.look_at(name);
            // Only joined where it is needed: most entries are files of no interest.
            let below = || path.join(OsStr::from_bytes(name));
            // Git opens these by their names alone, and a pipe keeps it waiting for ever.
            let is_trap = || closed == Closed::Open && name.starts_with(b".git");
            if is_git || (entry.file_type() == FileType::Fifo && is_trap()) {
                found.insert(below());
            } else if matches!(entry.file_type(), FileType::Directory | FileType::Unknown) {
                pending.push(below());
            }
        }
        if let Some(head) = bare.head().filter(|_| !at_top) {
            found.insert(path.join(head));
        }
    }
    Ok(found)
}

/// Whether the last component is `.git` in any case.
pub fn is_dot_git(path: &Path) -> bool {
    path.file_name()
        .is_some_and(|name| name.eq_ignore_ascii_case(".git"))
}

/// The names by which git knows a git directory.
#[derive(Debug, Default)]
struct Bare {
    head: Option<OsString>,
    common: bool,
    objects: bool,
    refs: bool,
}

impl Bare {
    fn look_at(&mut self, name: &[u8]) {
        if name.eq_ignore_ascii_case(b"HEAD") {
            self.head = Some(OsStr::from_bytes(name).to_owned());
        }
        self.common |= name.eq_ignore_ascii_case(b"commondir");
        self.objects |= name.eq_ignore_ascii_case(b"objects");
        self.refs |= name.eq_ignore_ascii_case(b"refs");
    }

    fn head(self) -> Option<OsString> {
        self.head
            .filter(|_| self.common || (self.objects && self.refs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn every_case_and_kind() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path();
        for name in [
            ".git/sub",
            "a/.git/modules/.git",
            "b/c/.GiT",
            ".cofferdam/worktrees/w",
            "d",
        ] {
            fs::create_dir_all(top.join(name)).unwrap();
        }
        crate::fsx::write_private(&top.join("d/.git"), b"gitdir: x").unwrap();
        crate::fsx::write_private(&top.join(".cofferdam/worktrees/w/.git"), b"x").unwrap();
        crate::fsx::write_private(&top.join(".GIT"), b"x").unwrap();
        symlink("/nonexistent", top.join("b/.git")).unwrap();
        symlink(top.join("a"), top.join("link")).unwrap();
        crate::fsx::write_private(&top.join("d/.gitignore"), b"x").unwrap();
        let want = [".GIT", "a/.git", "b/.git", "b/c/.GiT", "d/.git"].map(PathBuf::from);
        assert_eq!(scan(top, Closed::Skip).unwrap(), BTreeSet::from(want));
    }

    #[test]
    fn what_git_takes_for_a_repository() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path();
        for name in ["objects", "refs", "a/objects", "a/refs", "b", "c/objects", "c/Head"] {
            fs::create_dir_all(top.join(name)).unwrap();
        }
        for name in ["HEAD", "a/HEAD", "b/HEAD", "b/commondir"] {
            crate::fsx::write_private(&top.join(name), b"ref: refs/heads/x").unwrap();
        }
        let want = ["a/HEAD", "b/HEAD"].map(PathBuf::from);
        assert_eq!(scan(top, Closed::Skip).unwrap(), BTreeSet::from(want));
    }

    #[test]
    fn depth_has_an_end() {
        let dir = tempfile::tempdir().unwrap();
        let mut at = beneath::root(dir.path()).unwrap();
        let mode = rustix::fs::Mode::from_raw_mode(0o700);
        for _ in 0..3000 {
            rustix::fs::mkdirat(&at, "d", mode).unwrap();
            at = beneath::directory(&at, Path::new("d")).unwrap();
        }
        fs::create_dir_all(dir.path().join("x/.git")).unwrap();
        assert_eq!(scan(dir.path(), Closed::Skip).unwrap(), BTreeSet::from(["x/.git".into()]));
        drop(at);
        crate::fsx::remove_tree(&dir.path().join("d")).unwrap();
    }
}
