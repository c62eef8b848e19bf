//! The guest's end of the control socket, for as long as the sandbox is being set up.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};

use cofferdam_guest::protocol::{self, HEAD, Reply, Setup};

use crate::sys;

#[derive(Debug)]
pub(crate) struct Channel {
    socket: File,
}

impl Channel {
    pub(crate) fn new(socket: OwnedFd) -> Self {
        Self {
            socket: File::from(socket),
        }
    }

    /// Reads exactly the first frame, so that what follows is left to the sandbox's init, with the descriptors that
    /// came along.
    pub(crate) fn read_setup(&mut self) -> io::Result<(Setup, Vec<OwnedFd>)> {
        self.read_with_fds()
    }

    /// One frame, with the descriptors that came along.
    pub(crate) fn read_with_fds<T: serde::de::DeserializeOwned>(
        &mut self,
    ) -> io::Result<(T, Vec<OwnedFd>)> {
        let mut head = [0u8; HEAD];
        let (got, fds) = sys::receive(self.socket.as_fd(), &mut head, 0)?;
        self.socket.read_exact(&mut head[got..])?;
        let mut body = vec![0u8; protocol::body_length(head).map_err(io::Error::other)?];
        self.socket.read_exact(&mut body)?;
        let value = protocol::decode(&body).map_err(io::Error::other)?;
        Ok((value, fds))
    }

    /// A reply with descriptors, to a socket that has room for it.
    pub(crate) fn send_with(&mut self, reply: &Reply, fds: &[OwnedFd]) -> io::Result<()> {
        let frame = protocol::encode(reply).map_err(io::Error::other)?;
        let sent = sys::send_with(self.socket.as_fd(), &frame, fds)?;
        self.socket.write_all(&frame[sent..])
    }

    pub(crate) fn send(&mut self, reply: &Reply) -> io::Result<()> {
        let frame = protocol::encode(reply).map_err(io::Error::other)?;
        self.socket.write_all(&frame)
    }

    pub(crate) fn into_socket(self) -> OwnedFd {
        self.socket.into()
    }
}
