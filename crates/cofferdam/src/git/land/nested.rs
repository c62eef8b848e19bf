//! Moves `.git` entries that an agent left in the tree out of it: the user's next `git status`
//! would run what their configuration names.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::fsx::beneath;
use crate::fsx::{self, Context, FileError};
use crate::git::nested;

/// What became of the entries.
#[derive(Debug, Default)]
pub struct MovedOut {
    /// Path below the top directory, and where it is now.
    pub moved: Vec<(PathBuf, PathBuf)>,
    /// Pipes in the place of `.gitignore` and the like, which are gone: nothing was in them.
    pub removed: Vec<PathBuf>,
    /// What could not be moved and is still in the tree.
    pub failed: Vec<FileError>,
}

/// Moves the entries of `now` that are not in `before` from below `top` to `to`, which is created.
/// Nothing outside of `top` is touched, whatever the tree contains.
pub fn move_out(
    top: &Path,
    before: &BTreeSet<PathBuf>,
    now: &BTreeSet<PathBuf>,
    to: &Path,
) -> Result<MovedOut, FileError> {
    let mut result = MovedOut::default();
    let fresh: Vec<&PathBuf> = now.difference(before).collect();
    if fresh.is_empty() {
        return Ok(result);
    }
    fsx::private_dir(to)?;
    let directory = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let top_fd = rustix::fs::open(top, directory, Mode::empty()).context("open", top)?;
    let to_fd = rustix::fs::open(to, directory, Mode::empty()).context("open", to)?;
    let mut number = std::fs::read_dir(to).context("list", to)?.count();
    for path in fresh {
        // Inside of an entry that has moved already there is nothing left to do.
        if result.moved.iter().any(|(done, _)| path.starts_with(done)) {
            continue;
        }
        number += 1;
        let name = target_name(path, number);
        match move_one(&top_fd, path, to_fd.as_fd(), &name) {
            Ok(MovedTo::There) if is_trap(path) && is_pipe(&to_fd, &name) => {
                let removed = rustix::fs::unlinkat(&to_fd, &name, AtFlags::empty());
                removed.context("remove", &to.join(&name))?;
                result.removed.push(path.clone());
            }
            Ok(MovedTo::There) => result.moved.push((path.clone(), to.join(&name))),
            Ok(MovedTo::Beside) => {
                let beside = top.join(path).with_file_name(&name);
                result.moved.push((path.clone(), beside));
            }
            Err(Errno::NOENT) => {}
            Err(errno) => {
                result
                    .failed
                    .push(FileError::new("move out", top.join(path), errno.into()));
            }
        }
    }
    // Where nothing was moved it holds nothing that anybody would miss.
    let _ = std::fs::remove_dir(to);
    Ok(result)
}

fn is_trap(path: &Path) -> bool {
    path.file_name().is_some_and(nested::is_trap_name)
}

fn is_pipe(directory: &OwnedFd, name: &OsStr) -> bool {
    rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Fifo)
}

/// `<number>-sub-dir-.git`, short enough for any file system.
fn target_name(path: &Path, number: usize) -> OsString {
    let flat: String = path
        .to_string_lossy()
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || "._-".contains(c) {
                c
            } else {
                '-'
            }
        })
        .take(120)
        .collect();
    OsString::from(format!("{number:04}-{flat}"))
}

/// Where an entry went.
enum MovedTo {
    There,
    /// Only its name could be changed: git does not find it under another one.
    Beside,
}

fn move_one(
    top: &OwnedFd,
    path: &Path,
    to: BorrowedFd<'_>,
    name: &OsStr,
) -> rustix::io::Result<MovedTo> {
    let file_name = path.file_name().ok_or(Errno::INVAL)?;
    let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let parent = match path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
    {
        Some(parent) => rustix::fs::openat2(
            top,
            parent,
            OFlags::DIRECTORY | OFlags::PATH | OFlags::CLOEXEC,
            Mode::empty(),
            beneath,
        )?,
        None => top.try_clone().map_err(|_| Errno::MFILE)?,
    };
    let moved = match rustix::fs::renameat(&parent, file_name, to, name) {
        // An agent may have taken the rights to the directory, or to the one that it is in.
        Err(Errno::ACCESS) => {
            let above = path.parent().unwrap_or(Path::new(""));
            let _ = beneath::open_up(top, above);
            let _ = beneath::open_up(top, path);
            rustix::fs::renameat(&parent, file_name, to, name)
        }
        moved => moved,
    };
    match moved {
        Err(Errno::XDEV) => {}
        moved => return moved.map(|()| MovedTo::There),
    }
    let copied = copy(parent.as_fd(), file_name, to, name, 0)
        .and_then(|()| remove(parent.as_fd(), file_name));
    match copied {
        Err(errno) => {
            let only_new = rustix::fs::RenameFlags::NOREPLACE;
            rustix::fs::renameat_with(&parent, file_name, &parent, name, only_new)
                .map_err(|_| errno)?;
            Ok(MovedTo::Beside)
        }
        Ok(()) => Ok(MovedTo::There),
    }
}

/// Copies files, directories and symlinks; other kinds are dropped. Never follows a symlink.
fn copy(
    from: BorrowedFd<'_>,
    name: &OsStr,
    to: BorrowedFd<'_>,
    as_name: &OsStr,
    depth: u32,
) -> rustix::io::Result<()> {
    if depth > 100 {
        return Err(Errno::LOOP);
    }
    let found = rustix::fs::statat(from, name, AtFlags::SYMLINK_NOFOLLOW)?;
    match FileType::from_raw_mode(found.st_mode) {
        FileType::Directory => {
            let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let source = rustix::fs::openat(from, name, flags, Mode::empty())?;
            rustix::fs::mkdirat(to, as_name, Mode::RWXU)?;
            let target = rustix::fs::openat(to, as_name, flags, Mode::empty())?;
            for entry in entries(source.as_fd())? {
                copy(source.as_fd(), &entry, target.as_fd(), &entry, depth + 1)?;
            }
        }
        FileType::RegularFile => {
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
            let source = rustix::fs::openat(from, name, flags, Mode::empty())?;
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            let target = rustix::fs::openat(to, as_name, flags, Mode::RUSR | Mode::WUSR)?;
            let (mut source, mut target) =
                (std::fs::File::from(source), std::fs::File::from(target));
            std::io::copy(&mut source, &mut target)
                .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        }
        FileType::Symlink => {
            let target = rustix::fs::readlinkat(from, name, Vec::new())?;
            rustix::fs::symlinkat(target, to, as_name)?;
        }
        _ => {}
    }
    Ok(())
}

fn remove(parent: BorrowedFd<'_>, name: &OsStr) -> rustix::io::Result<()> {
    match rustix::fs::unlinkat(parent, name, AtFlags::empty()) {
        Err(Errno::ISDIR | Errno::PERM) => {
            let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let directory = rustix::fs::openat(parent, name, flags, Mode::empty())?;
            for entry in entries(directory.as_fd())? {
                remove(directory.as_fd(), &entry)?;
            }
            rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR)
        }
        other => other,
    }
}

fn entries(directory: BorrowedFd<'_>) -> rustix::io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push(OsStr::from_bytes(name).to_owned());
        }
    }
    Ok(names)
}
