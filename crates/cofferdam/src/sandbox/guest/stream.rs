//! Frames and descriptors over the sockets of a guest. Nothing that arrives is trusted: a frame costs what really
//! arrives of it, and descriptors that nobody asked for are closed.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use cofferdam_guest::protocol::{
    self, HEAD, Reply, WALL_SOCKETS, WALL_SOCKETS as MOST_DESCRIPTORS,
};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use tokio::io::Interest;
use tokio::net::UnixStream;

/// So much of a long reply is made room for at once.
const PART: usize = 16 << 10;

/// What a guest said.
#[derive(Debug)]
pub(in crate::sandbox) struct Received {
    pub(in crate::sandbox) reply: Reply,
    /// At most [`MOST_DESCRIPTORS`].
    pub(in crate::sandbox) fds: Vec<OwnedFd>,
}

/// The next reply, with the descriptors that came with its first byte; none at the end. Not cancel safe.
pub(in crate::sandbox) async fn receive(stream: &UnixStream) -> io::Result<Option<Received>> {
    let mut head = [0u8; HEAD];
    // With a later byte none is taken.
    let (got, fds) = receive_with(stream, &mut head[..1]).await?;
    if got == 0 {
        return Ok(None);
    }
    read_exact(stream, &mut head[1..]).await?;
    let length = protocol::body_length(head).map_err(io::Error::other)?;
    let mut body = Vec::new();
    // The buffer grows with what really arrives, not with what was announced.
    while body.len() < length {
        let filled = body.len();
        body.resize(length.min(filled + PART), 0);
        read_exact(stream, &mut body[filled..]).await?;
    }
    let reply = protocol::decode(&body).map_err(io::Error::other)?;
    Ok(Some(Received { reply, fds }))
}

async fn receive_with(stream: &UnixStream, buffer: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let read = || {
        let mut fds = Vec::new();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(buffer)];
        let flags = RecvFlags::CMSG_CLOEXEC;
        let received = rustix::net::recvmsg(stream, &mut parts, &mut control, flags)?;
        let cut = received.flags.contains(ReturnFlags::CTRUNC);
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(received) = message {
                fds.extend(received);
            }
        }
        if cut || fds.len() > MOST_DESCRIPTORS {
            let what = "its init sent more descriptors than it was asked for";
            return Err(io::Error::other(what));
        }
        Ok((received.bytes, fds))
    };
    stream.async_io(Interest::READABLE, read).await
}

/// Descriptors that come along are closed.
pub(in crate::sandbox) async fn read_exact(
    stream: &UnixStream,
    buffer: &mut [u8],
) -> io::Result<()> {
    let mut filled = 0;
    while filled < buffer.len() {
        let rest = &mut buffer[filled..];
        let read = || Ok(rustix::net::recv(stream, &mut *rest, RecvFlags::empty())?.0);
        match stream.async_io(Interest::READABLE, read).await? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => filled += count,
        }
    }
    Ok(())
}

/// What comes with a set-up at most: the sockets of a wall that something else made, the way to a root, and what a sandbox that outlives
/// its maker has.
const MOST_SENT: usize = WALL_SOCKETS + 4;

/// Sends all of it, with descriptors that travel with the first byte: [`MOST_SENT`] at most.
pub(in crate::sandbox) async fn send(
    stream: &UnixStream,
    bytes: &[u8],
    fds: &[OwnedFd],
) -> io::Result<()> {
    let mut rest = bytes;
    let mut first = true;
    while !rest.is_empty() {
        let write = || {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_SENT))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            let borrowed: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
            if first && !borrowed.is_empty() {
                control.push(SendAncillaryMessage::ScmRights(&borrowed));
            }
            let parts = [IoSlice::new(rest)];
            let flags = SendFlags::NOSIGNAL;
            Ok(rustix::net::sendmsg(stream, &parts, &mut control, flags)?)
        };
        let sent = stream.async_io(Interest::WRITABLE, write).await?;
        first = false;
        rest = &rest[sent..];
    }
    Ok(())
}
