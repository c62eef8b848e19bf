//! A server that is spoken to in HTTP/2 has to say so first: to one that reads HTTP/1 the frames of a request could
//! read as a request of their own.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::oneshot;

/// The head of a frame: length, kind, flags, stream (RFC 9113, 4.1).
const HEAD: usize = 9;
const SETTINGS: u8 = 4;
const ACK: u8 = 1;

/// A stream to a server whose first bytes are looked at.
#[derive(Debug)]
pub(super) struct Greeting<S> {
    inner: S,
    head: Vec<u8>,
    come: Option<oneshot::Sender<()>>,
}

impl<S> Greeting<S> {
    /// With what is told when the settings have come (RFC 9113, 3.4), and ends without if something else has.
    pub(super) fn new(inner: S) -> (Self, oneshot::Receiver<()>) {
        let (come, told) = oneshot::channel();
        let greeting = Self {
            inner,
            head: Vec::new(),
            come: Some(come),
        };
        (greeting, told)
    }

    fn look(&mut self, bytes: &[u8]) -> io::Result<()> {
        let count = bytes.len().min(HEAD - self.head.len());
        self.head.extend_from_slice(&bytes[..count]);
        let Some([_, _, _, kind, flags, stream @ ..]) = self.head.first_chunk::<HEAD>() else {
            return Ok(());
        };
        let come = self.come.take();
        if *kind != SETTINGS || flags & ACK != 0 || *stream != [0; 4] {
            return Err(io::ErrorKind::InvalidData.into());
        }
        if let Some(come) = come {
            // Nobody waits any more.
            _ = come.send(());
        }
        self.head = Vec::new();
        Ok(())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Greeting<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(context, buffer))?;
        if self.come.is_some() {
            self.look(&buffer.filled()[before..])?;
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Greeting<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}
