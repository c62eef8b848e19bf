//! Lookups of a sandbox, over UDP and TCP: answered from its policy, never forwarded.

use std::io;
use std::net::UdpSocket as StdUdpSocket;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

use crate::Reason;
use crate::dns::{self, Frames, Resolution};
use crate::gateway::dial::offer;
use crate::gateway::rate::Below;
use crate::gateway::sandbox::{Sandbox, Told};
use crate::gateway::wanted::Wanted;
use crate::log::{Event, Verdict};

/// Lookups answered before others get their turn.
const BATCH: usize = 64;
/// How long a connection for lookups may be silent.
const SILENCE: Duration = Duration::from_secs(10);

/// Answers until the sandbox ends.
pub(super) async fn over_udp(sandbox: Arc<Sandbox>, socket: StdUdpSocket) {
    let Ok(socket) = UdpSocket::from_std(socket) else {
        return;
    };
    loop {
        let ready = tokio::select! {
            // Nothing more is taken for a sandbox that another registration has replaced.
            biased;
            () = sandbox.end.cancelled() => return,
            ready = socket.readable() => ready,
        };
        if ready.is_err() {
            return;
        }
        for _ in 0..BATCH {
            // One byte more than is read, so that what is too long is seen to be.
            let mut query = [0u8; dns::MAX_QUERY + 1];
            match socket.try_recv_from(&mut query) {
                Ok((length, from)) => {
                    if let Some(answer) = answer(&sandbox, &query[..length]) {
                        // A full buffer loses the answer, as a network would.
                        _ = socket.try_send_to(&answer, from);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // An earlier answer found nobody: tells nothing about this socket.
                Err(_) => {}
            }
        }
        tokio::task::yield_now().await;
    }
}

/// Answers what comes over one connection.
pub(super) async fn over_tcp(sandbox: &Sandbox, mut stream: TcpStream) -> io::Result<()> {
    let mut frames = Frames::default();
    let mut piece = [0u8; dns::MAX_QUERY];
    loop {
        let got = timeout(SILENCE, stream.read(&mut piece)).await??;
        if got == 0 {
            return Ok(());
        }
        for query in frames.push(&piece[..got]).map_err(io::Error::other)? {
            let answer = answer(sandbox, &query);
            if let Some(frame) = answer.as_deref().and_then(dns::frame) {
                timeout(SILENCE, stream.write_all(&frame)).await??;
            }
        }
    }
}

fn answer(sandbox: &Sandbox, query: &[u8]) -> Option<Vec<u8>> {
    if sandbox.is_proving() {
        sandbox.seen.lookups.fetch_add(1, Ordering::SeqCst);
    }
    if !sandbox.may_look_up() {
        return dns::busy(query);
    }
    let (answer, news) = sandbox.answer(query);
    if news {
        log(sandbox, answer.outcome);
    }
    answer.message
}

fn log(sandbox: &Sandbox, outcome: Resolution) {
    let refused = |reason: &str| Told {
        verdict: Some(Verdict::Refused),
        reason: Some(reason.to_owned()),
        ..Told::default()
    };
    let wanted;
    let mut told = Told::default();
    match outcome {
        Resolution::Address(name, _) | Resolution::NoRecord(name, _) => {
            wanted = Wanted::Name(name);
            told.wanted = Some(&wanted);
            told.verdict = Some(Verdict::Allowed);
        }
        Resolution::Refused(refusal) => {
            told = refused(&refusal.to_string());
            told.opens = offer(&refusal);
            if let Reason::NameNotAllowed(name) | Reason::LongBelow(name) = refusal.reason {
                wanted = Wanted::Name(name);
                told.wanted = Some(&wanted);
            }
        }
        Resolution::Full(name, full) => {
            wanted = Wanted::Name(name);
            told.wanted = Some(&wanted);
            told.verdict = Some(Verdict::Failed);
            told.reason = Some(full.to_string());
        }
        Resolution::TooMany(name) => {
            told = refused(&Below::reason(&name));
            told.opens = Some(name.to_string());
            wanted = Wanted::Name(name);
            told.wanted = Some(&wanted);
        }
        Resolution::NotAHostName => told = refused("the lookup is not for a host name"),
        Resolution::Unsupported => told = refused("the lookup is of a kind that is not answered"),
        Resolution::Malformed => told = refused("the lookup is malformed"),
    }
    sandbox.tell(Event::Lookup, &told);
}
