//! The wall is tried before anything starts behind it, and what was found decides.
//!
//! Between a real sandbox and a real gateway stands a relay of the test's own, which passes everything on, the
//! descriptors too, and changes one answer: what arrived while the sandbox was proving.

use std::fs;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;

use cofferdam::sandbox::native::Native;
use cofferdam::sandbox::{BindMountProvider, Network, Sandbox, SandboxError, SandboxSpec};
use cofferdam::wall::{Answer, Start, WallError};
use cofferdam_wall::control::{self, DESCRIPTORS, HEAD, Seen};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use tokio_util::sync::CancellationToken;

use crate::support::{House, block_on};

/// What the relay makes of what arrived.
type Change = fn(&mut Seen);

// covers: S3-51
#[test]
fn nothing_starts_behind_a_wall_that_failed_one_finding() {
    let changes: [(Change, &str); 4] = [
        (|seen| seen.lookups -= 1, "lookups"),
        (|seen| seen.connections -= 1, "connections"),
        (|seen| seen.proxied -= 1, "connections to the proxy"),
        (|seen| seen.packets -= 1, "refused packets"),
    ];
    for (change, what) in changes {
        let house = House::new();
        let _gateway = relay(&house, change);
        let Err(SandboxError::Wall(WallError::Breached(why))) = start(&house) else {
            panic!("it started, or ended otherwise: {what}");
        };
        assert!(why.contains(&format!(" {what}, ")), "{why}");
        // It is one finding and no other.
        assert!(!why.contains(';'), "{why}");
    }
    // The control: by a relay that changes nothing, a sandbox starts.
    let house = House::new();
    let _gateway = relay(&house, |_| {});
    start(&house).unwrap();
}

/// Starts a sandbox behind the wall, and ends it.
fn start(house: &House) -> Result<(), SandboxError> {
    let wall = house.spec(&[]);
    let mut spec = SandboxSpec::new(wall.sandbox, wall.name.clone(), "cofferdam-test", "/");
    spec.network = Network::Wall(Box::new(wall));
    block_on(async {
        let cancel = CancellationToken::new();
        let sandbox: Arc<dyn Sandbox> = Native::default().create(&spec, &cancel).await?;
        sandbox.close().await
    })
}

/// Listens where the gateway of `house` would, and passes on to a real one, in the house that is returned.
fn relay(house: &House, change: Change) -> House {
    let behind = House::new();
    behind.status(Start::IfNeeded).unwrap();
    fs::create_dir_all(house.place()).unwrap();
    for path in [house.home.path().to_owned(), house.place()] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o700)).unwrap();
    }
    let listener = UnixListener::bind(house.place().join("socket")).unwrap();
    let real = behind.place().join("socket");
    // Both threads of a connection end with it; who listens ends with the test's process.
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            pass_on(stream.unwrap(), real.clone(), change).unwrap();
        }
    });
    behind
}

fn pass_on(client: UnixStream, real: PathBuf, change: Change) -> io::Result<()> {
    let gateway = UnixStream::connect(real)?;
    let (from, to) = (client.try_clone()?, gateway.try_clone()?);
    std::thread::spawn(move || {
        let _ = questions(&from, &to);
        let _ = to.shutdown(Shutdown::Both);
    });
    std::thread::spawn(move || {
        let _ = answers(&gateway, &client, change);
        let _ = client.shutdown(Shutdown::Both);
    });
    Ok(())
}

/// Bytes as they come, each with the descriptors that came with it.
fn questions(from: &UnixStream, to: &UnixStream) -> io::Result<()> {
    let mut bytes = [0u8; 4096];
    loop {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let parts = &mut [IoSliceMut::new(&mut bytes)];
        let got = rustix::net::recvmsg(from, parts, &mut control, RecvFlags::CMSG_CLOEXEC)?.bytes;
        if got == 0 {
            return Ok(());
        }
        let received: Vec<OwnedFd> = control
            .drain()
            .filter_map(|message| match message {
                RecvAncillaryMessage::ScmRights(received) => Some(received),
                _ => None,
            })
            .flatten()
            .collect();
        let fds: Vec<_> = received.iter().map(AsFd::as_fd).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() {
            assert!(control.push(SendAncillaryMessage::ScmRights(&fds)));
        }
        let parts = [IoSlice::new(&bytes[..got])];
        let sent = rustix::net::sendmsg(to, &parts, &mut control, SendFlags::NOSIGNAL)?;
        assert_eq!(sent, got);
    }
}

/// Frame by frame.
fn answers(mut from: &UnixStream, mut to: &UnixStream, change: Change) -> io::Result<()> {
    loop {
        let mut head = [0u8; HEAD];
        from.read_exact(&mut head)?;
        let mut body = vec![0u8; control::body_length(head).unwrap()];
        from.read_exact(&mut body)?;
        let mut answer: Answer = control::decode(&body).unwrap();
        if let Answer::Seen(seen) = &mut answer {
            change(seen);
        }
        to.write_all(&control::encode(&answer).unwrap())?;
    }
}
