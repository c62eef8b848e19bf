//! The guest's end of the control socket.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

use cofferdam_guest::protocol::{self, FrameError, HEAD, Reply, Setup};
use serde::de::DeserializeOwned;

#[derive(Debug)]
pub(crate) struct Channel {
    socket: File,
    bytes: Vec<u8>,
    fds: VecDeque<OwnedFd>,
}

/// What one look at the socket brought.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    Something,
    /// The host is gone or has closed the sandbox.
    End,
}

impl Channel {
    pub(crate) fn new(socket: OwnedFd) -> Self {
        Self {
            socket: File::from(socket),
            bytes: Vec::new(),
            fds: VecDeque::new(),
        }
    }

    pub(crate) fn raw(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// Reads exactly the first frame, so that what follows is left to the sandbox's init.
    pub(crate) fn read_setup(&mut self) -> io::Result<Setup> {
        let mut head = [0u8; HEAD];
        self.socket.read_exact(&mut head)?;
        let mut body = vec![0u8; protocol::body_length(head).map_err(io::Error::other)?];
        self.socket.read_exact(&mut body)?;
        protocol::decode(&body).map_err(io::Error::other)
    }

    pub(crate) fn send(&mut self, reply: &Reply) -> io::Result<()> {
        let frame = protocol::encode(reply).map_err(io::Error::other)?;
        self.socket.write_all(&frame)
    }

    /// The same with descriptors, which are closed here.
    pub(crate) fn send_with(&mut self, reply: &Reply, fds: Vec<OwnedFd>) -> io::Result<()> {
        let frame = protocol::encode(reply).map_err(io::Error::other)?;
        let sent = sys::send_with(self.socket.as_fd(), &frame, &fds)?;
        drop(fds);
        self.socket.write_all(&frame[sent..])
    }

    /// Takes in what has arrived; blocks if nothing has.
    pub(crate) fn fill(&mut self) -> io::Result<Arrival> {
        let mut buffer = [0u8; 16 << 10];
        let (got, fds) = sys::receive(self.socket.as_fd(), &mut buffer)?;
        self.bytes.extend_from_slice(&buffer[..got]);
        self.fds.extend(fds);
        Ok(if got == 0 {
            Arrival::End
        } else {
            Arrival::Something
        })
    }

    /// The next whole value that has arrived.
    pub(crate) fn next<T: DeserializeOwned>(&mut self) -> Result<Option<T>, FrameError> {
        let Some(head) = self.bytes.first_chunk::<HEAD>() else {
            return Ok(None);
        };
        let length = protocol::body_length(*head)?;
        let Some(body) = self.bytes.get(HEAD..HEAD + length) else {
            return Ok(None);
        };
        let value = protocol::decode(body)?;
        self.bytes.drain(..HEAD + length);
        Ok(Some(value))
    }

    /// The three descriptors that came with the value just taken.
    pub(crate) fn take_fds(&mut self) -> Option<[OwnedFd; 3]> {
        Some([
            self.fds.pop_front()?,
            self.fds.pop_front()?,
            self.fds.pop_front()?,
        ])
    }
}

use crate::sys;
