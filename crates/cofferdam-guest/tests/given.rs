//! The guest as process 1 of namespaces that it did not make: `unshare` is the engine here.

#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    reason = "tests start programs, write files, and stop at the first surprise"
)]

mod host;

use std::fs::Permissions;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use cofferdam_guest::protocol::{
    self, Agent, AsRoot, GuestExit, Lifetime, Network, ProcessLimits, Reply, Request, Seen, Setup,
    SetupMount, Source, Status, Stop, Streams,
};
use cofferdam_lab::skip;

use host::{LIMIT, ask, ask_with, receive};

const USER: u32 = 1235;
/// A process namespace with what belongs to it.
const WHOLE: &[&str] = &[
    "--pid",
    "--mount",
    "--net",
    "--ipc",
    "--uts",
    "--fork",
    "--mount-proc",
];

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Who starts the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    Root,
    /// In a user namespace of their own.
    User,
}

fn setup(who: Who) -> Setup {
    Setup {
        hostname: String::new(),
        agent: match who {
            Who::Root => Agent::Separate {
                uid: USER,
                gid: USER,
            },
            Who::User => Agent::Caller,
        },
        mounts: Vec::new(),
        limits: ProcessLimits::default(),
        workdir: b"/".to_vec(),
        environment: vec![(b"PATH".to_vec(), b"/usr/bin:/bin".to_vec())],
        network: Network::None,
        lifetime: Lifetime::UntilEnded,
        group: None,
        seen: Vec::new(),
        // They are this machine's namespaces, with all that is in them.
        expected: None,
        root: false,
    }
}

struct Made {
    place: tempfile::TempDir,
    engine: Child,
    control: UnixStream,
    init: rustix::process::Pid,
}

impl Made {
    fn new(who: Who, namespaces: &[&str], setup: &Setup) -> (Self, Reply) {
        let place = tempfile::tempdir().unwrap();
        let open = |path: &std::path::Path, mode| {
            std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        };
        open(place.path(), 0o755);
        let guest = place.path().join("guest");
        std::fs::copy(env!("CARGO_BIN_EXE_cofferdam-guest"), &guest).unwrap();
        open(&guest, 0o755);
        // Before it starts: it connects as soon as it runs.
        let door = place.path().join("control.sock");
        let listener = UnixListener::bind(&door).unwrap();
        open(&door, 0o666);
        let mut words = Vec::new();
        let user = USER.to_string();
        if who == Who::User && is_root() {
            words.extend([
                "setpriv",
                "--reuid",
                &user,
                "--regid",
                &user,
                "--clear-groups",
            ]);
        }
        if !namespaces.is_empty() {
            words.push("unshare");
        }
        if who == Who::User {
            words.extend(["--user", "--map-current-user"]);
        }
        words.extend(namespaces);
        let engine = Command::new(words.first().copied().unwrap_or(guest.to_str().unwrap()))
            .args(words.iter().skip(1))
            .args((!words.is_empty()).then_some(&guest))
            .arg("init")
            .arg(&door)
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        listener.set_nonblocking(true).unwrap();
        let began = Instant::now();
        let mut control = loop {
            match listener.accept() {
                Ok((control, _)) => break control,
                Err(_) => assert!(began.elapsed() < LIMIT, "it does not come"),
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        control.set_nonblocking(false).unwrap();
        control.set_read_timeout(Some(LIMIT)).unwrap();
        let init = rustix::net::sockopt::socket_peercred(&control).unwrap().pid;
        let socket = host::bound(&place.path().join("guest.sock"));
        let root = setup
            .root
            .then(|| host::bound(&place.path().join("root.sock")));
        let mut fds: Vec<_> = root.iter().map(AsFd::as_fd).collect();
        if setup.lifetime == Lifetime::UntilEnded {
            fds.push(socket.as_fd());
        }
        host::send(&control, &protocol::encode(setup).unwrap(), &fds);
        let reply = receive(&mut control);
        let made = Self {
            place,
            engine,
            control,
            init,
        };
        (made, reply)
    }

    fn socket(&self) -> PathBuf {
        self.place.path().join("guest.sock")
    }

    /// Ended by itself, with this code.
    #[track_caller]
    fn ends(&mut self, code: i32) {
        let began = Instant::now();
        loop {
            if let Some(status) = self.engine.try_wait().unwrap() {
                assert_eq!(status.code(), Some(code));
                return;
            }
            assert!(began.elapsed() < LIMIT, "it goes on");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        // What a failed test leaves. The number is init's as long as whoever waits for it is there.
        if matches!(self.engine.try_wait(), Ok(None)) {
            let _ = rustix::process::kill_process(self.init, rustix::process::Signal::KILL);
            let _ = self.engine.wait();
        }
    }
}

/// Runs a script to its end; what it printed.
fn sh(stream: &mut UnixStream, exec: u64, script: &str) -> (GuestExit, String) {
    let (mut out, theirs) = std::io::pipe().unwrap();
    let nothing = std::fs::File::open("/dev/null").unwrap();
    let request = exec_request(exec, script);
    let errors = OwnedFd::from(theirs.try_clone().unwrap());
    let fds = [OwnedFd::from(nothing), OwnedFd::from(theirs), errors];
    let started = ask_with(stream, &request, &fds);
    assert!(matches!(started, Reply::Started { .. }), "{started:?}");
    drop(fds);
    let mut text = String::new();
    out.read_to_string(&mut text).unwrap();
    match receive(stream) {
        Reply::Exited { exit, .. } => (exit, text),
        other => panic!("{other:?}"),
    }
}

fn exec_request(exec: u64, script: &str) -> Request {
    Request::Exec {
        exec,
        arguments: ["sh", "-c", script].map(Into::into).to_vec(),
        environment: Vec::new(),
        directory: None,
        streams: Streams::Given,
    }
}

fn ok(stream: &mut UnixStream, exec: u64, script: &str) -> String {
    let (exit, text) = sh(stream, exec, script);
    assert_eq!(exit, GuestExit::Code(0), "{text}");
    text
}

fn check(who: Who, namespaces: &[&str]) {
    let (mut made, ready) = Made::new(who, namespaces, &setup(who));
    assert_eq!(ready, Reply::Ready);
    let done = ask(&mut made.control, &Request::Stay { request: 1 });
    assert_eq!(done, Reply::Done { request: 1 });
    made.control.shutdown(std::net::Shutdown::Both).unwrap();
    let mut user = host::connect(&made.socket());
    let user = &mut user;

    // It is process 1, and neither it nor what it starts has any privilege.
    let seen = ok(
        user,
        1,
        "cat /proc/1/comm; id -u; grep -hE '^(Cap(Prm|Eff|Amb)|NoNewPrivs|Seccomp):' /proc/self/status /proc/1/status",
    );
    let lines: Vec<&str> = seen.lines().collect();
    assert_eq!(lines[0], "guest");
    assert_ne!(lines[1], "0");
    let none = lines
        .iter()
        .filter(|line| line.ends_with("\t0000000000000000"));
    assert_eq!(none.count(), 6, "{seen}");
    assert!(lines.contains(&"Seccomp:\t2"), "{seen}");
    assert_eq!(
        lines
            .iter()
            .filter(|line| **line == "NoNewPrivs:\t1")
            .count(),
        2,
        "{seen}"
    );
    let (exit, _) = sh(user, 2, "ls /proc/1/fd");
    assert_ne!(exit, GuestExit::Code(0), "its descriptors can be seen");

    // What nobody waits for is reaped.
    ok(user, 3, "for n in 1 2 3 4 5; do (true &) ; done");
    let began = Instant::now();
    while !ok(user, 4, "grep -l '^State:.Z' /proc/[0-9]*/status; true").is_empty() {
        assert!(began.elapsed() < LIMIT, "the dead stay");
    }

    // Who is inside may reach the socket's file, and is sent away. The host, at the same file, is not.
    is_sent_away(user, &made.socket());
    drop(host::connect(&made.socket()));

    paused(user);

    // The end of its init is the end of all.
    let (never, theirs) = std::io::pipe().unwrap();
    let fds = [0; 3].map(|_| OwnedFd::from(theirs.try_clone().unwrap()));
    let started = ask_with(user, &exec_request(9, "sleep 1000"), &fds);
    assert!(matches!(started, Reply::Started { .. }), "{started:?}");
    drop((fds, theirs));
    host::send(user, &protocol::encode(&Request::End).unwrap(), &[]);
    assert_eq!(user.read(&mut [0]).unwrap(), 0);
    made.ends(0);
    let mut never = never;
    assert_eq!(never.read(&mut [0]).unwrap(), 0);
}

/// Who is inside and connects to a socket of the host's is.
fn is_sent_away(user: &mut UnixStream, socket: &Path) {
    let knock = format!(
        "perl -MSocket -e '$SIG{{PIPE}} = q(IGNORE); socket(my $s, AF_UNIX, SOCK_STREAM, 0) or die; \
         connect($s, sockaddr_un(\"{}\")) or die \"no way: $!\"; \
         syswrite($s, \"cdam\\1\\0\\0\\0\"); my $n = sysread($s, my $b, 8); print $n // -1'",
        socket.display()
    );
    std::fs::set_permissions(socket, Permissions::from_mode(0o666)).unwrap();
    let said = ok(user, 5, &knock);
    assert!(said == "0" || said == "-1", "{said}");
}

/// It stops what runs, and lets it go on.
fn paused(user: &mut UnixStream) {
    let (mut out, theirs) = std::io::pipe().unwrap();
    let fds = [0; 3].map(|_| OwnedFd::from(theirs.try_clone().unwrap()));
    let counts = "n=0; while :; do n=$((n+1)); echo $n; done";
    let started = ask_with(user, &exec_request(6, counts), &fds);
    assert!(matches!(started, Reply::Started { .. }), "{started:?}");
    drop((fds, theirs));
    out.read_exact(&mut [0; 64]).unwrap();
    let done = ask(user, &Request::Pause { request: 10 });
    assert_eq!(done, Reply::Done { request: 10 });
    let fds = [0; 3].map(|_| std::fs::File::open("/dev/null").unwrap().into());
    let refused = ask_with(user, &exec_request(7, "true"), &fds);
    let (number, stop) = (7, Stop::Pause);
    assert_eq!(refused, Reply::Stopped { number, stop });
    let request = 11;
    let status = Status {
        paused: true,
        frozen: false,
        programs: 1,
        stopping: cofferdam_guest::protocol::Stopping::Signals,
    };
    assert_eq!(
        ask(user, &Request::Status { request }),
        Reply::Status { request, status }
    );
    // A full pipe is read empty, and nothing more comes.
    rustix::io::ioctl_fionbio(&out, true).unwrap();
    let mut buffer = vec![0; 1 << 20];
    while out.read(&mut buffer).is_ok_and(|got| got > 0) {}
    std::thread::sleep(Duration::from_millis(20));
    assert!(out.read(&mut buffer).is_err(), "it runs");
    let done = ask(user, &Request::Resume { request: 12 });
    assert_eq!(done, Reply::Done { request: 12 });
    rustix::io::ioctl_fionbio(&out, false).unwrap();
    out.read_exact(&mut [0; 64]).unwrap();
    let (request, exec, signal) = (13, 6, 9);
    host::send(
        user,
        &protocol::encode(&Request::Signal {
            request,
            exec,
            signal,
        })
        .unwrap(),
        &[],
    );
    let both = [receive(user), receive(user)];
    assert!(both.contains(&Reply::Done { request }), "{both:?}");
}

#[test]
fn it_serves_where_root_made_the_namespaces() {
    if !is_root() {
        return skip!("only root can make namespaces without a user namespace");
    }
    check(Who::Root, WHOLE);
}

/// A child stays root, which is as the others for the host, and as nobody for those inside. What it started ends with its connection.
#[test]
fn its_root_hears_the_host_alone() {
    if !is_root() {
        return skip!("only root can make namespaces without a user namespace");
    }
    let mut wanted = setup(Who::Root);
    wanted.root = true;
    let (mut made, ready) = Made::new(Who::Root, WHOLE, &wanted);
    assert_eq!(ready, Reply::Ready);
    let done = ask(&mut made.control, &Request::Stay { request: 1 });
    assert_eq!(done, Reply::Done { request: 1 });
    let mut user = host::connect(&made.socket());
    let user = &mut user;
    let rights = "id -u; pwd; grep -hE '^Cap(Eff|Bnd):' /proc/self/status";
    let none = "0000000000000000";
    let seen = ok(user, 1, rights);
    assert_eq!(
        seen,
        format!("{USER}\n/\nCapEff:\t{none}\nCapBnd:\t{none}\n")
    );
    let socket = made.place.path().join("root.sock");
    is_sent_away(user, &socket);

    let mut root = host::connect(&socket);
    let asked = protocol::encode(&AsRoot { files_of: (0, 0) }).unwrap();
    host::send(&root, &asked, &[]);
    assert_eq!(receive(&mut root), Reply::Ready);
    let leaves = "(setsid sleep 4711 &) >/dev/null 2>&1 </dev/null";
    let seen = ok(&mut root, 1, &format!("{rights}; {leaves}"));
    let own = "00000000000000db";
    assert_eq!(seen, format!("0\n/\nCapEff:\t{own}\nCapBnd:\t{own}\n"));
    // Others stand still meanwhile, whatever becomes of it.
    paused(user);
    drop(root);
    let began = Instant::now();
    let left = "grep -lsx sleep /proc/[0-9]*/comm; true";
    while !ok(user, 20, left).is_empty() {
        assert!(began.elapsed() < LIMIT, "it goes on");
    }
    host::send(user, &protocol::encode(&Request::End).unwrap(), &[]);
    assert_eq!(user.read(&mut [0]).unwrap(), 0);
    made.ends(0);
}

#[test]
fn it_serves_where_an_ordinary_user_made_the_namespaces() {
    check(Who::User, WHOLE);
}

#[test]
fn it_gives_up_every_capability_that_it_was_started_with() {
    check(Who::User, &[WHOLE, &["--keep-caps"]].concat());
}

#[test]
fn it_ends_with_its_maker_until_it_stays() {
    let (mut made, ready) = Made::new(Who::User, WHOLE, &setup(Who::User));
    assert_eq!(ready, Reply::Ready);
    made.control.shutdown(std::net::Shutdown::Both).unwrap();
    made.ends(0);
}

/// What is not its to make it says, and it serves nobody with more rights than an agent may have.
#[test]
fn a_set_up_that_it_cannot_give_is_refused() {
    let whole = setup(Who::User);
    let mount = SetupMount {
        source: Source::Nothing,
        target: b"/tmp".to_vec(),
        writable: false,
        optional: false,
    };
    let own_proc = [&WHOLE[..WHOLE.len() - 1], &[]].concat();
    let mut cases = vec![
        (
            WHOLE,
            Setup {
                mounts: vec![mount],
                ..whole.clone()
            },
            "a mount",
        ),
        (
            WHOLE,
            Setup {
                network: Network::Wall,
                ..whole.clone()
            },
            "a wall",
        ),
        (
            WHOLE,
            Setup {
                lifetime: Lifetime::WithConnection,
                ..whole.clone()
            },
            "",
        ),
        (&own_proc[..], whole.clone(), "/proc is not"),
    ];
    let root = [WHOLE, &["--map-root-user"]].concat();
    cases.push((&root[..], whole, "user 0"));
    for (namespaces, setup, words) in cases {
        let (mut made, reply) = Made::new(Who::User, namespaces, &setup);
        match reply {
            Reply::Ready if words.is_empty() => {
                made.control.shutdown(std::net::Shutdown::Both).unwrap();
                made.ends(0);
            }
            Reply::Broken { what } if !words.is_empty() => {
                assert!(what.contains(words), "{what}");
                made.ends(1);
            }
            other => panic!("{words}: {other:?}"),
        }
    }
}

/// Whoever asked an engine for a mount says what it is to show: something else is found out before anything runs.
#[test]
fn what_an_engine_shows_otherwise_is_found_out() {
    use std::os::unix::fs::MetadataExt;
    let root = std::fs::metadata("/").unwrap();
    let file = (root.dev(), root.ino());
    let flags = rustix::fs::statvfs("/").unwrap().f_flag;
    let writable = !flags.contains(rustix::fs::StatVfsMountFlags::RDONLY);
    let seen = |target: &str, file, writable| Seen {
        target: target.into(),
        file,
        writable,
        asks: false,
    };
    let wrong_rights = if writable {
        "it can be written"
    } else {
        "it cannot be written"
    };
    for (seen, words) in [
        (seen("/", Some(file), writable), ""),
        (seen("/", None, writable), ""),
        (
            seen("/", Some((file.0, file.1 + 1)), writable),
            "another file",
        ),
        (
            seen("/", Some((file.0 + 1, file.1)), writable),
            "another file",
        ),
        (seen("/", Some(file), !writable), wrong_rights),
        (seen("/usr", None, writable), "no mount begins"),
        (seen("/none", None, writable), "No such file"),
        // A link that leads to what was meant is not it.
        (seen("/proc/self/root", None, writable), "symbolic links"),
    ] {
        let setup = Setup {
            seen: vec![seen.clone()],
            lifetime: Lifetime::WithConnection,
            ..setup(Who::User)
        };
        let (mut made, reply) = Made::new(Who::User, WHOLE, &setup);
        match reply {
            Reply::Ready if words.is_empty() => {
                made.control.shutdown(std::net::Shutdown::Both).unwrap();
                made.ends(0);
            }
            Reply::Broken { what } if !words.is_empty() => {
                assert!(what.contains(words), "{what}");
                made.ends(1);
            }
            other => panic!("{seen:?}: {other:?}"),
        }
    }
}

/// Inherited as standard input, which is how an engine of this machine may give it; here outside of any namespace.
#[test]
fn who_is_not_process_1_serves_nobody() {
    let (mut control, theirs) = UnixStream::pair().unwrap();
    let mut guest = Command::new(env!("CARGO_BIN_EXE_cofferdam-guest"))
        .arg("init")
        .env_clear()
        .stdin(OwnedFd::from(theirs))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let setup = Setup {
        lifetime: Lifetime::WithConnection,
        ..setup(Who::User)
    };
    host::send(&control, &protocol::encode(&setup).unwrap(), &[]);
    let reply = receive(&mut control);
    assert!(
        matches!(&reply, Reply::Broken { what } if what.contains("not process 1")),
        "{reply:?}"
    );
    assert_eq!(guest.wait().unwrap().code(), Some(1));
}
