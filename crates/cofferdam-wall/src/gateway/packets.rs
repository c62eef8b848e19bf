//! Packets that the kernel refused in a sandbox, on their way into its log.

use std::collections::HashMap;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::RecvFlags;

use crate::gateway::nflog::{self, Packet};
use crate::gateway::sandbox::{Sandbox, Told};
use crate::gateway::workers::watched;
use crate::log::{Event, Verdict};

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
    known: Mutex<HashMap<Packet, Known>>,
}

#[derive(Debug)]
struct Known {
    logged: Instant,
    since: u64,
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
    pub(super) fn drain(&self, sandbox: &Sandbox) {
        while self.read(sandbox) == Read::More {}
    }

    /// Reads a batch. Whoever reads holds the lock until it is counted.
    fn read(&self, sandbox: &Sandbox) -> Read {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let mut space = vec![MaybeUninit::<u8>::uninit(); LONGEST];
        for _ in 0..BATCH {
            match rustix::net::recv(&self.socket, space.as_mut_slice(), RecvFlags::empty()) {
                Ok(((datagram, _), _)) => {
                    for packet in nflog::packets(datagram) {
                        tell(&mut known, sandbox, packet);
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

/// Reads until the sandbox ends.
pub(super) async fn watch(sandbox: Arc<Sandbox>) {
    let Ok(socket) = sandbox
        .packets
        .socket
        .as_fd()
        .try_clone_to_owned()
        .and_then(watched)
    else {
        return;
    };
    loop {
        let ready = tokio::select! {
            // Nothing more is taken for a sandbox that another registration has replaced.
            biased;
            () = sandbox.end.cancelled() => return,
            ready = socket.readable() => ready,
        };
        let Ok(mut ready) = ready else { return };
        match sandbox.packets.read(&sandbox) {
            Read::More => tokio::task::yield_now().await,
            Read::Nothing => ready.clear_ready(),
            Read::Broken => return,
        }
    }
}

fn tell(known: &mut HashMap<Packet, Known>, sandbox: &Sandbox, packet: Packet) {
    if sandbox.is_proving() {
        sandbox.seen.packets.fetch_add(1, Ordering::SeqCst);
        return;
    }
    let protocol = packet.protocol_name();
    let to = match (packet.to, packet.port) {
        (to, None) => to.to_string(),
        (to, Some(port)) => std::net::SocketAddr::new(to, port).to_string(),
    };
    let mut told = Told {
        verdict: Some(Verdict::Refused),
        address: Some(packet.to),
        port: packet.port,
        reason: Some(format!("{protocol} to {to}: only TCP leaves a sandbox")),
        protocol: Some(protocol),
        ..Told::default()
    };
    let now = Instant::now();
    match known.get_mut(&packet) {
        Some(one) if now.duration_since(one.logged) < AGAIN => {
            one.since += 1;
            sandbox.count_refusal(&told);
            return;
        }
        Some(one) => {
            told.count = (one.since > 0).then_some(one.since + 1);
            *one = Known {
                logged: now,
                since: 0,
            };
        }
        None => {
            if known.len() >= MOST {
                known.clear();
            }
            let one = Known {
                logged: now,
                since: 0,
            };
            known.insert(packet, one);
        }
    }
    sandbox.tell(Event::Packet, &told);
}
