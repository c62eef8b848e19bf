//! A guest that outlives its maker, spoken to by hand.

#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests start programs, write files, and stop at the first surprise"
)]

mod host;

use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use cofferdam_guest::protocol::{
    self, Agent, Lifetime, Network, ProcessLimits, Reply, Request, Setup,
};

use host::{LIMIT, ask, receive};

struct Made {
    place: tempfile::TempDir,
    control: UnixStream,
    launcher: Child,
}

impl Made {
    /// Up, and still its maker's. With `listeners` copies of the descriptor that it is to listen on.
    fn new(lifetime: Lifetime, listeners: usize) -> (Self, Reply) {
        let place = tempfile::tempdir().unwrap();
        let (control, theirs) = UnixStream::pair().unwrap();
        control.set_read_timeout(Some(LIMIT)).unwrap();
        let launcher = Command::new(env!("CARGO_BIN_EXE_cofferdam-guest"))
            .env_clear()
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let agent = if rustix::process::geteuid().is_root() {
            Agent::Separate {
                uid: 1235,
                gid: 1235,
            }
        } else {
            Agent::Caller
        };
        let setup = Setup {
            hostname: "inside".to_owned(),
            agent,
            mounts: Vec::new(),
            limits: ProcessLimits::default(),
            workdir: b"/".to_vec(),
            environment: Vec::new(),
            network: Network::None,
            lifetime,
            group: None,
        };
        let mut made = Self {
            place,
            control,
            launcher,
        };
        let socket = host::bound(&made.socket());
        let fds = vec![socket.as_fd(); listeners];
        host::send(&made.control, &protocol::encode(&setup).unwrap(), &fds);
        let reply = receive(&mut made.control);
        (made, reply)
    }

    fn socket(&self) -> PathBuf {
        self.place.path().join("guest.sock")
    }

    fn connect(&self) -> UnixStream {
        host::connect(&self.socket())
    }

    #[track_caller]
    fn is_over(&self) {
        let began = Instant::now();
        while UnixStream::connect(self.socket()).is_ok() {
            assert!(began.elapsed() < LIMIT, "it still listens");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        // What a failed test leaves.
        let _ = self.launcher.kill();
        let _ = self.launcher.wait();
    }
}

/// Everything but the last step is done, and its maker dies.
#[test]
fn what_is_not_whole_ends_with_its_maker() {
    let (mut made, ready) = Made::new(Lifetime::UntilEnded, 1);
    assert_eq!(ready, Reply::Ready);
    // Who is not its maker cannot take that step, and is as good as nobody.
    let mut user = made.connect();
    let refused = ask(&mut user, &Request::Stay { request: 7 });
    assert!(
        matches!(refused, Reply::Failed { request: 7, .. }),
        "{refused:?}"
    );
    made.control.shutdown(std::net::Shutdown::Both).unwrap();
    made.is_over();
    assert_eq!(user.read(&mut [0]).unwrap(), 0);
    assert!(made.launcher.wait().unwrap().success());
}

#[test]
fn what_is_whole_stays_until_it_is_ended() {
    let (mut made, ready) = Made::new(Lifetime::UntilEnded, 1);
    assert_eq!(ready, Reply::Ready);
    let done = ask(&mut made.control, &Request::Stay { request: 1 });
    assert_eq!(done, Reply::Done { request: 1 });
    // Its launcher goes, and then its maker.
    assert!(made.launcher.wait().unwrap().success());
    let again = ask(&mut made.control, &Request::Stay { request: 2 });
    assert!(
        matches!(again, Reply::Failed { request: 2, .. }),
        "{again:?}"
    );
    made.control.shutdown(std::net::Shutdown::Both).unwrap();
    let mut user = made.connect();
    // There is no wall, so there are no sockets of one.
    let none = ask(&mut user, &Request::Sockets { request: 3 });
    assert!(matches!(none, Reply::Failed { request: 3, .. }), "{none:?}");
    // One who says what is no request is sent away, and nobody else.
    let mut other = made.connect();
    other.write_all(&[2, 0, 0, 0, 0xff, 0xff]).unwrap();
    assert_eq!(other.read(&mut [0]).unwrap(), 0);
    // So is one that wants a program and gives nothing for its output.
    let mut other = made.connect();
    let request = Request::Exec {
        exec: 0,
        arguments: vec![b"true".to_vec()],
        environment: Vec::new(),
        directory: None,
        streams: protocol::Streams::Given,
    };
    other
        .write_all(&protocol::encode(&request).unwrap())
        .unwrap();
    assert_eq!(other.read(&mut [0]).unwrap(), 0);
    let done = ask(&mut user, &Request::Ping { request: 4 });
    assert_eq!(done, Reply::Done { request: 4 });
    user.write_all(&protocol::encode(&Request::End).unwrap())
        .unwrap();
    assert_eq!(user.read(&mut [0]).unwrap(), 0);
    made.is_over();
}

#[test]
fn a_set_up_that_makes_no_sense_makes_nothing() {
    for (lifetime, listeners) in [
        (Lifetime::WithConnection, 1),
        (Lifetime::UntilEnded, 0),
        (Lifetime::UntilEnded, 4),
    ] {
        let (mut made, reply) = Made::new(lifetime, listeners);
        assert!(
            matches!(reply, Reply::Broken { .. }),
            "{lifetime:?} {listeners} {reply:?}"
        );
        assert!(!made.launcher.wait().unwrap().success());
    }
}
