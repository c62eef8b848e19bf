//! How a guest comes up, and is found again: what it says before anybody uses it, with a bound each.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use cofferdam_guest::protocol::{self, GREETING, PROTOCOL, Reply, Request};
use tokio::net::UnixStream;
use tokio_util::sync::CancellationToken;

use super::connection::ANSWER_LIMIT;
use super::stream::{self, Received, receive};
use crate::sandbox::SandboxError;

/// The wall is tried with the number before it.
pub(in crate::sandbox) const STAY: u64 = 1;

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
pub(in crate::sandbox) fn start_error(error: io::Error) -> SandboxError {
    SandboxError::Start(error.to_string())
}

/// Whatever a guest says or does not say meanwhile.
pub(in crate::sandbox) async fn bounded<T>(
    step: impl Future<Output = Result<T, SandboxError>>,
    limit: Duration,
    cancel: &CancellationToken,
) -> Result<T, SandboxError> {
    tokio::select! {
        () = cancel.cancelled() => Err(SandboxError::Cancelled),
        done = tokio::time::timeout(limit, step) => {
            done.unwrap_or(Err(SandboxError::TimedOut(limit.as_secs())))
        }
    }
}

/// The first reply of a guest: it is ready, or says why not. The descriptors that came with it.
pub(in crate::sandbox) async fn ready(stream: &UnixStream) -> Result<Vec<OwnedFd>, SandboxError> {
    let received = receive(stream).await;
    let received = received.map_err(|error| SandboxError::Start(error.to_string()))?;
    let Some(Received { reply, fds }) = received else {
        let what = "its init ended before it was ready";
        return Err(SandboxError::Start(what.to_owned()));
    };
    match reply {
        Reply::Ready => Ok(fds),
        Reply::Unsupported { what, hint } => Err(SandboxError::Unsupported {
            what: crate::text::printable(&what),
            hint: crate::text::printable(&hint),
        }),
        Reply::Broken { what } => Err(SandboxError::Start(crate::text::printable(&what))),
        _ => Err(SandboxError::Start(
            "its init did not say that it is ready".to_owned(),
        )),
    }
}

/// The last step: until it is taken the end of this process is the sandbox's.
pub(in crate::sandbox) async fn stay(stream: &UnixStream) -> Result<(), SandboxError> {
    let request = Request::Stay { request: STAY };
    let frame =
        protocol::encode(&request).map_err(|error| start_error(std::io::Error::other(error)))?;
    let asked = async {
        stream::send(stream, &frame, &[]).await?;
        stream::receive(stream).await
    };
    let answer = tokio::time::timeout(ANSWER_LIMIT, asked)
        .await
        .map_err(|_| SandboxError::TimedOut(ANSWER_LIMIT.as_secs()))?;
    match answer.map_err(start_error)? {
        Some(Received {
            reply: Reply::Done { request: STAY },
            ..
        }) => Ok(()),
        _ => Err(SandboxError::Start(
            "its init did not say that it stays".to_owned(),
        )),
    }
}

/// Each side says its version. Returns the guest's, which tells what else it knows.
pub(in crate::sandbox) async fn greet(stream: &UnixStream) -> Result<u32, SandboxError> {
    let broken = |error: io::Error| match error.kind() {
        io::ErrorKind::UnexpectedEof => SandboxError::Gone("it takes no more users".to_owned()),
        _ => SandboxError::Gone(error.to_string()),
    };
    let greeting = async {
        let ours = protocol::greeting(PROTOCOL);
        stream::send(stream, &ours, &[]).await?;
        let mut theirs = [0; GREETING];
        stream::read_exact(stream, &mut theirs).await?;
        Ok(theirs)
    };
    let theirs = tokio::time::timeout(ANSWER_LIMIT, greeting)
        .await
        .map_err(|_| SandboxError::TimedOut(ANSWER_LIMIT.as_secs()))?
        .map_err(broken)?;
    match protocol::greeted(theirs) {
        Some(version) if protocol::is_spoken(version) => Ok(version),
        Some(theirs) => Err(SandboxError::OtherVersion {
            theirs,
            ours: PROTOCOL,
        }),
        None => Err(SandboxError::Gone(
            "it is no sandbox that answers".to_owned(),
        )),
    }
}
