//! The wall is tried by a child with a program's privileges, limits and filter.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

use cofferdam_guest::protocol::{self, Findings, HEAD, Passage, ProcessLimits, Reply};

use crate::{program, prove, sys};

/// A child that tries it.
#[derive(Debug)]
pub(crate) struct Proof {
    peer: u64,
    request: u64,
    pipe: File,
    frame: Vec<u8>,
    done: bool,
}

impl Proof {
    pub(crate) fn begin(
        (peer, request): (u64, u64),
        passes: &Passage,
        limits: ProcessLimits,
        filter: &[libc::sock_filter],
    ) -> io::Result<Self> {
        let (read, write) = sys::pipe()?;
        sys::do_not_wait(read.as_fd())?;
        let child = sys::fork_into(0)?;
        if child == 0 {
            drop(read);
            sys::exit(i32::from(tell(write, passes, limits, filter).is_err()));
        }
        Ok(Self {
            peer,
            request,
            pipe: read.into(),
            frame: Vec::new(),
            done: false,
        })
    }

    pub(crate) fn raw(&self) -> RawFd {
        self.pipe.as_raw_fd()
    }

    pub(crate) fn read(&mut self) {
        let mut buffer = [0u8; 4096];
        match self.pipe.read(&mut buffer) {
            Ok(count @ 1..) => self.frame.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Ok(0) | Err(_) => self.done = true,
        }
        self.done |= self.frame.len() > protocol::MAX_FRAME;
    }

    pub(crate) fn is_done(&self) -> bool {
        self.done
    }

    /// For whom, and what was found.
    pub(crate) fn reply(self) -> (u64, Reply) {
        let request = self.request;
        let body = self.frame.get(HEAD..).unwrap_or_default();
        let reply = match protocol::decode::<Findings>(body) {
            Ok(findings) => Reply::Proved { request, findings },
            Err(_) => Reply::Failed {
                request,
                errno: libc::EIO,
            },
        };
        (self.peer, reply)
    }
}

fn tell(
    pipe: OwnedFd,
    passes: &Passage,
    limits: ProcessLimits,
    filter: &[libc::sock_filter],
) -> io::Result<()> {
    program::confine(limits, filter)?;
    let frame = protocol::encode(&prove::findings(passes)).map_err(io::Error::other)?;
    io::Write::write_all(&mut File::from(pipe), &frame)
}
