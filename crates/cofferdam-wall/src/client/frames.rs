//! Frames on a socket that does not block, with the descriptors that travel along.

use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};

use crate::control::{self, HEAD};

/// The most descriptors that come with one frame.
pub const MOST: usize = 16;
/// How much is read at once: the memory of a frame grows with what has really come.
const PIECE: usize = 64 << 10;

/// Sends as much as the socket takes at once, the descriptors with the first byte.
pub fn send(socket: impl AsFd, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::Error::other("too many descriptors for one frame"));
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    Ok(rustix::net::sendmsg(
        socket,
        &[IoSlice::new(bytes)],
        &mut control,
        flags,
    )?)
}

/// Receives what there is; 0 is the end. Descriptors beyond [`MOST`] are an error.
pub fn receive(
    socket: impl AsFd,
    space: &mut [u8],
    descriptors: &mut Vec<OwnedFd>,
) -> io::Result<usize> {
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut control = RecvAncillaryBuffer::new(&mut room);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let message = rustix::net::recvmsg(socket, &mut [IoSliceMut::new(space)], &mut control, flags)?;
    for part in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = part {
            descriptors.extend(rights);
        }
    }
    if message.flags.contains(ReturnFlags::CTRUNC) {
        return Err(io::Error::other("more descriptors than a frame can have"));
    }
    Ok(message.bytes)
}

/// A frame on its way out.
#[derive(Debug)]
pub struct Outgoing {
    frame: Vec<u8>,
    sent: usize,
}

impl Outgoing {
    pub fn new(frame: Vec<u8>) -> Self {
        Self { frame, sent: 0 }
    }

    /// Sends what the socket takes. Whether that was the last of it.
    pub fn advance(&mut self, socket: impl AsFd, fds: &[BorrowedFd<'_>]) -> io::Result<bool> {
        while self.sent < self.frame.len() {
            let along = if self.sent == 0 { fds } else { &[] };
            match send(&socket, &self.frame[self.sent..], along) {
                Ok(sent) => self.sent += sent,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

/// A frame on its way in. Nothing behind it is read.
#[derive(Debug)]
pub struct Incoming {
    /// The longest body.
    most: usize,
    head: [u8; HEAD],
    body: Vec<u8>,
    /// Of head and body.
    got: usize,
    descriptors: Vec<OwnedFd>,
}

impl Incoming {
    pub fn new(most: usize) -> Self {
        Self {
            most,
            head: [0; HEAD],
            body: Vec::new(),
            got: 0,
            descriptors: Vec::new(),
        }
    }

    /// Reads what there is; the body and its descriptors, once it is whole.
    pub fn advance(&mut self, socket: impl AsFd) -> io::Result<Option<(Vec<u8>, Vec<OwnedFd>)>> {
        loop {
            let length = self.length()?;
            if let Some(length) = length
                && self.got == HEAD + length
            {
                let body = std::mem::take(&mut self.body);
                return Ok(Some((body, std::mem::take(&mut self.descriptors))));
            }
            let space = if let Some(length) = length {
                let start = self.got - HEAD;
                self.body.resize(length.min(start + PIECE), 0);
                &mut self.body[start..]
            } else {
                &mut self.head[self.got..]
            };
            match receive(&socket, space, &mut self.descriptors) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(got) => self.got += got,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }

    /// Of the body, where the head is there.
    fn length(&self) -> io::Result<Option<usize>> {
        if self.got < HEAD {
            return Ok(None);
        }
        let length = control::body_length(self.head).map_err(io::Error::other)?;
        if length > self.most {
            return Err(io::Error::other("a frame that is too long here"));
        }
        Ok(Some(length))
    }
}

/// Whether an error says that the other side is gone.
pub fn is_end(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::UnexpectedEof
            | ErrorKind::ConnectionReset
            | ErrorKind::ConnectionRefused
            | ErrorKind::BrokenPipe
            | ErrorKind::NotConnected
    )
}
