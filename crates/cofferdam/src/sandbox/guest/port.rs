//! The host's side of a connection to a server inside.
//!
//! The sandbox's init makes the connection and hands over the socket, and may have kept it: so it is looked at first, and
//! no call here waits, whatever is set on it.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use cofferdam_guest::protocol::Request;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, Shutdown, SocketType, ipproto, sockopt};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::connection::{Answer, Connection, refused};
use super::polled::{poll_read, poll_write, polled};
use crate::sandbox::{PortStream, SandboxError};

/// How long a server may let a connection wait that it does not take.
const PATIENCE: Duration = Duration::from_secs(5);

/// As [`crate::sandbox::Sandbox::connect`].
pub(super) async fn connect(
    connection: &Connection,
    port: u16,
) -> Result<PortStream, SandboxError> {
    let patience = u32::try_from(PATIENCE.as_millis()).unwrap_or(u32::MAX);
    let make = |request| Request::Connect {
        request,
        port,
        patience,
    };
    let fds = match connection.answer(make).await? {
        Answer::Descriptors(fds) => fds,
        Answer::Failed(libc::ECONNREFUSED) => return Err(SandboxError::NotListening(port)),
        Answer::Failed(errno) => {
            let reason = match errno {
                libc::ETIMEDOUT => "its server does not take the connection".to_owned(),
                libc::EAGAIN => "too many connections are waiting to be taken".to_owned(),
                libc::EACCES => "it is the network wall's".to_owned(),
                libc::EOPNOTSUPP => "its network is this machine's".to_owned(),
                _ => io::Error::from_raw_os_error(errno).to_string(),
            };
            return Err(SandboxError::Port { port, reason });
        }
        other => return Err(refused(&other)),
    };
    let Ok([socket]) = <[OwnedFd; 1]>::try_from(fds) else {
        return Err(no_connection());
    };
    open(socket, port)
}

fn no_connection() -> SandboxError {
    SandboxError::Gone("it handed over something else than a connection to that port".to_owned())
}

/// A socket that somebody inside says to be connected to this port.
pub(super) fn open(socket: OwnedFd, port: u16) -> Result<PortStream, SandboxError> {
    match leads_to(&socket, port) {
        Ok(true) => {}
        // The kernel chose that very port for this side too: nobody listens, and it speaks to itself.
        Ok(false) => return Err(SandboxError::NotListening(port)),
        Err(_) => return Err(no_connection()),
    }
    let made = Socket::new(socket).map_err(|error| SandboxError::Port {
        port,
        reason: error.to_string(),
    });
    let socket = Arc::new(made?);
    Ok(PortStream {
        output: Box::new(Output(Arc::clone(&socket))),
        input: Box::new(Input(socket)),
    })
}

/// Whether its other side is somebody else's. An error: it is no TCP connection to that port of a loopback.
fn leads_to(socket: &OwnedFd, port: u16) -> io::Result<bool> {
    let other = || io::Error::from(io::ErrorKind::InvalidData);
    let family = sockopt::socket_domain(socket)?;
    if ![AddressFamily::INET, AddressFamily::INET6].contains(&family)
        || sockopt::socket_type(socket)? != SocketType::STREAM
        || sockopt::socket_protocol(socket)? != Some(ipproto::TCP)
    {
        return Err(other());
    }
    let theirs = rustix::net::getpeername(socket)?.ok_or_else(other)?;
    let theirs = SocketAddr::try_from(theirs)?;
    let is_loopback = match theirs.ip() {
        IpAddr::V4(v4) => v4.is_loopback(),
        IpAddr::V6(v6) => v6.is_loopback(),
    };
    if !is_loopback || theirs.port() != port {
        return Err(other());
    }
    let ours = SocketAddr::try_from(rustix::net::getsockname(socket)?)?;
    Ok(ours != theirs)
}

/// Open for as long as one of its halves is there.
#[derive(Debug)]
struct Socket(AsyncFd<OwnedFd>);

impl Socket {
    fn new(socket: OwnedFd) -> io::Result<Self> {
        // What is passed on goes at once: whoever speaks over it decides what belongs together.
        sockopt::set_tcp_nodelay(&socket, true)?;
        Ok(Self(polled(socket)?))
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // Else close(2) could wait for a server that reads nothing.
        let _ = sockopt::set_socket_linger(self.0.get_ref(), None);
    }
}

#[derive(Debug)]
struct Output(Arc<Socket>);

impl AsyncRead for Output {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        poll_read(&self.0.0, context, buffer, |socket, into| {
            // Whoever kept the socket may have changed that it does not wait.
            Ok(rustix::net::recv(socket, into, RecvFlags::DONTWAIT)?.0)
        })
    }
}

#[derive(Debug)]
struct Input(Arc<Socket>);

impl Drop for Input {
    fn drop(&mut self) {
        let _ = rustix::net::shutdown(self.0.0.get_ref(), Shutdown::Write);
    }
}

impl AsyncWrite for Input {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        poll_write(&self.0.0, context, |socket| {
            rustix::net::send(socket, bytes, flags)
        })
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Who has ended it already has nothing to be told.
        let told = match rustix::net::shutdown(self.0.0.get_ref(), Shutdown::Write) {
            Err(rustix::io::Errno::NOTCONN) => Ok(()),
            other => other.map_err(io::Error::from),
        };
        Poll::Ready(told)
    }
}

#[cfg(test)]
mod tests;
