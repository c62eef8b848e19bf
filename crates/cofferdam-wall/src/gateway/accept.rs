//! Connections out of a sandbox are taken in here and spread over the workers.

use std::net::{SocketAddrV4, TcpStream as StdTcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::SocketFlags;
use tokio::net::TcpStream;

use crate::gateway::proxy;
use crate::gateway::reset::reset;
use crate::gateway::room::Room;
use crate::gateway::sandbox::{Sandbox, Told};
use crate::gateway::sandbox_door::SandboxDoor;
use crate::gateway::transparent;
use crate::gateway::workers::{Workers, watched};
use crate::log::{Event, Verdict};

/// Connections taken in before others get their turn.
const BATCH: usize = 64;
/// Until the next try when the process has no descriptor left.
const OUT_OF_DESCRIPTORS: Duration = Duration::from_millis(100);

/// Which of the sandbox's listeners.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entrance {
    /// Every connection is redirected to it; its own address.
    Redirected(SocketAddrV4),
    Proxy,
}

/// Accepts until the sandbox ends.
pub(super) async fn accept(
    sandbox: Arc<Sandbox>,
    listener: OwnedFd,
    entrance: Entrance,
    workers: Arc<Workers>,
) {
    let Ok(listener) = watched(listener) else {
        return;
    };
    loop {
        let ready = tokio::select! {
            // Nothing more is taken for a sandbox that another registration has replaced.
            biased;
            () = sandbox.end.cancelled() => return,
            ready = listener.readable() => ready,
        };
        let Ok(mut ready) = ready else { return };
        for _ in 0..BATCH {
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            match rustix::net::accept_with(&listener, flags) {
                Ok(stream) => take(&sandbox, stream.into(), entrance, &workers),
                Err(Errno::AGAIN) => {
                    ready.clear_ready();
                    break;
                }
                Err(Errno::MFILE) if turn_away(&sandbox, &listener) => {}
                Err(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS) => {
                    tokio::time::sleep(OUT_OF_DESCRIPTORS).await;
                    break;
                }
                Err(Errno::INVAL | Errno::BADF | Errno::NOTSOCK) => return,
                // The connection was gone before it was taken.
                Err(_) => {}
            }
        }
        tokio::task::yield_now().await;
    }
}

fn take(sandbox: &Arc<Sandbox>, stream: StdTcpStream, entrance: Entrance, workers: &Workers) {
    let Some(room) = sandbox.seat.take() else {
        reset(stream);
        return tell_full(sandbox, "too many connections at once");
    };
    match entrance {
        Entrance::Redirected(own) => {
            if let Some(arrival) = transparent::look(sandbox, stream, own) {
                let sandbox = Arc::clone(sandbox);
                workers
                    .next()
                    .spawn(transparent::carry(sandbox, arrival, room));
            }
        }
        Entrance::Proxy => {
            count(sandbox);
            workers
                .next()
                .spawn(proxy(Arc::clone(sandbox), stream, room));
        }
    }
}

/// Resets the next connection, for which there is no descriptor; false if that cannot be done either.
fn turn_away(sandbox: &Sandbox, listener: impl AsFd) -> bool {
    let turned = sandbox.seat.spare.lend(|| {
        let stream = rustix::net::accept_with(listener, SocketFlags::CLOEXEC);
        stream.map(|stream| reset(stream.into())).is_ok()
    });
    if turned {
        tell_full(sandbox, "the gateway has no descriptor left for it");
    }
    turned
}

fn tell_full(sandbox: &Sandbox, reason: &str) {
    let told = Told {
        verdict: Some(Verdict::Refused),
        reason: Some(reason.to_owned()),
        ..Told::default()
    };
    sandbox.tell(Event::Connect, &told);
}

fn count(sandbox: &Sandbox) {
    if sandbox.is_proving() {
        sandbox.seen.proxied.fetch_add(1, Ordering::SeqCst);
    }
}

async fn proxy(sandbox: Arc<Sandbox>, stream: StdTcpStream, room: Room) {
    let Room { opening, open } = room;
    let Ok(stream) = TcpStream::from_std(stream) else {
        return;
    };
    tokio::select! {
        () = sandbox.end.cancelled() => {}
        () = Box::pin(proxy::serve(stream, SandboxDoor::new(&sandbox, Some(opening)))) => {}
    }
    drop(open);
}
