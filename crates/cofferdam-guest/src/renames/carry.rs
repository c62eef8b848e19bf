//! A directory gets another name although its file system cannot give it one: a tree of directories is made beside the
//! target, every file gets a second name there, the tree gets the target's name at once, and the old names go.
//!
//! Files are linked and not copied: the kernel brings them out of the layers with all that they have, and who has one open
//! keeps it.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use cofferdam_guest::protocol::UNFINISHED_RENAME;

use super::asked::{Asked, End};
use crate::sys::{self, Name};

/// Of the tree while it is made, with a number behind it. Whoever finds one may remove it.
/// So many numbers are tried.
const NUMBERS: u32 = 64;
/// So often the old directory is looked through for what was made there meanwhile.
const PASSES: u32 = 4;
const DIRECTORY: i32 = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW;
/// Set-user-id and set-group-id: nobody here may give them.
const SPECIAL: u32 = 0o6000;
/// What its owner needs to change a directory.
const OWN: u32 = 0o700;

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Carried {
    Done,
    /// The kernel is to do it, or to say why not.
    GoOn,
    /// The same, and the reason is that there is nothing of the old name.
    Absent,
    /// The error number.
    Failed(i32),
}

impl Carried {
    pub(crate) fn code(self) -> i32 {
        match self {
            Self::Done => 0,
            Self::GoOn => -1,
            Self::Absent => -2,
            Self::Failed(errno) => errno,
        }
    }

    pub(crate) fn of_code(code: i32) -> Self {
        match code {
            0 => Self::Done,
            -1 => Self::GoOn,
            -2 => Self::Absent,
            errno => Self::Failed(errno),
        }
    }
}

/// Looks the names up, takes a program's bounds on, and renames.
pub(crate) fn carry(
    asked: &Asked,
    devices: &[u64],
    confine: impl FnOnce() -> io::Result<()>,
) -> Carried {
    // Before the filter, which knows no way to look up that stays out of such links.
    let (Ok(old), Ok(new)) = (asked.old.open(), asked.new.open()) else {
        return Carried::GoOn;
    };
    if confine().is_err() {
        return Carried::GoOn;
    }
    match sys::name_at(old.parent.as_fd(), &old.name) {
        Ok(found) if found.is_directory() && devices.contains(&found.device) => {
            rename(&old, &new, &found, asked.flags)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Carried::Absent,
        _ => Carried::GoOn,
    }
}

fn rename(old: &End, new: &End, found: &Name, flags: u32) -> Carried {
    let to = (new.parent.as_fd(), new.name.as_c_str());
    // Whatever else the kernel has against it, it says first.
    match sys::rename_at((old.parent.as_fd(), &old.name), to, flags) {
        Ok(()) => return Carried::Done,
        Err(error) if error.raw_os_error() == Some(libc::EXDEV) => {}
        Err(error) => return failed(&error),
    }
    let made = check(old, new).and_then(|()| {
        let unfinished = Unfinished::make(new.parent.as_fd())?;
        let tree = fill(old, found, &unfinished)?;
        sys::rename_at((new.parent.as_fd(), &unfinished.name), to, flags)?;
        unfinished.finish();
        Ok(tree)
    });
    match made {
        Ok(tree) => match sweep(old.parent.as_fd(), &old.name, tree.as_fd()) {
            Ok(()) => Carried::Done,
            // It has its new name, and something of the old one is left.
            Err(_) => Carried::Failed(libc::EIO),
        },
        Err(error) => failed(&error),
    }
}

/// What the program is to hear. It can copy by itself what it hears to be on another file system.
fn failed(error: &io::Error) -> Carried {
    Carried::Failed(error.raw_os_error().unwrap_or(libc::EIO))
}

fn refused() -> io::Error {
    io::Error::from_raw_os_error(libc::EXDEV)
}

/// What the kernel would have looked at after it had found that it cannot.
fn check(old: &End, new: &End) -> io::Result<()> {
    let mount = |end: &End| sys::name_at(end.parent.as_fd(), c"").map(|found| found.mount);
    // Two mounts of one file system: there it is the kernel's last word.
    if mount(old)? != mount(new)? {
        return Err(refused());
    }
    match sys::open_at(new.parent.as_raw_fd(), &new.name, DIRECTORY, 0) {
        Ok(target) if !sys::names(target.as_fd())?.is_empty() => {
            Err(io::Error::from_raw_os_error(libc::ENOTEMPTY))
        }
        // If it cannot be read the rename itself tells.
        _ => Ok(()),
    }
}

/// A tree that has not got its name, and goes where it does not get it.
struct Unfinished<'a> {
    parent: BorrowedFd<'a>,
    name: CString,
    finished: bool,
}

impl<'a> Unfinished<'a> {
    fn make(parent: BorrowedFd<'a>) -> io::Result<Self> {
        let first = std::process::id();
        for number in first..first.saturating_add(NUMBERS) {
            let name = sys::c_string(format!("{UNFINISHED_RENAME}{number}").as_bytes())?;
            match sys::make_directory(parent.as_raw_fd(), &name, OWN) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                other => {
                    return other.map(|()| Self {
                        parent,
                        name,
                        finished: false,
                    });
                }
            }
        }
        Err(refused())
    }

    fn finish(mut self) {
        self.finished = true;
    }
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if !self.finished {
            // The files in it have other names.
            let _ = remove(self.parent, &self.name);
        }
    }
}

/// The new directory.
fn fill(old: &End, found: &Name, unfinished: &Unfinished<'_>) -> io::Result<OwnedFd> {
    let from =
        sys::open_at(old.parent.as_raw_fd(), &old.name, DIRECTORY, 0).map_err(unless_full)?;
    let to = sys::open_at(
        unfinished.parent.as_raw_fd(),
        &unfinished.name,
        DIRECTORY,
        0,
    )?;
    // What was found before may have been another one.
    let now = sys::name_at(from.as_fd(), c"")?;
    if (now.inode, now.mount) != (found.inode, found.mount) {
        return Err(refused());
    }
    link(from.as_fd(), to.as_fd(), &now).map_err(unless_full)?;
    Ok(to)
}

/// What is in `from` is in `to` too, which becomes as `from` is.
fn link(from: BorrowedFd<'_>, to: BorrowedFd<'_>, itself: &Name) -> io::Result<()> {
    // Somebody else's could not be removed afterwards, nor given back.
    if itself.mode & SPECIAL != 0 || itself.uid != sys::own_ids().0 {
        return Err(refused());
    }
    for name in sys::names(from)? {
        let found = sys::name_at(from, &name)?;
        // Something is mounted there, and stays where it is.
        if found.mount != itself.mount {
            return Err(refused());
        }
        if found.is_directory() {
            sys::make_directory(to.as_raw_fd(), &name, OWN)?;
            let from = sys::open_at(from.as_raw_fd(), &name, DIRECTORY, 0)?;
            let to = sys::open_at(to.as_raw_fd(), &name, DIRECTORY, 0)?;
            link(from.as_fd(), to.as_fd(), &found)?;
        } else {
            sys::link_at(from, to, &name)?;
        }
    }
    sys::copy_attributes(from, to)?;
    sys::change_mode(to, itself.mode)?;
    sys::set_times(to, itself.times)
}

/// A full disk is told as such. Of anything else the kernel would not have known: so it does not do such renames.
fn unless_full(error: io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(libc::ENOSPC | libc::EDQUOT | libc::EROFS | libc::EIO) => error,
        _ => refused(),
    }
}

/// Takes the old names away. What was made or written there meanwhile moves on.
fn sweep(parent: BorrowedFd<'_>, name: &CStr, to: BorrowedFd<'_>) -> io::Result<()> {
    for pass in 1.. {
        let from = sys::open_at(parent.as_raw_fd(), name, DIRECTORY, 0)?;
        let itself = sys::name_at(from.as_fd(), c"")?;
        if itself.mode & OWN != OWN {
            sys::change_mode(from.as_fd(), itself.mode | OWN)?;
        }
        for name in sys::names(from.as_fd())? {
            match sweep_one(from.as_fd(), &name, to) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                other => other?,
            }
        }
        match sys::remove_directory_at(parent, name) {
            Err(error) if error.raw_os_error() == Some(libc::ENOTEMPTY) && pass < PASSES => {}
            other => return other,
        }
    }
    Ok(())
}

fn sweep_one(from: BorrowedFd<'_>, name: &CStr, to: BorrowedFd<'_>) -> io::Result<()> {
    let old = sys::name_at(from, name)?;
    let new = match sys::name_at(to, name) {
        Ok(new) => Some(new),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    match new {
        Some(new) if old.is_directory() && new.is_directory() => {
            let to = sys::open_at(to.as_raw_fd(), name, DIRECTORY, 0)?;
            sweep(from, name, to.as_fd())
        }
        Some(new) if is_same(&old, &new) => sys::unlink_at(from, name),
        _ => sys::rename_at((from, name), (to, name), 0),
    }
}

/// Whether both are names of one file. In an overlay those may have two numbers; but the last change of a file, which a
/// new name is too, is all its names'.
fn is_same(old: &Name, new: &Name) -> bool {
    let state = |name: &Name| (name.kind, name.size, name.changed, name.times[1]);
    (old.device, old.inode) == (new.device, new.inode) || state(old) == state(new)
}

/// Removes a tree of ours.
fn remove(parent: BorrowedFd<'_>, name: &CStr) -> io::Result<()> {
    let tree = sys::open_at(parent.as_raw_fd(), name, DIRECTORY, 0)?;
    sys::change_mode(tree.as_fd(), OWN)?;
    for name in sys::names(tree.as_fd())? {
        if sys::name_at(tree.as_fd(), &name)?.is_directory() {
            remove(tree.as_fd(), &name)?;
        } else {
            sys::unlink_at(tree.as_fd(), &name)?;
        }
    }
    sys::remove_directory_at(parent, name)
}
