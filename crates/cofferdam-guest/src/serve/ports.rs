//! Connections to servers inside, for the host: begun here, where the sandbox's loopback is, and handed over when they are
//! made. Nothing is read from one here, and nothing written.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use cofferdam_guest::protocol::{MOST_CONNECTING, MOST_PATIENCE};

use crate::sys;

/// In this order: most servers listen at the first one alone.
const ADDRESSES: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::LOCALHOST),
    IpAddr::V6(Ipv6Addr::LOCALHOST),
];

/// One that is being made.
#[derive(Debug)]
struct Attempt {
    peer: u64,
    request: u64,
    port: u16,
    until: Instant,
    /// How many addresses were tried, the present one included.
    tried: usize,
    state: State,
}

#[derive(Debug)]
enum State {
    Waits(OwnedFd),
    Over(io::Result<OwnedFd>),
}

#[derive(Debug, Default)]
pub(crate) struct Ports(Vec<Attempt>);

impl Ports {
    /// `untaken`: how many descriptors its peer has been told of and not yet taken.
    pub(crate) fn begin(
        &mut self,
        (peer, request): (u64, u64),
        port: u16,
        patience: Duration,
        untaken: usize,
    ) -> io::Result<()> {
        let begun = self.0.iter().filter(|one| one.peer == peer).count();
        if begun + untaken >= MOST_CONNECTING {
            return Err(error(libc::EAGAIN));
        }
        let mut attempt = Attempt {
            peer,
            request,
            port,
            until: Instant::now() + patience.min(MOST_PATIENCE),
            tried: 0,
            state: State::Over(Err(error(libc::ECONNREFUSED))),
        };
        attempt.try_next();
        self.0.push(attempt);
        Ok(())
    }

    pub(crate) fn waits(&self) -> impl Iterator<Item = (usize, sys::Wait)> {
        let attempts = self.0.iter().enumerate();
        attempts.filter_map(|(index, one)| match &one.state {
            State::Waits(socket) => Some((index, sys::Wait::write(socket.as_raw_fd()))),
            State::Over(_) => None,
        })
    }

    /// Until something is to be told that no descriptor tells.
    pub(crate) fn patience(&self) -> Option<Duration> {
        let ends = self.0.iter().map(|one| match one.state {
            State::Waits(_) => one.until.saturating_duration_since(Instant::now()),
            State::Over(_) => Duration::ZERO,
        });
        ends.min()
    }

    /// Its socket is connected, or it failed.
    pub(crate) fn decide(&mut self, index: usize) {
        if let Some(one) = self.0.get_mut(index) {
            one.decide();
        }
    }

    /// Those that are over: whose, by which request, and what became of it.
    pub(crate) fn ended(&mut self) -> Vec<(u64, u64, io::Result<OwnedFd>)> {
        let now = Instant::now();
        let mut ended = Vec::new();
        for one in std::mem::take(&mut self.0) {
            match one.state {
                State::Over(done) => ended.push((one.peer, one.request, done)),
                State::Waits(_) if one.until <= now => {
                    ended.push((one.peer, one.request, Err(error(libc::ETIMEDOUT))));
                }
                State::Waits(_) => self.0.push(one),
            }
        }
        ended
    }

    /// A connection is over.
    pub(crate) fn leave(&mut self, peer: u64) {
        self.0.retain(|one| one.peer != peer);
    }
}

impl Attempt {
    fn decide(&mut self) {
        let over = State::Over(Err(error(libc::ECONNREFUSED)));
        match std::mem::replace(&mut self.state, over) {
            State::Waits(socket) => match sys::socket_error(socket.as_fd()) {
                Ok(()) => self.state = State::Over(Ok(socket)),
                Err(failed) => self.failed(failed),
            },
            over @ State::Over(_) => self.state = over,
        }
    }

    fn failed(&mut self, failed: io::Error) {
        let nobody = match failed.raw_os_error() {
            Some(libc::ECONNREFUSED) => true,
            // There may be no such address: without IPv6 that is all that nobody listens there can be.
            Some(libc::EADDRNOTAVAIL | libc::EAFNOSUPPORT | libc::ENETUNREACH) => self.tried > 1,
            _ => false,
        };
        if nobody {
            self.try_next();
        } else {
            self.state = State::Over(Err(failed));
        }
    }

    /// Where no address is left, nobody listens.
    fn try_next(&mut self) {
        let Some(address) = ADDRESSES.get(self.tried) else {
            self.state = State::Over(Err(error(libc::ECONNREFUSED)));
            return;
        };
        self.tried += 1;
        match sys::begin_to_connect(SocketAddr::new(*address, self.port)) {
            Ok((socket, true)) => self.state = State::Over(Ok(socket)),
            Ok((socket, false)) => self.state = State::Waits(socket),
            Err(failed) => self.failed(failed),
        }
    }
}

fn error(errno: i32) -> io::Error {
    io::Error::from_raw_os_error(errno)
}
