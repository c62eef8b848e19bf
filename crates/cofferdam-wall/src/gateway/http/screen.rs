//! A client's stream, screened: the HTTP library sees of an HTTP/1 request only what is strictly in order.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use super::framing::{Dirty, Framing};
use crate::gateway::budget::{Budget, Share};

/// What the library is given instead of a request that is not in order: it answers 400 and closes.
const NONSENSE: &[u8] = b"\0\r\n\r\n";

#[derive(Debug)]
pub(crate) struct Screen<S> {
    inner: S,
    framing: Framing,
    /// Bytes that were read, from `next` on; those before `clear` may be passed on.
    bytes: Vec<u8>,
    next: usize,
    clear: usize,
    dirty: Arc<OnceLock<Dirty>>,
    /// When the head that is being read must be complete.
    late: Option<Pin<Box<Sleep>>>,
    limit: Duration,
    /// For what waits.
    share: Share,
}

impl<S> Screen<S> {
    /// `limit` is the time for the head of a request: for the first from now on, for others from their first
    /// byte on.
    pub(crate) fn new(inner: S, limit: Duration, budget: &Budget) -> Self {
        Self {
            inner,
            framing: Framing::new(),
            bytes: Vec::new(),
            next: 0,
            clear: 0,
            dirty: Arc::default(),
            late: Some(Box::pin(tokio::time::sleep(limit))),
            limit,
            share: budget.share(),
        }
    }

    /// Where it will be said what was not in order.
    pub(crate) fn dirty(&self) -> Arc<OnceLock<Dirty>> {
        Arc::clone(&self.dirty)
    }

    /// The bytes that were read and not passed on, and the stream.
    pub(crate) fn into_parts(mut self) -> (Vec<u8>, S) {
        (self.bytes.split_off(self.next), self.inner)
    }

    /// Looks at what is new after `clear`.
    fn check(&mut self) {
        let waiting = &self.bytes[self.clear..];
        match self.framing.pass(waiting) {
            Ok(passed) => {
                let more = passed < waiting.len();
                self.clear += passed;
                if passed > 0 {
                    self.late = None;
                }
                if more && self.late.is_none() && self.framing.in_head() {
                    self.late = Some(Box::pin(tokio::time::sleep(self.limit)));
                }
            }
            Err(dirty) => {
                // Said once; what follows it is never looked at.
                let _ = self.dirty.set(dirty);
                self.bytes.truncate(self.clear);
                self.bytes.extend_from_slice(NONSENSE);
                self.clear = self.bytes.len();
                self.late = None;
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Screen<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        while this.next == this.clear {
            if this.dirty.get().is_some() {
                return Poll::Ready(Ok(()));
            }
            this.bytes.drain(..this.next);
            if this.bytes.is_empty() && this.framing.in_head() {
                // A connection that waits for its next request holds no memory for it.
                this.bytes = Vec::new();
            }
            (this.next, this.clear) = (0, 0);
            if let Some(late) = &mut this.late
                && late.as_mut().poll(context).is_ready()
            {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            let mut space = [0; 8192];
            let mut read = ReadBuf::new(&mut space);
            ready!(Pin::new(&mut this.inner).poll_read(context, &mut read))?;
            if read.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
            this.bytes.extend_from_slice(read.filled());
            this.check();
            let waits = this.bytes.len() > this.clear;
            let waiting = if waits { this.bytes.capacity() } else { 0 };
            if let Err(spent) = this.share.set(waiting) {
                // Said once. Nothing of it goes on, not even an answer: there is no memory for that.
                let _ = this.dirty.set(spent.into());
                return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
            }
        }
        let count = (this.clear - this.next).min(buffer.remaining());
        buffer.put_slice(&this.bytes[this.next..this.next + count]);
        this.next += count;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Screen<S> {
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
