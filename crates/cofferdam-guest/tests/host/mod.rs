//! The host's side of a guest, by hand.

use std::io::{IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use cofferdam_guest::protocol::{self, GREETING, HEAD, PROTOCOL, Reply, Request};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketType,
};

/// Nothing here takes long: what does is broken.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// What a guest is to listen on.
pub(crate) fn bound(path: &Path) -> OwnedFd {
    let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
    rustix::net::bind(&socket, &SocketAddrUnix::new(path).unwrap()).unwrap();
    socket
}

/// A user of a guest that lives on, greeted.
pub(crate) fn connect(path: &Path) -> UnixStream {
    let mut stream = UnixStream::connect(path).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    assert!(greet(&mut stream), "it was sent away");
    stream
}

/// Whether it is answered.
pub(crate) fn greet(stream: &mut UnixStream) -> bool {
    let _ = stream.write_all(&protocol::greeting(PROTOCOL));
    let mut theirs = [0u8; GREETING];
    if stream.read_exact(&mut theirs).is_err() {
        return false;
    }
    assert!(protocol::greeted(theirs).is_some_and(protocol::is_spoken));
    true
}

pub(crate) fn send(stream: &UnixStream, frame: &[u8], fds: &[BorrowedFd<'_>]) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        assert!(control.push(SendAncillaryMessage::ScmRights(fds)));
    }
    let parts = [IoSlice::new(frame)];
    let sent = rustix::net::sendmsg(stream, &parts, &mut control, SendFlags::NOSIGNAL).unwrap();
    assert_eq!(sent, frame.len());
}

pub(crate) fn receive(stream: &mut UnixStream) -> Reply {
    let mut head = [0u8; HEAD];
    stream.read_exact(&mut head).unwrap();
    let mut body = vec![0; protocol::body_length(head).unwrap()];
    stream.read_exact(&mut body).unwrap();
    protocol::decode(&body).unwrap()
}

pub(crate) fn ask(stream: &mut UnixStream, request: &Request) -> Reply {
    ask_with(stream, request, &[])
}

pub(crate) fn ask_with(stream: &mut UnixStream, request: &Request, fds: &[OwnedFd]) -> Reply {
    let fds: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
    send(stream, &protocol::encode(request).unwrap(), &fds);
    receive(stream)
}
