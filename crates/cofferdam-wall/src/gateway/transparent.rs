//! A connection that a program in the sandbox made as if the network were there.

use std::io;
use std::net::{IpAddr, SocketAddrV4, TcpStream as StdTcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::net::TcpStream;

use crate::gateway::copy::{both_ways, both_ways_compared, reset_on_close};
use crate::gateway::door::{Closed, Door, Objection, Way};
use crate::gateway::hello::{self, Named};
use crate::gateway::hello_error::HelloError;
use crate::gateway::http;
use crate::gateway::lookups;
use crate::gateway::reset::reset;
use crate::gateway::retry::Retry;
use crate::gateway::room::Room;
use crate::gateway::sandbox::{Sandbox, Told};
use crate::gateway::sandbox_door::SandboxDoor;
use crate::gateway::wanted::Wanted;
use crate::log::{Event, Verdict, Via};
use crate::{Kind, SYNTHETIC};

/// Where lookups go.
const DOMAIN: u16 = 53;

/// A connection that may go on.
#[derive(Debug)]
pub(super) struct Arrival {
    stream: StdTcpStream,
    purpose: Purpose,
}

#[derive(Debug)]
enum Purpose {
    Lookups,
    Out {
        wanted: Wanted,
        port: u16,
        kind: Kind,
    },
}

/// Decides about a connection before anything is read. `own` is the listener's address: who connects to
/// that, or was not redirected at all, did not come through the wall's redirection.
pub(super) fn look(
    sandbox: &Arc<Sandbox>,
    stream: StdTcpStream,
    own: SocketAddrV4,
) -> Option<Arrival> {
    let original = rustix::net::sockopt::ip_original_dst(&stream);
    let Some(to) = original
        .ok()
        .filter(|to| *to != own && !to.ip().is_loopback())
    else {
        count(sandbox);
        let told = Told {
            verdict: Some(Verdict::Refused),
            via: Some(Via::Transparent),
            address: Some(IpAddr::V4(*own.ip())),
            port: Some(own.port()),
            reason: Some("a connection to the wall itself".to_owned()),
            ..Told::default()
        };
        sandbox.tell(Event::Connect, &told);
        reset(stream);
        return None;
    };
    if to.port() == DOMAIN {
        let purpose = Purpose::Lookups;
        return Some(Arrival { stream, purpose });
    }
    count(sandbox);
    let wanted = match sandbox.name_of(*to.ip()) {
        Some(name) if SYNTHETIC.contains(IpAddr::V4(*to.ip())) => Wanted::Name(name),
        _ => Wanted::Address(IpAddr::V4(*to.ip())),
    };
    let port = to.port();
    let Ok(kind) = SandboxDoor::new(sandbox, None).decide(&wanted, port, Via::Transparent) else {
        reset(stream);
        return None;
    };
    let purpose = Purpose::Out { wanted, port, kind };
    Some(Arrival { stream, purpose })
}

fn count(sandbox: &Sandbox) {
    if sandbox.is_proving() {
        sandbox.seen.connections.fetch_add(1, Ordering::SeqCst);
    }
}

/// Carries a connection to its end, on the worker that runs this.
pub(super) async fn carry(sandbox: Arc<Sandbox>, arrival: Arrival, room: Room) {
    let Room { opening, open } = room;
    let Ok(mut stream) = TcpStream::from_std(arrival.stream) else {
        return;
    };
    match arrival.purpose {
        Purpose::Lookups => {
            drop(open);
            let done = tokio::select! {
                () = sandbox.end.cancelled() => Ok(()),
                done = Box::pin(lookups::over_tcp(&sandbox, stream)) => done,
            };
            // A client that sends nonsense or stops reading has nobody to be told.
            _ = done;
        }
        Purpose::Out { wanted, port, kind } => {
            let door = SandboxDoor::new(&sandbox, Some(opening));
            if let (Kind::Http, Wanted::Name(name)) = (kind, &wanted) {
                // Small pieces go at once. Fails if the connection is gone already.
                _ = stream.set_nodelay(true);
                tokio::select! {
                    () = sandbox.end.cancelled() => {}
                    () = Box::pin(http::carry(stream, name, port, door, Via::Transparent)) => {}
                }
                return;
            }
            let found = tokio::select! {
                () = sandbox.end.cancelled() => None,
                // Boxed for the size of what is only needed at the beginning.
                found = Box::pin(way(&door, &mut stream, &wanted, port, kind)) => found,
            };
            match found {
                Some((way, None)) => both_ways(stream, way.stream, &way.flow).await,
                Some((way, Some(retry))) => {
                    let carried = both_ways_compared(stream, way.stream, &way.flow, retry).await;
                    if let Err(error) = carried {
                        refused(&door, &wanted, port, &error);
                    }
                }
                None => reset_on_close(&stream),
            }
            drop(open);
        }
    }
}

/// What has to be seen first is read, then the way is dialled, then what was read is sent on.
async fn way(
    door: &SandboxDoor,
    stream: &mut TcpStream,
    wanted: &Wanted,
    port: u16,
    kind: Kind,
) -> Option<(Way, Option<Retry>)> {
    let named = match kind {
        Kind::Plain => None,
        Kind::Tls => match named(door, stream, wanted).await {
            Ok(named) => Some(named),
            Err(error) => {
                refused(door, wanted, port, &error);
                return None;
            }
        },
        // Carried request by request, and dialled for the first good one: see `carry`.
        Kind::Http => return None,
    };
    let way = match door.dial(wanted, port, Via::Transparent).await {
        Ok(way) => way,
        Err(Closed::Refused { .. } | Closed::Failed(_)) => return None,
    };
    // Between the hello and now the rule may have become another one.
    if way.kind != kind {
        return None;
    }
    let Some(Named { hello, retry }) = named else {
        return Some((way, None));
    };
    send(&way, &hello).await.ok()?;
    Some((way, Some(retry)))
}

/// Logs what is refused for what stands in it.
fn refused(door: &SandboxDoor, wanted: &Wanted, port: u16, error: &HelloError) {
    if matches!(error, HelloError::Ended(_)) {
        return;
    }
    door.refused(&Objection {
        to: Some((wanted, port)),
        via: Via::Transparent,
        is_request: false,
        reason: &error.to_string(),
        opens: None,
    });
}

/// The client hello, if it names the place.
async fn named(
    door: &SandboxDoor,
    stream: &mut TcpStream,
    wanted: &Wanted,
) -> Result<Named, HelloError> {
    match wanted {
        Wanted::Name(name) => hello::read(stream, &[], name, door.budget()).await,
        Wanted::Address(_) => Err(HelloError::NoName),
    }
}

async fn send(way: &Way, bytes: &[u8]) -> io::Result<()> {
    let mut written = 0;
    while written < bytes.len() {
        way.stream.writable().await?;
        match way.stream.try_write(&bytes[written..]) {
            Ok(more) => written += more,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    way.flow
        .sent
        .fetch_add(bytes.len() as u64, Ordering::Relaxed);
    Ok(())
}
