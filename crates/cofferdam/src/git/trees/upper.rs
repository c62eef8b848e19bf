//! What an upper directory says was changed. Whoever worked in it chose every name there.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType};
use rustix::io::Errno;

use crate::fsx::beneath;

/// Of which family is the mounter's doing, and both are looked at: one that counts for nothing costs time alone.
const FAMILIES: [&str; 2] = ["trusted", "user"];

/// A path with more bytes the kernel does not open, and so git does not, which begins at the top of the files.
const LONGEST: usize = 4_095;

/// Every name of an upper directory, below its top.
#[derive(Debug, Default)]
pub struct Upper {
    /// Files and symlinks; of a git directory of any kind below the top its own name alone.
    pub files: Vec<PathBuf>,
    /// What is gone, and what git never sees: below these names the layers show nothing any more.
    pub others: Vec<PathBuf>,
    /// Where directories are.
    pub directories: Vec<PathBuf>,
    /// A pipe in the place of `.gitignore` and the like: git opens it by its name alone, and waits for ever.
    pub trap: Option<PathBuf>,
}

/// Reads it without leaving it. `None`: it has more than `most` names, one that cannot be read or is too long for git, or a directory that shows
/// another one's files (`redirect`), so that its own names do not say what was changed.
pub fn names(upper: &Path, most: usize) -> Option<Upper> {
    let root = beneath::root(upper).ok()?;
    let mut found = Upper::default();
    let mut left = most;
    let mut open = vec![PathBuf::new()];
    while let Some(path) = open.pop() {
        let directory = beneath::directory(&root, &path).ok()?;
        for entry in Dir::read_from(&directory).ok()? {
            let entry = entry.ok()?;
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            left = left.checked_sub(1)?;
            let at_top = path.as_os_str().is_empty();
            let is_git = name.to_bytes() == b".git";
            let kind = rustix::fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW)
                .ok()?
                .st_mode;
            let is_trap = name.to_bytes().starts_with(b".git");
            let name = path.join(OsStr::from_bytes(name.to_bytes()));
            if name.as_os_str().len() > LONGEST {
                return None;
            }
            match FileType::from_raw_mode(kind) {
                // Where the sandbox's git directory is mounted.
                _ if is_git && at_top => {}
                FileType::RegularFile | FileType::Symlink => found.files.push(name),
                FileType::Directory if is_git => found.files.push(name),
                FileType::Directory => {
                    match shows(&root, &name)? {
                        Shows::Both => {}
                        Shows::Own => found.others.push(name.clone()),
                    }
                    found.directories.push(name.clone());
                    open.push(name);
                }
                FileType::Fifo if is_trap => found.trap = Some(name),
                _ => found.others.push(name),
            }
        }
    }
    Some(found)
}

/// Whether git would miss something in it: a path that is too long. However many names there are, only directories are
/// looked into.
pub fn is_too_deep(upper: &Path) -> bool {
    let Ok(root) = beneath::root(upper) else {
        return false;
    };
    let mut open = vec![PathBuf::new()];
    while let Some(path) = open.pop() {
        // One that nobody may read is told elsewhere.
        let Ok(entries) = beneath::directory(&root, &path).and_then(|one| Dir::read_from(&one))
        else {
            continue;
        };
        for entry in entries.flatten() {
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            let name = path.join(OsStr::from_bytes(name.to_bytes()));
            if name.as_os_str().len() > LONGEST {
                return true;
            }
            if matches!(entry.file_type(), FileType::Directory | FileType::Unknown) {
                open.push(name);
            }
        }
    }
    false
}

/// What is seen in a directory of the upper one.
enum Shows {
    /// What it has and what the layers have.
    Both,
    /// What it has (`opaque`).
    Own,
}

/// `None`: another directory's files, or it cannot be told.
fn shows(root: impl AsFd, path: &Path) -> Option<Shows> {
    let directory = beneath::directory(root, path).ok()?;
    let mut shows = Shows::Both;
    for family in FAMILIES {
        if has(&directory, &format!("{family}.overlay.redirect"))? {
            return None;
        }
        if has(&directory, &format!("{family}.overlay.opaque"))? {
            shows = Shows::Own;
        }
    }
    Some(shows)
}

fn has(directory: &OwnedFd, attribute: &str) -> Option<bool> {
    let mut value = [0u8; 1];
    match rustix::fs::fgetxattr(directory, attribute, &mut value[..]) {
        Ok(_) | Err(Errno::RANGE) => Some(true),
        Err(Errno::NODATA | Errno::OPNOTSUPP) => Some(false),
        Err(_) => None,
    }
}
