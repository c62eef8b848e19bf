//! The end of a connection that is not carried.

use std::net::TcpStream as StdTcpStream;
use std::time::Duration;

use crate::gateway::complaint::complain;

/// Closes a connection so that the program gets an error at once.
pub(super) fn reset(stream: StdTcpStream) {
    if let Err(error) = socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)) {
        complain(&format!("a connection is closed without a reset: {error}"));
    }
    drop(stream);
}
