//! A guest that outlives its maker, spoken to by hand.

#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
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
    self, Agent, GuestExit, Lifetime, Network, ProcessLimits, Reply, Request, Setup, Streams,
};
use rustix::process::{Pid, Signal, kill_process};

use host::{LIMIT, ask, ask_with, receive};

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
            seen: Vec::new(),
            expected: None,
            root: false,
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

    /// One whose maker has left it.
    fn left_alone() -> Self {
        let (mut made, ready) = Self::new(Lifetime::UntilEnded, 1);
        assert_eq!(ready, Reply::Ready);
        let done = ask(&mut made.control, &Request::Stay { request: 1 });
        assert_eq!(done, Reply::Done { request: 1 });
        made.control.shutdown(std::net::Shutdown::Both).unwrap();
        made
    }

    fn connect(&self) -> UnixStream {
        host::connect(&self.socket())
    }

    /// Its init, as the kernel tells whoever connects.
    fn init(&self) -> Pid {
        let stream = UnixStream::connect(self.socket()).unwrap();
        rustix::net::sockopt::socket_peercred(&stream).unwrap().pid
    }

    fn end(self, mut user: UnixStream) {
        let end = protocol::encode(&Request::End).unwrap();
        user.write_all(&end).unwrap();
        assert_eq!(user.read(&mut [0]).unwrap(), 0);
        self.is_over();
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
        // What a failed test leaves. The launcher has gone from one that stays.
        if let Ok(stream) = UnixStream::connect(self.socket())
            && let Ok(init) = rustix::net::sockopt::socket_peercred(&stream)
        {
            let _ = kill_process(init.pid, Signal::KILL);
        }
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

/// Starts a program that goes on, by this number on this connection; the sandbox's own number for it.
fn sleeper(peer: &mut UnixStream, exec: u64) -> u64 {
    let request = Request::Exec {
        exec,
        arguments: vec![b"sleep".to_vec(), b"1000".to_vec()],
        environment: vec![(b"PATH".to_vec(), b"/usr/bin:/bin".to_vec())],
        directory: None,
        streams: Streams::Given,
    };
    let null = || {
        std::fs::File::options()
            .read(true)
            .write(true)
            .open("/dev/null")
    };
    let streams = [(); 3].map(|()| OwnedFd::from(null().unwrap()));
    match ask_with(peer, &request, &streams) {
        Reply::Started {
            exec: said,
            program,
        } if said == exec => program,
        other => panic!("{other:?}"),
    }
}

/// The programs that run, by the sandbox's own numbers.
fn running(peer: &mut UnixStream, request: u64) -> Vec<u64> {
    match ask(peer, &Request::Programs { request }) {
        Reply::Programs { programs, .. } => (programs.iter())
            .filter(|one| one.exit.is_none())
            .map(|one| one.program)
            .collect(),
        other => panic!("{other:?}"),
    }
}

/// Nothing was said to it before this answer.
#[track_caller]
fn heard_nothing(peer: &mut UnixStream, request: u64) {
    let said = ask(peer, &Request::Ping { request });
    assert_eq!(said, Reply::Done { request });
}

/// What one process of the host started, another one neither ends nor hears of by its own numbers, whichever it takes.
/// That programs run, and which, is told to whoever asks: all of them are the same user's.
#[test]
fn a_number_of_one_is_no_number_of_another() {
    let made = Made::left_alone();
    let [mut one, mut other] = [made.connect(), made.connect()];
    let signal = |request| Request::Signal {
        request,
        exec: 5,
        signal: libc::SIGKILL,
    };
    let ends = |peer: &mut UnixStream, request| {
        assert_eq!(ask(peer, &signal(request)), Reply::Done { request });
        let exited = Reply::Exited {
            exec: 5,
            exit: GuestExit::Signal(libc::SIGKILL),
        };
        assert_eq!(receive(peer), exited);
    };
    let first = sleeper(&mut one, 5);
    heard_nothing(&mut other, 1);
    // It has no program of that number.
    assert_eq!(ask(&mut other, &signal(2)), Reply::Done { request: 2 });
    heard_nothing(&mut other, 3);
    assert_eq!(running(&mut one, 1), [first]);
    // Nor is it the first one's when it has.
    let second = sleeper(&mut other, 5);
    assert_ne!(first, second);
    ends(&mut other, 4);
    heard_nothing(&mut one, 2);
    assert_eq!(running(&mut one, 3), [first]);
    // The control: its own number is one.
    ends(&mut one, 4);
    heard_nothing(&mut other, 5);
    assert_eq!(running(&mut other, 6), [0; 0]);
    made.end(one);
}

/// As many as there may be, by [`MOST_PEERS`] in the guest.
///
/// [`MOST_PEERS`]: ../src/serve.rs
const PEERS: usize = 64;

/// Each one that is connected costs the guest memory and a place in every poll.
#[test]
fn so_many_are_served_at_once() {
    let made = Made::left_alone();
    let mut served: Vec<_> = Vec::new();
    // Its maker's place may not be free yet.
    let began = Instant::now();
    while served.len() < PEERS {
        assert!(began.elapsed() < LIMIT, "{}", served.len());
        let mut stream = UnixStream::connect(made.socket()).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        served.extend(host::greet(&mut stream).then_some(stream));
    }
    // One more is sent away, and none of those is.
    let mut late = UnixStream::connect(made.socket()).unwrap();
    late.set_read_timeout(Some(LIMIT)).unwrap();
    assert!(!host::greet(&mut late), "there is no end to them");
    for (number, peer) in served.iter_mut().enumerate() {
        heard_nothing(peer, number as u64);
    }
    // As soon as one leaves there is room again.
    drop(served.pop());
    let began = Instant::now();
    let again = loop {
        let mut again = UnixStream::connect(made.socket()).unwrap();
        again.set_read_timeout(Some(LIMIT)).unwrap();
        if host::greet(&mut again) {
            break again;
        }
        assert!(began.elapsed() < LIMIT, "its place is never free");
    };
    made.end(again);
}

/// Requests of one that wait already are answered a few at a time: whoever has one comes in between.
#[test]
fn who_asks_much_has_no_more_than_a_turn() {
    let made = Made::left_alone();
    // In this order they are heard.
    let [mut much, mut little] = [made.connect(), made.connect()];
    heard_nothing(&mut much, 0);
    heard_nothing(&mut little, 0);
    let init = made.init();
    let paused = |peer: &mut UnixStream, request| match ask(peer, &Request::Status { request }) {
        Reply::Status { status, .. } => status.paused,
        other => panic!("{other:?}"),
    };
    // All of it is there when init looks again.
    kill_process(init, Signal::STOP).unwrap();
    let mut asked: Vec<Request> = (1..100).map(|request| Request::Ping { request }).collect();
    asked.push(Request::Pause { request: 100 });
    let frames = asked.iter().flat_map(|one| protocol::encode(one).unwrap());
    much.write_all(&frames.collect::<Vec<u8>>()).unwrap();
    let status = protocol::encode(&Request::Status { request: 1 }).unwrap();
    little.write_all(&status).unwrap();
    kill_process(init, Signal::CONT).unwrap();
    let Reply::Status { status, .. } = receive(&mut little) else {
        panic!("no status");
    };
    assert!(!status.paused, "all of it was answered first");
    // The control: in the end it is.
    for request in 1..=100 {
        assert_eq!(receive(&mut much), Reply::Done { request });
    }
    assert!(paused(&mut little, 2));
    made.end(little);
}
