//! What is in a directory, name by name.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use libc::{c_int, c_long};

use super::base::{check, check_int};

/// Of what a name stands for, without following it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stat {
    /// `S_IFREG` and its like.
    pub(crate) kind: u32,
    /// The permissions alone.
    pub(crate) mode: u32,
    pub(crate) size: u64,
    pub(crate) inode: u64,
    /// Seconds and nanoseconds of its last change of any kind.
    pub(crate) changed: (i64, i64),
    /// Seconds of the last change of what it holds.
    pub(crate) modified: i64,
}

/// An empty name is the descriptor itself.
pub(crate) fn stat_at(at: BorrowedFd<'_>, name: &CStr) -> io::Result<Stat> {
    let flags = libc::AT_SYMLINK_NOFOLLOW | libc::AT_EMPTY_PATH;
    // SAFETY: all zeros is a valid stat, and it outlives the call; NUL-terminated string.
    let stat = unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        check_int(libc::fstatat(
            at.as_raw_fd(),
            name.as_ptr(),
            &raw mut stat,
            flags,
        ))?;
        stat
    };
    Ok(Stat {
        kind: stat.st_mode & libc::S_IFMT,
        mode: stat.st_mode & 0o777,
        size: stat.st_size as u64,
        inode: stat.st_ino,
        changed: (stat.st_ctime, stat.st_ctime_nsec),
        modified: stat.st_mtime,
    })
}

/// The kind of the file system that a file is on, as statfs(2) numbers it.
pub(crate) fn file_system(file: BorrowedFd<'_>) -> io::Result<u32> {
    // SAFETY: all zeros is a valid statfs, and it outlives the call.
    let found = unsafe {
        let mut found: libc::statfs = std::mem::zeroed();
        check_int(libc::fstatfs(file.as_raw_fd(), &raw mut found))?;
        found
    };
    Ok(found.f_type as u32)
}

/// The text of a symlink, cut after 4096 bytes.
pub(crate) fn read_link_at(at: BorrowedFd<'_>, name: &CStr) -> io::Result<Vec<u8>> {
    let mut buffer = vec![0u8; 4096];
    // SAFETY: the buffer is as long as said; NUL-terminated string.
    let got = unsafe {
        libc::readlinkat(
            at.as_raw_fd(),
            name.as_ptr(),
            buffer.as_mut_ptr().cast(),
            buffer.len(),
        )
    };
    buffer.truncate(check(got as c_long)? as usize);
    Ok(buffer)
}

/// Removes a name that is no directory.
pub(crate) fn unlink_at(at: BorrowedFd<'_>, name: &CStr) -> io::Result<()> {
    // SAFETY: NUL-terminated string.
    check_int(unsafe { libc::unlinkat(at.as_raw_fd(), name.as_ptr(), 0) }).map(drop)
}

pub(crate) fn change_mode(fd: BorrowedFd<'_>, mode: u32) -> io::Result<()> {
    // SAFETY: takes a descriptor and a number.
    check_int(unsafe { libc::fchmod(fd.as_raw_fd(), mode) }).map(drop)
}

pub(crate) fn change_owner(fd: BorrowedFd<'_>, uid: u32, gid: u32) -> io::Result<()> {
    // SAFETY: takes a descriptor and numbers.
    check_int(unsafe { libc::fchown(fd.as_raw_fd(), uid, gid) }).map(drop)
}

/// Of what is at `path`, which nobody else can change meanwhile.
pub(crate) fn change_mode_of(path: &CStr, mode: libc::mode_t) -> io::Result<()> {
    // SAFETY: `path` ends in a zero byte and lives across the call.
    check_int(unsafe { libc::fchmodat(libc::AT_FDCWD, path.as_ptr(), mode, 0) }).map(drop)
}

/// Every name in a directory but `.` and `..`, from where the descriptor was last read.
pub(crate) fn names(directory: BorrowedFd<'_>) -> io::Result<Vec<CString>> {
    /// Where an entry's length and name are: after a number of 64 bits and an offset of 64.
    const LENGTH: usize = 16;
    const NAME: usize = 19;
    let mut buffer = vec![0u8; 64 << 10];
    let mut names = Vec::new();
    loop {
        // SAFETY: the buffer is as long as said.
        let got = check(unsafe {
            libc::syscall(
                libc::SYS_getdents64,
                directory.as_raw_fd(),
                buffer.as_mut_ptr(),
                buffer.len(),
            )
        })?;
        let mut rest = &buffer[..got as usize];
        if rest.is_empty() {
            return Ok(names);
        }
        while rest.len() > NAME {
            let length = usize::from(u16::from_ne_bytes([rest[LENGTH], rest[LENGTH + 1]]));
            let Some((entry, next)) = rest.split_at_checked(length.max(NAME)) else {
                break;
            };
            rest = next;
            match CStr::from_bytes_until_nul(&entry[NAME..]) {
                Ok(name) if !matches!(name.to_bytes(), b"." | b"..") => names.push(name.to_owned()),
                _ => {}
            }
        }
    }
}

/// The time that the kernel gives to what changes now.
pub(crate) fn coarse_time() -> io::Result<(i64, i64)> {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let clock: c_int = libc::CLOCK_REALTIME_COARSE;
    // SAFETY: the structure outlives the call.
    check_int(unsafe { libc::clock_gettime(clock, &raw mut time) })?;
    Ok((time.tv_sec, time.tv_nsec))
}
