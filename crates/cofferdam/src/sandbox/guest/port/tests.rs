//! What a guest hands over that lies.

use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::sync::mpsc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

/// Both sides of a connection, and the port of the second.
fn pair() -> (TcpStream, TcpStream, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let ours = TcpStream::connect(at).unwrap();
    (ours, listener.accept().unwrap().0, at.port())
}

/// Does it where it may wait for ever: whether it did not.
fn does_not_wait<F: Future<Output = ()>>(work: impl FnOnce() -> F + Send + 'static) -> bool {
    let (done, wait) = mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.unwrap().block_on(work());
        let _ = done.send(());
    });
    wait.recv_timeout(Duration::from_secs(10)).is_ok()
}

#[tokio::test]
async fn a_port_is_a_connection_to_that_port_and_nothing_else() {
    let (ours, theirs, port) = pair();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let listening = listener.local_addr().unwrap().port();
    let datagrams = UdpSocket::bind("127.0.0.1:0").unwrap();
    datagrams.connect(("127.0.0.1", port)).unwrap();
    let (unix, _other) = UnixStream::pair().unwrap();
    let file = std::fs::File::open("/dev/null").unwrap();
    let (pipe, _other_end) = rustix::pipe::pipe().unwrap();
    for (what, socket, port) in [
        (
            "another port",
            OwnedFd::from(ours.try_clone().unwrap()),
            port.wrapping_add(1),
        ),
        ("a file", file.into(), port),
        ("a pipe", pipe, port),
        ("a unix socket", unix.into(), port),
        ("a datagram socket", datagrams.into(), port),
        ("a listener", listener.into(), listening),
        ("the other side", theirs.try_clone().unwrap().into(), port),
    ] {
        let refused = open(socket, port).map(drop).unwrap_err();
        let said = refused.to_string();
        assert_eq!(
            said,
            "the sandbox is gone: it handed over something else than a connection to that port",
            "{what}"
        );
    }
    // The control.
    let mut stream = open(ours.into(), port).unwrap();
    let mut theirs = tokio::net::TcpStream::from_std({
        theirs.set_nonblocking(true).unwrap();
        theirs
    })
    .unwrap();
    theirs.write_all(b"hello").await.unwrap();
    let mut said = [0; 5];
    stream.output.read_exact(&mut said).await.unwrap();
    assert_eq!(&said, b"hello");
}

/// Where nobody listens the kernel may choose the port itself for this side: then it is connected to itself.
#[tokio::test]
async fn who_speaks_to_itself_is_nobody() {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    rustix::net::bind(&socket, &any).unwrap();
    let itself = SocketAddr::try_from(rustix::net::getsockname(&socket).unwrap()).unwrap();
    rustix::net::connect(&socket, &itself).unwrap();
    let refused = open(socket, itself.port()).map(drop);
    assert!(
        matches!(refused, Err(SandboxError::NotListening(port)) if port == itself.port()),
        "{refused:?}"
    );
}

/// Whoever kept the socket reads what has come, and has calls wait from now on.
#[test]
fn nobody_who_kept_the_socket_makes_its_user_wait() {
    assert!(does_not_wait(async || {
        let (ours, mut theirs, port) = pair();
        let kept = ours.try_clone().unwrap();
        let mut stream = open(ours.into(), port).unwrap();
        // Both of it are ready, as far as is known here.
        std::io::Write::write_all(&mut theirs, b"first").unwrap();
        stream.output.read_exact(&mut [0; 4]).await.unwrap();
        kept.set_nonblocking(false).unwrap();
        std::io::Read::read_exact(&mut (&kept), &mut [0; 1]).unwrap();
        let limit = Duration::from_millis(100);
        let read = tokio::time::timeout(limit, stream.output.read_u8()).await;
        assert!(read.is_err(), "{read:?}");
        // More than the other side takes.
        let much = vec![0; 64 << 20];
        let written = tokio::time::timeout(limit, stream.input.write_all(&much)).await;
        assert!(written.is_err(), "{written:?}");
    }));
}

/// Whoever handed it over has its closing wait until all of it has been read.
#[test]
fn nobody_makes_its_closing_wait() {
    assert!(does_not_wait(async || {
        let (ours, theirs, port) = pair();
        sockopt::set_socket_linger(&ours, Some(Duration::from_secs(600))).unwrap();
        let mut stream = open(ours.into(), port).unwrap();
        let much = vec![0; 64 << 20];
        let limit = Duration::from_millis(100);
        let written = tokio::time::timeout(limit, stream.input.write_all(&much)).await;
        assert!(written.is_err(), "{written:?}");
        drop(stream);
        drop(theirs);
    }));
}
