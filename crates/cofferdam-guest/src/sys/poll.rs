//! Waiting for descriptors.

use std::io;
use std::os::fd::RawFd;

use libc::c_int;

use super::base::check_int;

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
}

/// Waits until one of them is there; -1 waits for ever. True for each that is, and for one that is broken.
pub(crate) fn wait_for(waits: &[Wait], milliseconds: c_int) -> io::Result<Vec<bool>> {
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
    // SAFETY: the array is as long as said.
    let got = unsafe {
        libc::poll(
            polled.as_mut_ptr(),
            polled.len() as libc::nfds_t,
            milliseconds,
        )
    };
    match check_int(got) {
        Err(error) if error.raw_os_error() != Some(libc::EINTR) => Err(error),
        _ => Ok(polled.iter().map(|p| p.revents != 0).collect()),
    }
}

/// Waits until one of `fds` can be read or has been hung up; -1 waits for ever. True for each such.
pub(crate) fn poll(fds: &[RawFd], milliseconds: c_int) -> io::Result<Vec<bool>> {
    let waits: Vec<Wait> = fds.iter().map(|&fd| Wait::read(fd)).collect();
    wait_for(&waits, milliseconds)
}
