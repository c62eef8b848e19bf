//! Finding `.git` entries below a checkout: each of them makes git execute what its configuration
//! says, so those that exist are read-only inside, and those an agent left are moved out.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Dir, FileType};
use rustix::io::Errno;

use super::beneath;
use crate::fsx::{Context, FileError};

/// Every path below `top` whose last component is `.git` in any case, relative to `top`. The top's
/// own `.git` and `.cofferdam` are left out; symlinks are not followed. What cannot be opened
/// (no permission, or deeper than a path can name) is skipped: git cannot reach it either.
pub fn scan(top: &Path) -> Result<BTreeSet<PathBuf>, FileError> {
    let root = beneath::root(top).context("open", top)?;
    let mut found = BTreeSet::new();
    let mut pending = vec![PathBuf::new()];
    while let Some(path) = pending.pop() {
        let directory = match beneath::directory(&root, &path) {
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
        let entries = Dir::new(directory).context("list", &path)?;
        for entry in entries {
            let entry = entry.context("list", &path)?;
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            let is_git = name.eq_ignore_ascii_case(b".git");
            if at_top && (name == b".git" || name == b".cofferdam") {
                continue;
            }
            // Only joined where it is needed: most entries are files of no interest.
            let below = || path.join(OsStr::from_bytes(name));
            if is_git {
                found.insert(below());
            } else if matches!(entry.file_type(), FileType::Directory | FileType::Unknown) {
                pending.push(below());
            }
        }
    }
    Ok(found)
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
        assert_eq!(scan(top).unwrap(), BTreeSet::from(want));
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
        assert_eq!(scan(dir.path()).unwrap(), BTreeSet::from(["x/.git".into()]));
        drop(at);
        crate::fsx::remove_tree(&dir.path().join("d")).unwrap();
    }
}
