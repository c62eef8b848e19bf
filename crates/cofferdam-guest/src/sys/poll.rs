//! Waiting for descriptors.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use libc::c_long;

use super::base::{c_string, check_int, owned};

/// What is waited for at a descriptor.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wait {
    pub(crate) fd: RawFd,
    /// That it can be read, or has been hung up.
    pub(crate) read: bool,
    /// That it can be written.
    pub(crate) write: bool,
}

impl Wait {
    pub(crate) fn read(fd: RawFd) -> Self {
        Self {
            fd,
            read: true,
            write: false,
        }
    }

    pub(crate) fn write(fd: RawFd) -> Self {
        Self {
            fd,
            read: false,
            write: true,
        }
    }
}

/// Waits until one of them is there, for ever where no patience is given. True for each that is, and for one that is
/// broken.
pub(crate) fn wait_for(waits: &[Wait], patience: Option<Duration>) -> io::Result<Vec<bool>> {
    let events = |wait: &Wait| {
        let read = if wait.read { libc::POLLIN } else { 0 };
        read | if wait.write { libc::POLLOUT } else { 0 }
    };
    let mut polled: Vec<libc::pollfd> = waits
        .iter()
        .map(|wait| libc::pollfd {
            fd: wait.fd,
            events: events(wait),
            revents: 0,
        })
        .collect();
    let patience = patience.map(|patience| libc::timespec {
        tv_sec: patience.as_secs().try_into().unwrap_or(libc::time_t::MAX),
        tv_nsec: patience.subsec_nanos().into(),
    });
    let until = patience
        .as_ref()
        .map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the array is as long as said, and the time outlives the call; no signal mask.
    let got = unsafe {
        libc::ppoll(
            polled.as_mut_ptr(),
            polled.len() as libc::nfds_t,
            until,
            std::ptr::null(),
        )
    };
    match check_int(got) {
        Err(error) if error.raw_os_error() != Some(libc::EINTR) => Err(error),
        _ => Ok(polled.iter().map(|p| p.revents != 0).collect()),
    }
}

/// Waits until one of `fds` can be read or has been hung up. True for each such.
pub(crate) fn poll(fds: &[RawFd], patience: Option<Duration>) -> io::Result<Vec<bool>> {
    let waits: Vec<Wait> = fds.iter().map(|&fd| Wait::read(fd)).collect();
    wait_for(&waits, patience)
}

/// Can be read when a name appears in this directory. Does not block.
pub(crate) fn watch_names(directory: &Path) -> io::Result<OwnedFd> {
    let path = c_string(directory.as_os_str().as_bytes())?;
    // SAFETY: no pointers.
    let made = unsafe { libc::inotify_init1(libc::IN_CLOEXEC | libc::IN_NONBLOCK) };
    let watch = owned(c_long::from(made))?;
    let mask = libc::IN_CREATE | libc::IN_MOVED_TO;
    // SAFETY: NUL-terminated string.
    check_int(unsafe { libc::inotify_add_watch(watch.as_raw_fd(), path.as_ptr(), mask) })?;
    Ok(watch)
}

/// Reads what is there, and forgets it.
pub(crate) fn drain(from: BorrowedFd<'_>) {
    let mut room = [0_u8; 4096];
    // SAFETY: `room` is as long as is said.
    while unsafe { libc::read(from.as_raw_fd(), room.as_mut_ptr().cast(), room.len()) } > 0 {}
}
