//! Descriptors of which somebody inside may have the other side, or the same open file: waited for by the runtime, and then
//! read and written by calls that wait for nobody.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::task::{Context, Poll, ready};

use tokio::io::ReadBuf;
use tokio::io::unix::AsyncFd;

#[expect(
    deprecated,
    reason = "an OwnedFd stays what it is; the successor is an unsafe function"
)]
pub(super) fn polled(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::new(fd)
}

/// As [`tokio::io::AsyncRead::poll_read`]. `read` must not wait.
pub(super) fn poll_read(
    fd: &AsyncFd<OwnedFd>,
    context: &mut Context<'_>,
    buffer: &mut ReadBuf<'_>,
    read: impl Fn(BorrowedFd<'_>, &mut [u8]) -> rustix::io::Result<usize>,
) -> Poll<io::Result<()>> {
    loop {
        let mut guard = ready!(fd.poll_read_ready(context))?;
        let got = guard.try_io(|fd| Ok(read(fd.as_fd(), buffer.initialize_unfilled())?));
        if let Ok(got) = got {
            buffer.advance(got?);
            return Poll::Ready(Ok(()));
        }
    }
}

/// As [`tokio::io::AsyncWrite::poll_write`]. `write` must not wait.
pub(super) fn poll_write(
    fd: &AsyncFd<OwnedFd>,
    context: &mut Context<'_>,
    write: impl Fn(BorrowedFd<'_>) -> rustix::io::Result<usize>,
) -> Poll<io::Result<usize>> {
    loop {
        let mut guard = ready!(fd.poll_write_ready(context))?;
        if let Ok(written) = guard.try_io(|fd| Ok(write(fd.as_fd())?)) {
            return Poll::Ready(written);
        }
    }
}
