//! A program that tries to get out from its first instruction on.

use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::time::{Duration, Instant};

/// What it tries, again and again.
#[derive(Debug)]
pub struct Race {
    address: SocketAddr,
    name: String,
    nonce: String,
}

const LASTS: Duration = Duration::from_millis(1500);
const CONNECT: Duration = Duration::from_millis(200);

impl Race {
    pub(super) fn read(words: &[&str]) -> io::Result<Self> {
        let [address, name, nonce] = words else {
            return Err(io::Error::other("race ADDRESS NAME NONCE"));
        };
        Ok(Self {
            address: address.parse().map_err(io::Error::other)?,
            name: (*name).to_owned(),
            nonce: (*nonce).to_owned(),
        })
    }

    /// Nothing here may fail: the lab says what came through.
    pub(super) fn run(&self) {
        let start = Instant::now();
        while start.elapsed() < LASTS {
            if let Ok(mut stream) = TcpStream::connect_timeout(&self.address, CONNECT) {
                let _ = stream.write_all(self.nonce.as_bytes());
            }
            if let Ok(socket) = UdpSocket::bind("0.0.0.0:0") {
                let _ = socket.send_to(self.nonce.as_bytes(), self.address);
            }
            let _ = format!("{}.{}:80", self.nonce, self.name).to_socket_addrs();
        }
    }
}
