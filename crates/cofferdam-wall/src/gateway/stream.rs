//! Streams that remember: bytes that were read too early, and how many went where.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use crate::gateway::copy::reset_on_close;

/// A stream of which some bytes were read already: they come again, first.
#[derive(Debug)]
pub(crate) struct Client<S> {
    kept: Vec<u8>,
    next: usize,
    inner: S,
    moved: Arc<AtomicBool>,
}

impl<S> Client<S> {
    pub(crate) fn new(kept: Vec<u8>, inner: S) -> Self {
        Self {
            kept,
            next: 0,
            inner,
            moved: Arc::default(),
        }
    }

    /// The bytes that were not read again, and the stream.
    pub(crate) fn into_parts(mut self) -> (Vec<u8>, S) {
        (self.kept.split_off(self.next), self.inner)
    }

    /// Ready when nothing has moved in either direction for a while: at least `limit`, at most twice that.
    pub(crate) fn idle(&self, limit: Duration) -> impl Future<Output = ()> + Send + use<S> {
        let moved = Arc::clone(&self.moved);
        async move {
            loop {
                tokio::time::sleep(limit).await;
                if !moved.swap(false, Ordering::Relaxed) {
                    return;
                }
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Client<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let kept = self.kept.get(self.next..).unwrap_or_default();
        if kept.is_empty() {
            let before = buffer.filled().len();
            ready!(Pin::new(&mut self.inner).poll_read(context, buffer))?;
            if buffer.filled().len() > before {
                self.moved.store(true, Ordering::Relaxed);
            }
        } else {
            let count = kept.len().min(buffer.remaining());
            buffer.put_slice(&kept[..count]);
            self.next += count;
            if self.next == self.kept.len() {
                self.kept = Vec::new();
                self.next = 0;
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Client<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.inner).poll_write(context, bytes))?;
        self.moved.store(true, Ordering::Relaxed);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.inner).poll_write_vectored(context, pieces))?;
        self.moved.store(true, Ordering::Relaxed);
        Poll::Ready(Ok(written))
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}

/// A connection that can be ended by a reset, which reaches a program as an error.
pub(crate) trait Abort {
    fn abort(&self);
}

impl Abort for TcpStream {
    fn abort(&self) {
        reset_on_close(self);
    }
}

impl<S: Abort> Abort for Client<S> {
    fn abort(&self) {
        self.inner.abort();
    }
}

/// A stream that is reset if it goes after `over` was cancelled, whoever holds it then.
#[derive(Debug)]
pub(crate) struct Ending<S: Abort> {
    inner: S,
    over: CancellationToken,
}

impl<S: Abort> Ending<S> {
    pub(crate) fn new(inner: S, over: CancellationToken) -> Self {
        Self { inner, over }
    }
}

impl<S: Abort> Drop for Ending<S> {
    fn drop(&mut self) {
        if self.over.is_cancelled() {
            self.inner.abort();
        }
    }
}

impl<S: Abort + AsyncRead + Unpin> AsyncRead for Ending<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl<S: Abort + AsyncWrite + Unpin> AsyncWrite for Ending<S> {
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

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(context, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}

/// A stream to a server, counted as seen from the sandbox.
#[derive(Debug)]
pub(crate) struct Counted<S> {
    pub(crate) inner: S,
    pub(crate) sent: Arc<AtomicU64>,
    pub(crate) received: Arc<AtomicU64>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Counted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(context, buffer))?;
        count(&self.received, buffer.filled().len() - before);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Counted<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.inner).poll_write(context, bytes))?;
        count(&self.sent, written);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.inner).poll_write_vectored(context, pieces))?;
        count(&self.sent, written);
        Poll::Ready(Ok(written))
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}

fn count(counter: &AtomicU64, bytes: usize) {
    counter.fetch_add(bytes as u64, Ordering::Relaxed);
}
