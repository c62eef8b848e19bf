//! One connection to the gateway: frames out with descriptors, answers in, each with a bound.

use std::io::{self, ErrorKind};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use cofferdam_wall::client::{GatewayDirectory, frames};
use cofferdam_wall::control::{self, Answer, HEAD};
use tokio::io::{AsyncReadExt, Interest};
use tokio::net::UnixStream;

use crate::wall::WallError;

/// How often it is looked whether the gateway is still the one that others find.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// A connection to the gateway. Dropping it ends what was registered on it.
#[derive(Debug)]
pub(crate) struct GatewayLink {
    stream: UnixStream,
    at: GatewayDirectory,
    /// The socket that it was made by.
    socket: Option<(u64, u64)>,
}

impl GatewayLink {
    pub(super) fn new(stream: UnixStream, at: GatewayDirectory) -> Self {
        let socket = at.socket_here();
        Self { stream, at, socket }
    }

    /// Sends one frame, its descriptors with the first byte, and waits for the answer. Not cancel
    /// safe: a connection whose question was dropped is of no more use.
    pub(crate) async fn ask(
        &mut self,
        frame: &[u8],
        fds: &[BorrowedFd<'_>],
        limit: Duration,
    ) -> Result<Answer, WallError> {
        let asked = async {
            send(&self.stream, frame, fds).await?;
            receive(&mut self.stream).await
        };
        let body = match tokio::time::timeout(limit, asked).await {
            Ok(Ok(body)) => body,
            Ok(Err(error)) if frames::is_end(&error) => {
                let words = crate::text::printable(&self.at.last_words());
                return Err(WallError::Ended(words));
            }
            Ok(Err(error)) => return Err(error.into()),
            Err(_) => {
                return Err(WallError::Silent {
                    process: self.at.process(),
                    seconds: limit.as_secs(),
                });
            }
        };
        match control::decode(&body)? {
            Answer::Error(text) => Err(WallError::Refused(crate::text::printable(&text))),
            answer => Ok(answer),
        }
    }

    /// The connection itself: what is registered on it stays for as long as it is open.
    pub(crate) fn into_descriptor(self) -> io::Result<OwnedFd> {
        Ok(self.stream.into_std()?.into())
    }

    /// Returns when others no longer reach this gateway: its directory or its socket was removed, and changes
    /// of rules would not come here. Cancel safe.
    pub(crate) async fn strayed(&self) {
        loop {
            tokio::time::sleep(LOOK_AGAIN).await;
            if self.at.socket_found() != self.socket {
                return;
            }
        }
    }

    /// Returns when the gateway has ended, or says something that nobody asked. Cancel safe.
    pub(crate) async fn ended(&self) {
        loop {
            if self.stream.readable().await.is_err() {
                return;
            }
            match self.stream.try_read(&mut [0u8]) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                _ => return,
            }
        }
    }
}

pub(crate) async fn send(
    stream: &UnixStream,
    frame: &[u8],
    fds: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let mut rest = frame;
    let mut fds = fds;
    while !rest.is_empty() {
        let sent = stream
            .async_io(Interest::WRITABLE, || frames::send(stream, rest, fds))
            .await?;
        fds = &[];
        rest = &rest[sent..];
    }
    Ok(())
}

pub(crate) async fn receive(stream: &mut UnixStream) -> io::Result<Vec<u8>> {
    let mut head = [0u8; HEAD];
    stream.read_exact(&mut head).await?;
    let length = control::body_length(head).map_err(io::Error::other)?;
    // The buffer grows with what really arrives, not with what was announced.
    let mut body = Vec::with_capacity(length.min(4096));
    if stream.take(length as u64).read_to_end(&mut body).await? != length {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    Ok(body)
}
