//! Tests that need the same port of this machine, or the same name in its engines, one after the other.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::time::Duration;

const LOOK: Duration = Duration::from_millis(50);

/// Whoever has it is the only one in this network namespace who takes this port, or this name.
#[derive(Debug)]
pub struct Turn(#[expect(dead_code, reason = "it is kept open")] UnixListener);

impl Turn {
    /// Waits for as long as another test has it.
    pub fn at(port: u16) -> io::Result<Self> {
        Self::take(&format!("cofferdam-test-port-{port}"))
    }

    /// The same of an image's name: who makes that image, and who wants that there is none.
    pub fn of_image(name: &str) -> io::Result<Self> {
        Self::take(&format!("cofferdam-test-image-{name}"))
    }

    fn take(name: &str) -> io::Result<Self> {
        let address = SocketAddr::from_abstract_name(name)?;
        loop {
            match UnixListener::bind_addr(&address) {
                Ok(listener) => return Ok(Self(listener)),
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => std::thread::sleep(LOOK),
                Err(error) => return Err(error),
            }
        }
    }
}
