//! Files, directories and descriptors.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use libc::{c_int, c_long, c_uint};

use super::base::{check, check_int, owned};

pub(crate) fn open_at(at: RawFd, path: &CStr, flags: c_int, mode: u32) -> io::Result<OwnedFd> {
    // SAFETY: NUL-terminated string.
    let fd = unsafe { libc::openat(at, path.as_ptr(), flags | libc::O_CLOEXEC, mode) };
    owned(c_long::from(fd))
}

pub(crate) fn make_directory(at: RawFd, path: &CStr, mode: u32) -> io::Result<()> {
    // SAFETY: NUL-terminated string.
    check_int(unsafe { libc::mkdirat(at, path.as_ptr(), mode) }).map(drop)
}

pub(crate) fn make_symlink(at: RawFd, text: &CStr, path: &CStr) -> io::Result<()> {
    // SAFETY: NUL-terminated strings.
    check_int(unsafe { libc::symlinkat(text.as_ptr(), at, path.as_ptr()) }).map(drop)
}

pub(crate) fn read_link(path: &CStr) -> io::Result<Vec<u8>> {
    let mut buffer = vec![0u8; 4096];
    // SAFETY: the buffer is as long as said.
    let got = unsafe { libc::readlink(path.as_ptr(), buffer.as_mut_ptr().cast(), buffer.len()) };
    buffer.truncate(check(got as c_long)? as usize);
    Ok(buffer)
}

/// Mode, owner, group and device of what a descriptor refers to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Found {
    pub(crate) kind: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) device: u64,
}

impl Found {
    pub(crate) fn is_directory(&self) -> bool {
        self.kind == libc::S_IFDIR
    }

    pub(crate) fn is_link(&self) -> bool {
        self.kind == libc::S_IFLNK
    }
}

pub(crate) fn look_at(fd: BorrowedFd<'_>) -> io::Result<Found> {
    // SAFETY: all zeros is a valid stat, and it outlives the call.
    let stat = unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        check_int(libc::fstat(fd.as_raw_fd(), &raw mut stat))?;
        stat
    };
    Ok(Found {
        kind: stat.st_mode & libc::S_IFMT,
        uid: stat.st_uid,
        gid: stat.st_gid,
        device: stat.st_dev,
    })
}

/// How many names the file has of which this is a descriptor.
pub(crate) fn links(fd: BorrowedFd<'_>) -> io::Result<u64> {
    // SAFETY: all zeros is a valid stat, and it outlives the call.
    unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        check_int(libc::fstat(fd.as_raw_fd(), &raw mut stat))?;
        Ok(stat.st_nlink as u64)
    }
}

/// Of these three descriptors, which become the standard ones, and of no others this process has a copy any more.
/// For a child that has its parent's: what is known of any other is not to be used again.
pub(crate) fn keep_only(fds: [OwnedFd; 3]) -> io::Result<[OwnedFd; 3]> {
    for (fd, target) in fds.iter().zip(0..) {
        install_fd(fd.as_raw_fd(), target)?;
    }
    std::mem::forget(fds);
    // SAFETY: closes what nobody here uses again; the three that stay are owned by nobody else.
    unsafe {
        libc::syscall(libc::SYS_close_range, 3 as c_uint, c_uint::MAX, 0 as c_uint);
        Ok([0, 1, 2].map(|fd| OwnedFd::from_raw_fd(fd)))
    }
}

/// Writes one byte.
pub(crate) fn write_byte(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: one byte is there.
    check(unsafe { libc::write(fd.as_raw_fd(), b".".as_ptr().cast(), 1) } as c_long).map(drop)
}

/// Sends all bytes in one piece.
pub(crate) fn write_all(fd: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<()> {
    // SAFETY: pointer and length belong together.
    let sent = unsafe { libc::send(fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), 0) };
    match check(sent as c_long)? as usize {
        all if all == bytes.len() => Ok(()),
        _ => Err(io::Error::from_raw_os_error(libc::EMSGSIZE)),
    }
}

/// A pipe, both ends close-on-exec.
pub(crate) fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: two descriptors fit; both are new and ours.
    unsafe {
        check_int(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC))?;
        Ok((OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])))
    }
}

/// Closes everything that the caller left open past the standard descriptors, then takes standard
/// input over as a descriptor of its own that does not survive exec.
pub(crate) fn take_standard_input() -> io::Result<OwnedFd> {
    // SAFETY: called first of all, when nothing here owns a descriptor; the result is new and ours.
    unsafe {
        libc::syscall(libc::SYS_close_range, 3 as c_uint, c_uint::MAX, 0 as c_uint);
        owned(c_long::from(libc::fcntl(0, libc::F_DUPFD_CLOEXEC, 3)))
    }
}

/// Nothing from `first` on survives exec.
pub(crate) fn close_on_exec_from(first: u32) {
    const CLOEXEC: c_uint = 4;
    // SAFETY: only sets a flag.
    unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, CLOEXEC) };
}

/// `target` becomes a copy of `fd` that survives exec.
pub(crate) fn install_fd(fd: RawFd, target: RawFd) -> io::Result<()> {
    // SAFETY: takes two descriptors.
    check_int(unsafe { libc::dup2(fd, target) }).map(drop)
}

pub(crate) fn set_umask(mask: u32) {
    // SAFETY: takes a number.
    unsafe { libc::umask(mask) };
}

pub(crate) fn enter_directory(path: &CStr) -> io::Result<()> {
    // SAFETY: NUL-terminated string.
    check_int(unsafe { libc::chdir(path.as_ptr()) }).map(drop)
}

/// From now on nobody waits in a read or a write of this open file.
pub(crate) fn do_not_wait(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: takes a descriptor and numbers.
    unsafe {
        let flags = check_int(libc::fcntl(fd.as_raw_fd(), libc::F_GETFL))?;
        check_int(libc::fcntl(
            fd.as_raw_fd(),
            libc::F_SETFL,
            flags | libc::O_NONBLOCK,
        ))
        .map(drop)
    }
}

/// The terminal that this descriptor is becomes the controlling terminal of this process, which leads a session.
pub(crate) fn take_terminal(fd: RawFd) -> io::Result<()> {
    // SAFETY: takes a descriptor and a number.
    check_int(unsafe { libc::ioctl(fd, libc::TIOCSCTTY as _, 0) }).map(drop)
}
