//! One process of the host that is connected: what it has said and what it is still to be told. None of it waits, and
//! all of it has a bound, so that nobody who floods, stops or does not read costs another one anything.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use cofferdam_guest::protocol::{self, GREETING, HEAD, Reply, Request};

use crate::sys;

/// Bytes that may wait to be read by it.
const MOST_QUEUED: usize = 2 * protocol::MAX_FRAME;
/// Descriptors that may have come with a request which is not whole yet.
const MOST_DESCRIPTORS: usize = 8;
/// Bytes that are taken in at once: the share of one among many.
const SHARE: usize = 16 << 10;

#[derive(Debug)]
struct Outgoing {
    frame: Vec<u8>,
    sent: usize,
    fds: Vec<OwnedFd>,
}

/// Why a connection ends: it is over, or what came over it is nothing that the protocol knows.
#[derive(Debug)]
pub(crate) struct Ended;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// It has not yet said what it speaks.
    New,
    Talking,
    /// To be closed as soon as what is queued has gone out.
    Leaving,
    Ended,
}

#[derive(Debug)]
pub(crate) struct Peer {
    socket: OwnedFd,
    phase: Phase,
    /// It came over the control socket and the sandbox is not whole yet: its end is the sandbox's.
    pub(crate) maker: bool,
    bytes: Vec<u8>,
    fds: VecDeque<OwnedFd>,
    queue: VecDeque<Outgoing>,
    queued: usize,
    /// Its numbers, and those of the programs.
    pub(crate) execs: BTreeMap<u64, u64>,
    /// There are requests that were left for the next turn: nothing more is read until they are answered.
    pub(crate) behind: bool,
}

impl Peer {
    /// The connection over which the sandbox was set up.
    pub(crate) fn maker(socket: OwnedFd) -> Self {
        Self {
            phase: Phase::Talking,
            maker: true,
            ..Self::new(socket)
        }
    }

    pub(crate) fn new(socket: OwnedFd) -> Self {
        Self {
            socket,
            phase: Phase::New,
            maker: false,
            bytes: Vec::new(),
            fds: VecDeque::new(),
            queue: VecDeque::new(),
            queued: 0,
            execs: BTreeMap::new(),
            behind: false,
        }
    }

    pub(crate) fn wait(&self) -> sys::Wait {
        sys::Wait {
            fd: self.socket.as_raw_fd(),
            read: self.phase != Phase::Leaving && !self.behind,
            write: !self.queue.is_empty(),
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.phase == Phase::Ended || self.phase == Phase::Leaving && self.queue.is_empty()
    }

    pub(crate) fn end(&mut self) {
        self.phase = Phase::Ended;
    }

    /// Takes in a share of what has arrived.
    pub(crate) fn fill(&mut self) -> Result<(), Ended> {
        let mut buffer = [0u8; SHARE];
        let got = sys::receive(self.socket.as_fd(), &mut buffer, libc::MSG_DONTWAIT);
        let (got, fds) = match got {
            Ok(got) => got,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(_) => return Err(Ended),
        };
        self.bytes.extend_from_slice(&buffer[..got]);
        self.fds.extend(fds);
        if got == 0 || self.fds.len() > MOST_DESCRIPTORS {
            return Err(Ended);
        }
        if self.phase == Phase::New {
            self.greet()?;
        }
        Ok(())
    }

    /// Each side says its version. One that differs hears it, and that is all.
    fn greet(&mut self) -> Result<(), Ended> {
        let Some(greeting) = self.bytes.first_chunk::<GREETING>() else {
            return Ok(());
        };
        let version = protocol::greeted(*greeting).ok_or(Ended)?;
        self.bytes.drain(..GREETING);
        self.phase = if protocol::is_spoken(version) {
            Phase::Talking
        } else {
            Phase::Leaving
        };
        self.push(protocol::greeting(protocol::SPOKEN).to_vec(), Vec::new());
        Ok(())
    }

    /// The next whole request that has arrived.
    pub(crate) fn next(&mut self) -> Result<Option<Request>, Ended> {
        if self.phase != Phase::Talking {
            return Ok(None);
        }
        let Some(head) = self.bytes.first_chunk::<HEAD>() else {
            return Ok(None);
        };
        let length = protocol::body_length(*head).map_err(|_| Ended)?;
        let Some(body) = self.bytes.get(HEAD..HEAD + length) else {
            return Ok(None);
        };
        let request = protocol::decode(body).map_err(|_| Ended)?;
        self.bytes.drain(..HEAD + length);
        Ok(Some(request))
    }

    /// Descriptors that came with the request just taken.
    pub(crate) fn take_fds(&mut self, count: usize) -> Option<Vec<OwnedFd>> {
        (self.fds.len() >= count).then(|| self.fds.drain(..count).collect())
    }

    pub(crate) fn tell(&mut self, reply: &Reply) {
        self.tell_with(reply, Vec::new());
    }

    /// The same with descriptors, which are closed here when they have gone out.
    pub(crate) fn tell_with(&mut self, reply: &Reply, fds: Vec<OwnedFd>) {
        match protocol::encode(reply) {
            Ok(frame) => self.push(frame, fds),
            Err(_) => self.end(),
        }
    }

    fn push(&mut self, frame: Vec<u8>, fds: Vec<OwnedFd>) {
        self.queued += frame.len();
        self.queue.push_back(Outgoing {
            frame,
            sent: 0,
            fds,
        });
        self.flush();
        if self.queued > MOST_QUEUED {
            self.end();
        }
    }

    /// How many descriptors it was told of that have not gone out.
    pub(crate) fn untaken(&self) -> usize {
        self.queue.iter().map(|one| one.fds.len()).sum()
    }

    /// Sends what can be sent without waiting.
    pub(crate) fn flush(&mut self) {
        while let Some(first) = self.queue.front_mut() {
            let rest = &first.frame[first.sent..];
            let sent = if first.fds.is_empty() {
                sys::send_now(self.socket.as_fd(), rest)
            } else {
                sys::send_with(self.socket.as_fd(), rest, &first.fds)
            };
            match sent {
                Ok(count) => {
                    first.fds.clear();
                    first.sent += count;
                    self.queued -= count;
                    if first.sent == first.frame.len() {
                        self.queue.pop_front();
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return self.end(),
            }
        }
    }
}
