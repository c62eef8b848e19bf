//! System calls of programs that somebody else answers (seccomp_unotify(2)).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use libc::{c_int, c_long, c_ulong};

use super::base::{check_int, owned};

const SET_MODE_FILTER: c_long = 1;
const NEW_LISTENER: c_long = 1 << 3;
const RECEIVE: c_ulong = 0xc050_2100;
const SEND: c_ulong = 0xc018_2101;
const IS_VALID: c_ulong = 0x4008_2102;
const SET_FLAGS: c_ulong = 0x4008_2104;
/// Who asks is let run where the answer comes from, and the other way round.
const WAKE_UP_HERE: c_ulong = 1;
const CONTINUE: u32 = 1;

/// A call that waits to be answered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Notification {
    /// Of this one wait: a call that a signal interrupts and that begins again has another.
    pub(crate) id: u64,
    /// The thread, in this process's pid namespace.
    pub(crate) thread: i32,
    pub(crate) call: c_long,
    /// The address that follows the call in the program.
    pub(crate) instruction: u64,
    pub(crate) arguments: [u64; 6],
}

/// What there is at a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pending {
    Some,
    None,
    /// Nobody is left who could ask.
    Over,
}

/// The kernel's struct seccomp_notif.
#[repr(C)]
#[derive(Default)]
struct Raw {
    id: u64,
    pid: u32,
    flags: u32,
    call: i32,
    architecture: u32,
    instruction: u64,
    arguments: [u64; 6],
}

/// The kernel's struct seccomp_notif_resp.
#[repr(C)]
struct Response {
    id: u64,
    value: i64,
    error: i32,
    flags: u32,
}

/// Installs a seccomp filter, some of whose calls are answered by whoever has the listener; the process must have
/// no_new_privs. EBUSY: one of its filters has a listener already.
pub(crate) fn install_listener(program: &[libc::sock_filter]) -> io::Result<OwnedFd> {
    let length =
        u16::try_from(program.len()).map_err(|_| io::Error::from_raw_os_error(libc::E2BIG))?;
    let filter = libc::sock_fprog {
        len: length,
        filter: program.as_ptr().cast_mut(),
    };
    // SAFETY: the program outlives the call, which copies it.
    owned(unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            SET_MODE_FILTER,
            NEW_LISTENER,
            &raw const filter,
        )
    })
}

/// Best effort: Linux 6.6.
pub(crate) fn wake_up_here(listener: BorrowedFd<'_>) {
    // SAFETY: takes a descriptor and numbers.
    unsafe { libc::ioctl(listener.as_raw_fd(), SET_FLAGS as _, WAKE_UP_HERE) };
}

pub(crate) fn pending(listener: BorrowedFd<'_>) -> io::Result<Pending> {
    let mut polled = libc::pollfd {
        fd: listener.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one structure is there.
    check_int(unsafe { libc::poll(&raw mut polled, 1, 0) })?;
    Ok(if polled.revents & libc::POLLIN != 0 {
        Pending::Some
    } else if polled.revents == 0 {
        Pending::None
    } else {
        Pending::Over
    })
}

/// The next call, where [`pending`] has just said that there is one: without one this waits. None where whoever asked has
/// been interrupted.
pub(crate) fn next_call(listener: BorrowedFd<'_>) -> io::Result<Option<Notification>> {
    let mut raw = Raw::default();
    // SAFETY: the structure is all zeros, as long as the number of the request says, and outlives the call.
    match check_int(unsafe { libc::ioctl(listener.as_raw_fd(), RECEIVE as _, &raw mut raw) }) {
        Ok(_) => Ok(Some(Notification {
            id: raw.id,
            thread: raw.pid.cast_signed(),
            call: c_long::from(raw.call),
            instruction: raw.instruction,
            arguments: raw.arguments,
        })),
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EINTR)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether it still waits: if so, its thread's number has been its own all the time.
pub(crate) fn is_valid(listener: BorrowedFd<'_>, id: u64) -> bool {
    // SAFETY: the number outlives the call.
    unsafe { libc::ioctl(listener.as_raw_fd(), IS_VALID as _, &raw const id) == 0 }
}

/// The kernel does the call as if nobody had been asked.
pub(crate) fn go_on(listener: BorrowedFd<'_>, id: u64) -> io::Result<()> {
    respond(listener, id, 0, CONTINUE)
}

/// The call has this error number, or is done where it is 0. ENOENT: nobody waits for it any more. What was sent may be lost
/// all the same: a signal that came before may take the program out of its wait without it.
pub(crate) fn answer(listener: BorrowedFd<'_>, id: u64, errno: c_int) -> io::Result<()> {
    respond(listener, id, -errno, 0)
}

fn respond(listener: BorrowedFd<'_>, id: u64, error: c_int, flags: u32) -> io::Result<()> {
    let response = Response {
        id,
        value: 0,
        error,
        flags,
    };
    // SAFETY: the structure is as long as the number of the request says and outlives the call.
    check_int(unsafe { libc::ioctl(listener.as_raw_fd(), SEND as _, &raw const response) })
        .map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of the requests have the structures' lengths in them.
    #[test]
    fn structures_are_as_long_as_the_kernels() {
        assert_eq!(size_of::<Raw>() as c_ulong, (RECEIVE >> 16) & 0x3fff);
        assert_eq!(size_of::<Response>() as c_ulong, (SEND >> 16) & 0x3fff);
    }
}
