//! Tests that need the same port of this machine, one after the other.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::time::Duration;

const LOOK: Duration = Duration::from_millis(50);

/// Whoever has it is the only one in this network namespace who takes this port.
#[derive(Debug)]
pub struct Turn(#[expect(dead_code, reason = "it is kept open")] UnixListener);

impl Turn {
    /// Waits for as long as another test has it.
    pub fn at(port: u16) -> io::Result<Self> {
        let address = SocketAddr::from_abstract_name(format!("cofferdam-test-port-{port}"))?;
        loop {
            match UnixListener::bind_addr(&address) {
                Ok(listener) => return Ok(Self(listener)),
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => std::thread::sleep(LOOK),
                Err(error) => return Err(error),
            }
        }
    }
}
