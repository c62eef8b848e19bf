//! Files into a directory, and what changed in it: done by a child of init with a program's privileges, limits and
//! filter. Whoever else is in the sandbox may be changing the tree meanwhile. So every name is opened from the
//! directory that has it and never followed, and nothing is opened that could make one wait.

mod browse;
mod content;
mod deliver;
mod ignore;
mod snapshot;
mod unpack;

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use cofferdam_guest::protocol::files::{Print, is_plain};

pub(crate) use browse::browse;
pub(crate) use deliver::deliver;
pub(crate) use snapshot::snapshot;
pub(crate) use unpack::unpack;

use crate::sys::{self, Stat};

/// Bytes on their way.
const BUFFER: usize = 64 << 10;
/// So many names are looked at. A tree with more is none that anybody works on.
const MOST_NAMES: u64 = 8_000_000;
/// Opening it neither waits for anybody nor follows anything.
const READ: i32 = libc::O_RDONLY | libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
const WALK: i32 = libc::O_PATH | libc::O_DIRECTORY | libc::O_NOFOLLOW;

/// A directory that everything is below, and the last one that was needed there.
#[derive(Debug)]
struct Tree {
    root: OwnedFd,
    last: Option<(Vec<u8>, OwnedFd)>,
}

impl Tree {
    /// Of everything inside.
    fn root() -> io::Result<Self> {
        let root = sys::open_at(libc::AT_FDCWD, c"/", WALK, 0)?;
        Ok(Self { root, last: None })
    }

    /// Of an absolute path.
    fn open(path: &[u8], make: bool) -> io::Result<Self> {
        let relative = path.strip_prefix(b"/").ok_or_else(invalid)?;
        let mut root = sys::open_at(libc::AT_FDCWD, c"/", WALK, 0)?;
        for name in relative.split(|&byte| byte == b'/') {
            root = step(root.as_fd(), name, make)?;
        }
        Ok(Self { root, last: None })
    }

    /// The directory `path` below; an empty path is the root itself.
    fn directory(&mut self, path: &[u8], make: bool) -> io::Result<BorrowedFd<'_>> {
        if path.is_empty() {
            return Ok(self.root.as_fd());
        }
        if self.last.as_ref().is_none_or(|(last, _)| last != path) {
            if !is_plain(path) {
                return Err(invalid());
            }
            let mut at: Option<OwnedFd> = None;
            for name in path.split(|&byte| byte == b'/') {
                let from = at.as_ref().unwrap_or(&self.root);
                at = Some(step(from.as_fd(), name, make)?);
            }
            self.last = at.map(|at| (path.to_vec(), at));
        }
        match &self.last {
            Some((_, at)) => Ok(at.as_fd()),
            None => Err(invalid()),
        }
    }

    /// What is known of the last directory may not hold any more.
    fn forget(&mut self) {
        self.last = None;
    }
}

fn step(at: BorrowedFd<'_>, name: &[u8], make: bool) -> io::Result<OwnedFd> {
    if !is_plain(name) {
        return Err(invalid());
    }
    let name = sys::c_string(name)?;
    match sys::open_at(at.as_raw_fd(), &name, WALK, 0) {
        Err(error) if make && error.kind() == io::ErrorKind::NotFound => {
            match sys::make_directory(at.as_raw_fd(), &name, 0o755) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
            sys::open_at(at.as_raw_fd(), &name, WALK, 0)
        }
        other => other,
    }
}

/// The directory and the name in it.
fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|&byte| byte == b'/') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (&[], path),
    }
}

/// Of what is not told by its content.
fn print(stat: &Stat) -> Print {
    Print {
        inode: stat.inode,
        size: stat.size,
        seconds: stat.changed.0,
        nanoseconds: stat.changed.1,
        content: None,
    }
}

fn is_gone(error: &io::Error) -> bool {
    let gone = [libc::ENOENT, libc::ENOTDIR, libc::ELOOP];
    error
        .raw_os_error()
        .is_some_and(|code| gone.contains(&code))
}

fn invalid() -> io::Error {
    io::Error::from_raw_os_error(libc::EINVAL)
}
