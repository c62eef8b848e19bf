//! Packets that the kernel refused in a sandbox, as its socket tells of them.

use std::collections::HashMap;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::RecvFlags;
use tokio_util::sync::CancellationToken;

use crate::gateway::nflog::{self, Packet};
use crate::gateway::workers::watched;

/// A destination is logged again after this time.
const AGAIN: Duration = Duration::from_secs(60);
/// How many destinations are told apart.
const MOST: usize = 256;
/// Datagrams read before others get their turn.
const BATCH: usize = 64;
const LONGEST: usize = 64 << 10;

/// The socket on which the kernel reports.
#[derive(Debug)]
pub(super) struct Packets {
    socket: OwnedFd,
    known: Mutex<Known>,
}

impl Packets {
    /// `socket` does not block.
    pub(super) fn new(socket: OwnedFd) -> Self {
        Self {
            socket,
            known: Mutex::default(),
        }
    }

    /// Reads everything that is there.
    pub(super) fn drain(&self, mut refused: impl FnMut(&mut Known, Packet)) {
        while self.read(&mut refused) == Read::More {}
    }

    /// Reads until `end`.
    pub(super) async fn watch(
        &self,
        end: &CancellationToken,
        mut refused: impl FnMut(&mut Known, Packet),
    ) {
        let socket = self.socket.as_fd().try_clone_to_owned();
        let Ok(socket) = socket.and_then(watched) else {
            return;
        };
        loop {
            let ready = tokio::select! {
                // Nothing more is taken for a sandbox that another registration has replaced.
                biased;
                () = end.cancelled() => return,
                ready = socket.readable() => ready,
            };
            let Ok(mut ready) = ready else { return };
            match self.read(&mut refused) {
                Read::More => tokio::task::yield_now().await,
                Read::Nothing => ready.clear_ready(),
                Read::Broken => return,
            }
        }
    }

    /// Reads a batch. Whoever reads holds the lock until it is counted.
    fn read(&self, refused: &mut impl FnMut(&mut Known, Packet)) -> Read {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let mut space = vec![MaybeUninit::<u8>::uninit(); LONGEST];
        for _ in 0..BATCH {
            match rustix::net::recv(&self.socket, space.as_mut_slice(), RecvFlags::empty()) {
                Ok(((datagram, _), _)) => {
                    for packet in nflog::packets(datagram) {
                        refused(&mut known, packet);
                    }
                }
                // Reports were lost; the packets were refused all the same.
                Err(Errno::NOBUFS | Errno::INTR) => {}
                Err(Errno::AGAIN) => return Read::Nothing,
                Err(_) => return Read::Broken,
            }
        }
        Read::More
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Read {
    More,
    Nothing,
    Broken,
}

/// Where refused packets went to lately.
#[derive(Debug, Default)]
pub(super) struct Known {
    seen: HashMap<Packet, Since>,
}

#[derive(Debug)]
struct Since {
    logged: Instant,
    more: u64,
}

/// Whether a packet is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    /// It was, a moment ago.
    Later,
    /// Now, as one of so many since the last time.
    Now(Option<u64>),
}

impl Known {
    pub(super) fn due(&mut self, packet: Packet) -> Due {
        let logged = Instant::now();
        let fresh = Since { logged, more: 0 };
        match self.seen.get_mut(&packet) {
            Some(one) if logged.duration_since(one.logged) < AGAIN => {
                one.more += 1;
                Due::Later
            }
            Some(one) => {
                let count = (one.more > 0).then_some(one.more + 1);
                *one = fresh;
                Due::Now(count)
            }
            None => {
                if self.seen.len() >= MOST {
                    self.seen.clear();
                }
                self.seen.insert(packet, fresh);
                Due::Now(None)
            }
        }
    }
}
