//! The way to a file that its user named, name by name: which directories on it are in a checkout, and what its links lead to.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, PROC_SUPER_MAGIC};
use rustix::io::Errno;

use super::FileError;
use crate::text::{printable_line, printable_path};

/// As many links as the kernel follows (path_resolution(7)).
const MOST_LINKS: usize = 40;

/// A link in a checkout, in the path of a file that its user named. Nothing was read or written.
#[derive(Debug, thiserror::Error)]
#[error(
    "{} is a symlink to `{}`; links inside a checkout are not followed, because agents write there",
    printable_path(link), printable_line(&target.to_string_lossy())
)]
pub struct LinkInCheckout {
    /// The link, or the path that leads through it.
    pub link: PathBuf,
    /// Where it leads, as it is written in the link.
    pub target: PathBuf,
}

/// What becomes of directories that are not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Missing {
    Fails,
    IsMade,
}

/// A directory on the way.
#[derive(Debug)]
struct Step {
    directory: OwnedFd,
    name: OsString,
    /// In a checkout, or its top.
    inside: bool,
}

/// The last directory of a path and the name in it.
#[derive(Debug)]
pub(super) struct Way {
    pub(super) directory: OwnedFd,
    /// Of the directory.
    above: PathBuf,
    pub(super) name: OsString,
    /// In a checkout.
    pub(super) inside: bool,
    /// A link of /proc to something open, which has no path: the kernel alone knows what it leads to.
    pub(super) by_kernel: bool,
}

impl Way {
    pub(super) fn to(
        path: &Path,
        action: &'static str,
        missing: Missing,
    ) -> Result<Self, FileError> {
        let failed = |source| FileError::new(action, path, source);
        let whole = std::path::absolute(path).map_err(failed)?;
        let root = rustix::fs::open("/", directory_flags(OFlags::PATH), Mode::empty());
        let root = root.map_err(|errno| failed(errno.into()))?;
        let mut walk = Walk {
            steps: vec![Step {
                inside: is_top(&root),
                directory: root,
                name: OsString::from("/"),
            }],
            waiting: Vec::new(),
            links: 0,
            missing,
        };
        walk.add(&whole);
        walk.walked().map_err(failed)
    }

    pub(super) fn place(&self) -> PathBuf {
        self.above.join(&self.name)
    }

    pub(super) fn kind(&self) -> Result<FileType, Errno> {
        let flags = if self.by_kernel {
            AtFlags::empty()
        } else {
            AtFlags::SYMLINK_NOFOLLOW
        };
        let found = rustix::fs::statat(&self.directory, &self.name, flags)?;
        Ok(FileType::from_raw_mode(found.st_mode))
    }

    pub(super) fn open(&self, flags: OFlags) -> Result<File, Errno> {
        self.open_with(flags, 0)
    }

    pub(super) fn open_with(&self, flags: OFlags, mode: u32) -> Result<File, Errno> {
        let mut flags = flags | OFlags::CLOEXEC | OFlags::NOCTTY;
        flags.set(OFlags::NOFOLLOW, !self.by_kernel);
        let mode = Mode::from_raw_mode(mode);
        let opened = rustix::fs::openat(&self.directory, &self.name, flags, mode)?;
        Ok(opened.into())
    }
}

/// Goes through a path name by name, and knows of each directory whether it is in a checkout.
struct Walk {
    steps: Vec<Step>,
    /// The next one is the last of these.
    waiting: Vec<OsString>,
    links: usize,
    missing: Missing,
}

impl Walk {
    /// Puts a path, or what a link leads to, before what is still to be walked.
    fn add(&mut self, path: &Path) {
        let parts = path.components().rev();
        self.waiting.extend(parts.map(|part| match part {
            Component::RootDir | Component::Prefix(_) => OsString::from("/"),
            part => part.as_os_str().to_owned(),
        }));
    }

    fn walked(mut self) -> io::Result<Way> {
        while let Some(name) = self.waiting.pop() {
            let (last, depth) = (self.waiting.is_empty(), self.steps.len());
            match name.as_encoded_bytes() {
                b"/" => self.steps.truncate(1),
                b".." if depth > 1 => self.steps.truncate(depth - 1),
                b"." | b".." => {}
                _ => {
                    if let Some(by_kernel) = self.step(&name, last)? {
                        return self.ended(name, by_kernel);
                    }
                }
            }
        }
        Err(Errno::ISDIR.into())
    }

    fn here(&self) -> io::Result<&Step> {
        self.steps.last().ok_or_else(|| Errno::NOENT.into())
    }

    /// Goes to one name. `Some`: it is the end, and whether the kernel alone can open it.
    fn step(&mut self, name: &OsStr, last: bool) -> io::Result<Option<bool>> {
        let here = self.here()?;
        let found = rustix::fs::statat(&here.directory, name, AtFlags::SYMLINK_NOFOLLOW);
        let kind = match found {
            Ok(found) => FileType::from_raw_mode(found.st_mode),
            Err(Errno::NOENT) if last => return Ok(Some(false)),
            Err(Errno::NOENT) if self.missing == Missing::IsMade => {
                let mode = Mode::from_raw_mode(0o777);
                match rustix::fs::mkdirat(&here.directory, name, mode) {
                    Ok(()) | Err(Errno::EXIST) => FileType::Directory,
                    Err(errno) => return Err(errno.into()),
                }
            }
            Err(errno) => return Err(errno.into()),
        };
        match kind {
            FileType::Symlink => self.follow(name, last),
            _ if last => Ok(Some(false)),
            FileType::Directory => {
                let directory = open_directory(&here.directory, name, OFlags::PATH)?;
                let inside = here.inside || is_top(&directory);
                self.steps.push(Step {
                    directory,
                    name: name.to_owned(),
                    inside,
                });
                Ok(None)
            }
            _ => Err(Errno::NOTDIR.into()),
        }
    }

    fn follow(&mut self, name: &OsStr, last: bool) -> io::Result<Option<bool>> {
        let here = self.here()?;
        let target = rustix::fs::readlinkat(&here.directory, name, Vec::new())?;
        let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
        if here.inside {
            let link = self.path().join(name);
            let refused = LinkInCheckout { link, target };
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, refused));
        }
        if last && rustix::fs::fstatfs(&here.directory)?.f_type == PROC_SUPER_MAGIC {
            return Ok(Some(true));
        }
        self.links += 1;
        if self.links > MOST_LINKS {
            return Err(Errno::LOOP.into());
        }
        self.add(&target);
        Ok(None)
    }

    fn path(&self) -> PathBuf {
        self.steps.iter().map(|step| &step.name).collect()
    }

    fn ended(mut self, name: OsString, by_kernel: bool) -> io::Result<Way> {
        let above = self.path();
        let Some(Step {
            directory, inside, ..
        }) = self.steps.pop()
        else {
            return Err(Errno::NOENT.into());
        };
        Ok(Way {
            directory,
            above,
            name,
            inside,
            by_kernel,
        })
    }
}

/// Whatever kind of thing `.git` is: an agent may have made it, and git asks no more.
fn is_top(directory: &OwnedFd) -> bool {
    rustix::fs::statat(directory, ".git", AtFlags::SYMLINK_NOFOLLOW).is_ok()
}

pub(super) fn open_directory(at: impl AsFd, name: &OsStr, flags: OFlags) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(at, name, directory_flags(flags), Mode::empty())
}

fn directory_flags(flags: OFlags) -> OFlags {
    flags | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC
}
