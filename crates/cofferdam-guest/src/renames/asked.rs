//! What a program asks for, as its memory and its descriptors say.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;

use libc::c_long;

use crate::sys::{self, Notification, Resolve};

/// With the zero at its end.
const LONGEST_PATH: usize = 4096;

/// A directory's descriptor and the address of a path.
type Argument = (i32, u64);

/// Of rename(2), renameat(2) and renameat2(2).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arguments {
    pub(crate) old: Argument,
    pub(crate) new: Argument,
    pub(crate) flags: u32,
}

impl Arguments {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the kernel takes the low half of them"
    )]
    pub(crate) fn of(asked: &Notification) -> Self {
        const RENAMEAT2: c_long = libc::SYS_renameat2;
        #[cfg(target_arch = "x86_64")]
        const RENAME: c_long = libc::SYS_rename;
        #[cfg(not(target_arch = "x86_64"))]
        const RENAME: c_long = -1;
        let words = asked.arguments;
        if asked.call == RENAME {
            return Self {
                old: (libc::AT_FDCWD, words[0]),
                new: (libc::AT_FDCWD, words[1]),
                flags: 0,
            };
        }
        let has_flags = asked.call == RENAMEAT2;
        Self {
            old: (words[0] as i32, words[1]),
            new: (words[2] as i32, words[3]),
            flags: if has_flags { words[4] as u32 } else { 0 },
        }
    }
}

/// The memory of a thread. Refused for one that may not be traced.
pub(crate) fn memory(thread: i32) -> io::Result<File> {
    File::open(format!("/proc/{thread}/mem"))
}

/// A path from a directory.
#[derive(Debug)]
pub(crate) struct OpenPath {
    base: OwnedFd,
    path: Path,
}

/// The same without the directory's descriptor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Path {
    /// Device and inode of the directory.
    base: (u64, u64),
    /// Without slashes at its end. It has a last name.
    text: Vec<u8>,
}

/// What a place has, as far as it is known without waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A directory of such a file system.
    Directory,
    /// Nothing that the kernel could not rename.
    Other,
    Absent,
    Unknown,
}

impl OpenPath {
    /// Errors are the kernel's to tell: it will meet them too.
    pub(crate) fn read(
        thread: i32,
        memory: &File,
        (directory, address): Argument,
    ) -> io::Result<Self> {
        let mut buffer = [0u8; LONGEST_PATH];
        let got = memory.read_at(&mut buffer, address)?;
        let end = buffer[..got].iter().position(|&byte| byte == 0);
        let mut path = &buffer[..end.ok_or_else(invalid)?];
        // No program can change its root.
        let base = if path.starts_with(b"/") {
            c"/".to_owned()
        } else if directory == libc::AT_FDCWD {
            sys::c_string(format!("/proc/{thread}/cwd").as_bytes())?
        } else {
            sys::c_string(format!("/proc/{thread}/fd/{directory}").as_bytes())?
        };
        while let Some(shorter) = path.strip_suffix(b"/") {
            path = shorter;
        }
        if path.is_empty() || matches!(split(path).1, b"." | b"..") {
            return Err(invalid());
        }
        let flags = libc::O_PATH | libc::O_DIRECTORY;
        let base = sys::open_at(libc::AT_FDCWD, &base, flags, 0)?;
        let found = sys::name_at(base.as_fd(), c"")?;
        Ok(Self {
            base,
            path: Path {
                base: (found.device, found.inode),
                text: path.to_vec(),
            },
        })
    }

    /// Does not wait for anybody.
    pub(crate) fn kind(&self, devices: &[u64]) -> io::Result<Kind> {
        let path = sys::c_string(&self.path.text)?;
        let found = sys::resolve(self.base.as_fd(), &path, libc::O_NOFOLLOW, Resolve::AtOnce)
            .and_then(|found| sys::look_at(found.as_fd()));
        match found {
            Ok(found) if found.is_directory() && devices.contains(&found.device) => {
                Ok(Kind::Directory)
            }
            Ok(_) => Ok(Kind::Other),
            // A kernel that cannot be asked so (before 5.12) says that it does not know the flag.
            Err(error) => match error.raw_os_error() {
                Some(libc::EAGAIN | libc::EINVAL) => Ok(Kind::Unknown),
                Some(libc::ENOENT) => Ok(Kind::Absent),
                _ => Err(error),
            },
        }
    }

    /// The directory that the name is in, and the name. May wait.
    pub(super) fn open(&self) -> io::Result<End> {
        let (parent, name) = split(&self.path.text);
        // A parent that is empty is the base, or the root.
        let parent = if parent.is_empty() { b"." } else { parent };
        let parent = sys::c_string(parent)?;
        Ok(End {
            parent: sys::resolve(
                self.base.as_fd(),
                &parent,
                libc::O_DIRECTORY,
                Resolve::Waiting,
            )?,
            name: sys::c_string(name)?,
        })
    }
}

/// A name in a directory.
#[derive(Debug)]
pub(super) struct End {
    pub(super) parent: OwnedFd,
    pub(super) name: CString,
}

/// One rename, as it was asked for.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) old: OpenPath,
    pub(crate) new: OpenPath,
    /// Those of renameat2(2).
    pub(crate) flags: u32,
}

impl Asked {
    pub(crate) fn read(thread: i32, arguments: &Arguments) -> io::Result<Self> {
        let memory = memory(thread)?;
        Ok(Self {
            old: OpenPath::read(thread, &memory, arguments.old)?,
            new: OpenPath::read(thread, &memory, arguments.new)?,
            flags: arguments.flags,
        })
    }

    /// What it says, to know it again.
    pub(crate) fn paths(&self) -> [Path; 2] {
        [self.old.path.clone(), self.new.path.clone()]
    }

    /// In a child, which keeps of its parent's descriptors these two and the one that is given.
    pub(crate) fn alone_with(self, tell: OwnedFd) -> io::Result<(Self, OwnedFd)> {
        let [old, new, tell] = sys::keep_only([self.old.base, self.new.base, tell])?;
        let asked = Self {
            old: OpenPath {
                base: old,
                path: self.old.path,
            },
            new: OpenPath {
                base: new,
                path: self.new.path,
            },
            flags: self.flags,
        };
        Ok((asked, tell))
    }
}

/// The directory and the name in it. The slash stays with the directory: alone, it is the root.
fn split(path: &[u8]) -> (&[u8], &[u8]) {
    let name = path
        .iter()
        .rposition(|&byte| byte == b'/')
        .map_or(0, |at| at + 1);
    path.split_at(name)
}

fn invalid() -> io::Error {
    io::Error::from_raw_os_error(libc::EINVAL)
}
