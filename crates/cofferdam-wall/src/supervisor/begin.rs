//! What a supervisor is started with: one message on its standard input, a socket, with descriptors.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};

use super::error::SupervisorError;
use super::link::{Gateways, Link};
use super::messages::Beginning;
use super::state_directory::StateDirectory;
use crate::client::frames::Incoming;
use crate::control::{self, DESCRIPTORS};
use crate::inherited;

/// For the message.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest message: two paths.
const LONGEST: usize = 16 << 10;

/// What the process has when it begins.
#[derive(Debug)]
pub(super) struct Begun {
    /// The sandbox's lock.
    pub(super) lock: OwnedFd,
    /// The sandbox's init.
    pub(super) init: OwnedFd,
    pub(super) directory: StateDirectory,
    pub(super) link: Link,
}

/// The starter. Its socket is not inherited further.
pub(super) fn starter() -> Result<UnixStream, SupervisorError> {
    inherited::close().map_err(SupervisorError::Begin)?;
    let take = || {
        let starter = rustix::stdio::stdin().try_clone_to_owned()?;
        rustix::net::sockopt::socket_type(&starter)?;
        rustix::stdio::dup2_stdin(rustix::stdio::stdout())?;
        let starter = UnixStream::from(starter);
        starter.set_nonblocking(true)?;
        Ok(starter)
    };
    take().map_err(SupervisorError::Begin)
}

/// Waits for the message.
pub(super) fn read(starter: &UnixStream) -> Result<Begun, SupervisorError> {
    let (body, descriptors) = receive(starter).map_err(SupervisorError::Begin)?;
    let beginning: Beginning = control::decode(&body)?;
    let mut descriptors = descriptors.into_iter();
    let (Some(lock), Some(init), Some(directory)) =
        (descriptors.next(), descriptors.next(), descriptors.next())
    else {
        return Err(SupervisorError::Descriptors);
    };
    let directory = StateDirectory(directory);
    let link = match beginning.behind {
        None => Link::none(),
        Some(behind) => {
            let sockets: Vec<_> = descriptors.by_ref().take(DESCRIPTORS).collect();
            let sockets = sockets
                .try_into()
                .map_err(|_| SupervisorError::Descriptors)?;
            let gateways = Gateways {
                sandbox: beginning.sandbox,
                directory: OsString::from_vec(behind.gateway).into(),
                changes: OsString::from_vec(behind.changes).into(),
                run_as: behind.run_as,
                sockets,
            };
            match (behind.epoch, descriptors.next()) {
                (Some(epoch), Some(connection)) => {
                    directory.set_epoch(epoch);
                    Link::registered(gateways, connection.into(), epoch)
                }
                (None, None) => Link::unregistered(gateways, directory.epoch()),
                _ => return Err(SupervisorError::Descriptors),
            }
        }
    };
    if descriptors.next().is_some() {
        return Err(SupervisorError::Descriptors);
    }
    Ok(Begun {
        lock,
        init,
        directory,
        link,
    })
}

fn receive(starter: &UnixStream) -> io::Result<(Vec<u8>, Vec<OwnedFd>)> {
    let deadline = Instant::now() + PATIENCE;
    let mut incoming = Incoming::new(LONGEST);
    loop {
        if let Some(message) = incoming.advance(starter)? {
            return Ok(message);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let left = Timespec::try_from(left).map_err(io::Error::other)?;
        rustix::event::poll(
            &mut [PollFd::from_borrowed_fd(starter.as_fd(), PollFlags::IN)],
            Some(&left),
        )?;
    }
}

/// Writes into the lock who holds it now: number and start, as the registry reads it.
pub(super) fn sign(lock: &OwnedFd) -> io::Result<()> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let start = stat
        .rsplit_once(')')
        .and_then(|(_, fields)| fields.split_ascii_whitespace().nth(19))
        .unwrap_or("0");
    let file = std::fs::File::from(lock.try_clone()?);
    file.set_len(0)?;
    file.write_all_at(format!("{} {start}\n", std::process::id()).as_bytes(), 0)
}
