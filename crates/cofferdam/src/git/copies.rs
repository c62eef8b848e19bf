//! Paths that the user named (`--copy`), taken from their checkout into a worktree: files that git
//! does not carry, such as `.env` or `node_modules`.
//!
//! Names are resolved beneath both tops, symlinks are copied as they are and never followed. On
//! file systems that can, a copy shares its blocks with the original.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;
use tokio_util::sync::CancellationToken;

use super::below;
use crate::fsx::beneath;
use crate::fsx::{Context, FileError};

/// Why nothing more was copied.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// Nothing was copied.
    #[error("`{}` cannot be copied: {why}", path.display())]
    Refused {
        /// As it was asked for.
        path: PathBuf,
        /// Why, as a sentence fragment.
        why: &'static str,
    },
    /// Nothing was copied.
    #[error("`{}` cannot be copied: there is nothing at {}", path.display(), at.display())]
    Missing {
        /// As it was asked for.
        path: PathBuf,
        /// Where it was looked for.
        at: PathBuf,
    },
    /// The caller cancelled it.
    #[error("copying was cancelled")]
    Cancelled,
    /// Something could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
}

/// What became of the paths.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Copied {
    /// Regular files that were copied.
    pub files: u64,
    /// Named paths that do not exist any more.
    pub missing: Vec<PathBuf>,
    /// Pipes, sockets, devices and `.git` entries.
    pub skipped: Vec<PathBuf>,
}

/// Refuses what cannot be copied as far as a look tells, before anything is made: who names a path by hand means one
/// that is there.
pub fn check(top: &Path, paths: &[PathBuf]) -> Result<(), CopyError> {
    if paths.is_empty() {
        return Ok(());
    }
    let from = beneath::root(top).context("open", top)?;
    for path in paths {
        let plain = clean(top, path)?;
        match kind_at(&from, &plain) {
            Err(Errno::LOOP | Errno::NOTDIR) if below_a_symlink(&from, &plain) => {
                return Err(CopyError::Refused {
                    path: path.clone(),
                    why: BEHIND,
                });
            }
            Err(Errno::NOENT | Errno::NOTDIR) => {
                return Err(CopyError::Missing {
                    path: path.clone(),
                    at: top.join(plain),
                });
            }
            // What else is wrong is said with its place by whoever copies it.
            _ => {}
        }
    }
    Ok(())
}

const BEHIND: &str = "a directory above it is a symbolic link";

/// What lies at `path` beneath `top`.
fn kind_at(top: &OwnedFd, path: &Path) -> Result<FileType, Errno> {
    let (parent, name) = split(path);
    let parent = beneath::directory(top, parent)?;
    let found = rustix::fs::statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(FileType::from_raw_mode(found.st_mode))
}

fn below_a_symlink(top: &OwnedFd, path: &Path) -> bool {
    let mut above = path
        .ancestors()
        .skip(1)
        .filter(|above| !above.as_os_str().is_empty());
    above.any(|above| kind_at(top, above) == Ok(FileType::Symlink))
}

/// Copies `paths` (relative to `top`, or absolute and below it) to the same places in `worktree`,
/// over what is there, without those in `hidden`. All names are checked before anything is copied.
pub async fn copy_into(
    worktree: &Path,
    top: &Path,
    paths: &[PathBuf],
    hidden: &[PathBuf],
    cancel: &CancellationToken,
) -> Result<Copied, CopyError> {
    let paths = paths
        .iter()
        .map(|path| clean(top, path))
        .collect::<Result<Vec<_>, _>>()?;
    let (from, to) = (top.to_owned(), worktree.to_owned());
    let hidden = hidden.to_vec();
    let stop = cancel.child_token();
    // Dropping the future stops the thread too.
    let guard = stop.clone().drop_guard();
    let copying = tokio::task::spawn_blocking(move || {
        let copier = Copier {
            from: beneath::root(&from).context("open", &from)?,
            to: beneath::root(&to).context("open", &to)?,
            top: from,
            hidden,
            stop,
        };
        copier.all(&paths)
    });
    let copied = copying.await.unwrap_or(Err(CopyError::Cancelled));
    drop(guard);
    copied
}

fn clean(top: &Path, path: &Path) -> Result<PathBuf, CopyError> {
    below::plain(top, path).map_err(|why| CopyError::Refused {
        path: path.to_owned(),
        why,
    })
}

struct Copier {
    from: OwnedFd,
    to: OwnedFd,
    top: PathBuf,
    hidden: Vec<PathBuf>,
    stop: CancellationToken,
}

impl Copier {
    fn all(&self, paths: &[PathBuf]) -> Result<Copied, CopyError> {
        let mut copied = Copied::default();
        let mut present = Vec::new();
        for path in paths {
            match kind_at(&self.from, path) {
                Ok(kind) => present.push((path, kind)),
                Err(Errno::LOOP | Errno::NOTDIR) if below_a_symlink(&self.from, path) => {
                    return Err(CopyError::Refused {
                        path: path.clone(),
                        why: BEHIND,
                    });
                }
                Err(Errno::NOENT | Errno::NOTDIR) => copied.missing.push(path.clone()),
                Err(errno) => return Err(self.error("look at", path, errno)),
            }
        }
        for (path, kind) in present {
            self.parents(path)?;
            self.tree(path, kind, &mut copied)?;
        }
        Ok(copied)
    }

    fn error(&self, action: &'static str, path: &Path, errno: impl Into<io::Error>) -> CopyError {
        FileError::new(action, self.top.join(path), errno.into()).into()
    }

    /// Makes the directories above `path` where they are missing.
    fn parents(&self, path: &Path) -> Result<(), CopyError> {
        let above: Vec<&Path> = path.ancestors().skip(1).collect();
        for directory in above
            .into_iter()
            .rev()
            .filter(|path| !path.as_os_str().is_empty())
        {
            self.make_directory(directory, Mode::from_raw_mode(0o755))?;
        }
        Ok(())
    }

    fn make_directory(&self, path: &Path, mode: Mode) -> Result<(), CopyError> {
        let (parent, name) = split(path);
        let made = beneath::directory(&self.to, parent)
            .and_then(|parent| rustix::fs::mkdirat(parent, name, mode));
        match made {
            Ok(()) => Ok(()),
            Err(Errno::EXIST) => match beneath::directory(&self.to, path) {
                Ok(_) => Ok(()),
                Err(errno) => Err(self.error("copy into the worktree", path, errno)),
            },
            Err(errno) => Err(self.error("copy into the worktree", path, errno)),
        }
    }

    fn tree(&self, path: &Path, kind: FileType, copied: &mut Copied) -> Result<(), CopyError> {
        let mut pending = vec![(path.to_owned(), kind)];
        // Made unwritable only when everything is in them.
        let mut directories = Vec::new();
        while let Some((path, kind)) = pending.pop() {
            if self.stop.is_cancelled() {
                return Err(CopyError::Cancelled);
            }
            if self.hidden.iter().any(|hidden| path.starts_with(hidden)) {
                continue;
            }
            match kind {
                FileType::Directory => {
                    let failed = |errno| self.error("copy", &path, errno);
                    let directory = beneath::directory(&self.from, &path).map_err(failed)?;
                    let found = rustix::fs::fstat(&directory).map_err(failed)?;
                    self.make_directory(&path, Mode::from_raw_mode(0o700))?;
                    directories.push((path.clone(), found));
                    for entry in Dir::new(directory).map_err(failed)? {
                        let entry = entry.map_err(failed)?;
                        let name = entry.file_name().to_bytes();
                        if matches!(name, b"." | b"..") {
                            continue;
                        }
                        let below = path.join(std::ffi::OsStr::from_bytes(name));
                        if name.eq_ignore_ascii_case(b".git") {
                            copied.skipped.push(below);
                            continue;
                        }
                        let kind = match entry.file_type() {
                            FileType::Unknown => kind_at(&self.from, &below)
                                .map_err(|e| self.error("copy", &below, e))?,
                            kind => kind,
                        };
                        pending.push((below, kind));
                    }
                }
                FileType::RegularFile => {
                    self.file(&path)
                        .map_err(|error| self.error("copy", &path, error))?;
                    copied.files += 1;
                }
                FileType::Symlink => {
                    self.symlink(&path)
                        .map_err(|error| self.error("copy", &path, error))?;
                    copied.files += 1;
                }
                _ => copied.skipped.push(path),
            }
        }
        for (path, found) in directories.into_iter().rev() {
            let directory = beneath::directory(&self.to, &path);
            let set = directory.and_then(|directory| like(&directory, &found));
            set.map_err(|errno| self.error("copy", &path, errno))?;
        }
        Ok(())
    }

    /// A new file takes the place of what is there.
    fn file(&self, path: &Path) -> io::Result<()> {
        let source = beneath::open(&self.from, path, OFlags::RDONLY)?;
        let found = rustix::fs::fstat(&source)?;
        if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
            return Err(io::Error::other("it changed meanwhile"));
        }
        let (parent, name) = split(path);
        let parent = beneath::directory(&self.to, parent)?;
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let mode = Mode::from_raw_mode(0o600);
        let target = match rustix::fs::openat(&parent, name, flags, mode) {
            Err(Errno::EXIST) => {
                rustix::fs::unlinkat(&parent, name, AtFlags::empty())?;
                rustix::fs::openat(&parent, name, flags, mode)?
            }
            opened => opened?,
        };
        if rustix::fs::ioctl_ficlone(&target, &source).is_err() {
            let (mut source, mut target) = (File::from(source), File::from(target.try_clone()?));
            // Uses copy_file_range(2) where the kernel can.
            io::copy(&mut source, &mut target)?;
        }
        like(&target, &found)?;
        Ok(())
    }

    fn symlink(&self, path: &Path) -> io::Result<()> {
        let (parent, name) = split(path);
        let source = beneath::directory(&self.from, parent)?;
        let content = rustix::fs::readlinkat(&source, name, Vec::new())?;
        let target = beneath::directory(&self.to, parent)?;
        match rustix::fs::symlinkat(&content, &target, name) {
            Err(Errno::EXIST) => {
                rustix::fs::unlinkat(&target, name, AtFlags::empty())?;
                rustix::fs::symlinkat(&content, &target, name)?;
            }
            made => made?,
        }
        Ok(())
    }
}

/// Mode and times of the original: build tools compare times.
fn like(target: impl AsFd, found: &rustix::fs::Stat) -> Result<(), Errno> {
    rustix::fs::fchmod(&target, Mode::from_raw_mode(found.st_mode & 0o777))?;
    let time = |seconds, nanoseconds| rustix::fs::Timespec {
        tv_sec: seconds,
        tv_nsec: i64::try_from(nanoseconds).unwrap_or(0),
    };
    let times = rustix::fs::Timestamps {
        last_access: time(found.st_atime, found.st_atime_nsec),
        last_modification: time(found.st_mtime, found.st_mtime_nsec),
    };
    rustix::fs::futimens(&target, &times)
}

/// The directory of a cleaned path, and its last name.
pub(super) fn split(path: &Path) -> (&Path, &std::ffi::OsStr) {
    (
        path.parent().unwrap_or(Path::new("")),
        path.file_name().unwrap_or_default(),
    )
}
