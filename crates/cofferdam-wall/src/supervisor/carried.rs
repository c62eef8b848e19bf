//! A sandbox that is registered: is its gateway still there, and still the one that others find?

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use rustix::fs::inotify;

use super::clients::Ticket;
use super::exchange::Exchange;
use crate::client::{GatewayDirectory, frames};

/// A connection on which the sandbox is registered, and where its gateway is found.
#[derive(Debug)]
pub(super) struct Carried {
    pub(super) stream: UnixStream,
    /// Where others find this gateway, and by which socket.
    at: Option<GatewayDirectory>,
    socket: Option<(u64, u64)>,
    /// Tells when that may have changed. Without it, it is looked at whenever somebody asks something.
    pub(super) watch: Option<OwnedFd>,
    pub(super) since: Instant,
    /// New rules, and who wants them in force.
    pub(super) setting: Option<(Exchange, Vec<Ticket>)>,
}

impl Carried {
    pub(super) fn new(stream: UnixStream, at: Option<GatewayDirectory>) -> Self {
        let socket = at.as_ref().and_then(GatewayDirectory::socket_here);
        let watch = at.as_ref().and_then(|at| watch(at).ok());
        Self {
            stream,
            at,
            socket,
            watch,
            since: Instant::now(),
            setting: None,
        }
    }

    /// Others no longer reach this gateway: changes of rules would not come here.
    pub(super) fn has_strayed(&self) -> bool {
        if let Some(watch) = &self.watch {
            while rustix::io::read(watch, &mut [0u8; 1024][..]).is_ok_and(|got| got > 0) {}
        }
        self.at
            .as_ref()
            .is_none_or(|at| at.socket_found() != self.socket)
    }

    /// The gateway has ended, or says something that nobody asked.
    pub(super) fn has_ended(&self) -> bool {
        let read = frames::receive(&self.stream, &mut [0], &mut Vec::new());
        !matches!(read, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }
}

fn watch(at: &GatewayDirectory) -> rustix::io::Result<OwnedFd> {
    let watch = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?;
    let path = format!("/proc/self/fd/{}", at.directory().as_raw_fd());
    let changes = inotify::WatchFlags::CREATE
        | inotify::WatchFlags::DELETE
        | inotify::WatchFlags::MOVE
        | inotify::WatchFlags::DELETE_SELF
        | inotify::WatchFlags::MOVE_SELF;
    inotify::add_watch(&watch, path, changes)?;
    Ok(watch)
}
