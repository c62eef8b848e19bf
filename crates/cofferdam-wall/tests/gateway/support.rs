//! Starts the gateway, speaks to it as the library does, and makes what a sandbox hands over.

use std::fs::File;
use std::io::{IoSlice, Read};
use std::mem::MaybeUninit;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use cofferdam_wall::Origin;
use cofferdam_wall::control::{self, Answer, Ask, HEAD, Registrant, RuleLine};
use cofferdam_wall::log::Entry;
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use tempfile::TempDir;

/// More than anything here takes; only a hang meets it.
pub(crate) const BOUND: Duration = Duration::from_secs(20);

/// A running gateway, ended with this value.
pub(crate) struct Gateway {
    pub(crate) home: TempDir,
    child: Child,
}

impl Gateway {
    pub(crate) fn start() -> Self {
        Self::owned_by(rustix::process::geteuid().as_raw())
    }

    pub(crate) fn owned_by(owner: u32) -> Self {
        Self::with(owner, "")
    }

    /// One that may have so many descriptors.
    pub(crate) fn narrow(descriptors: usize) -> Self {
        let owner = rustix::process::geteuid().as_raw();
        Self::with(owner, &format!("ulimit -n {descriptors}; "))
    }

    fn with(owner: u32, first: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(home.path().join("socket")).unwrap();
        #[expect(clippy::disallowed_methods, reason = "the program under test")]
        let child = Command::new("sh")
            // The lock as in life, and something of the starter's that it should have closed.
            .arg("-c")
            .arg(format!(
                r#"{first}exec "$0" "$1" "$2" >>"$3" 3>&2 9>&2 2>>"$3.said""#
            ))
            .arg(env!("CARGO_BIN_EXE_cofferdam-gateway"))
            .args([owner.to_string(), "65534".to_owned()])
            .arg(home.path().join("lock"))
            .stdin(Stdio::from(OwnedFd::from(listener)))
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Self { home, child }
    }

    /// The pipe of which the starter left copies in the gateway.
    pub(crate) fn inherited(&mut self) -> std::process::ChildStderr {
        self.child.stderr.take().unwrap()
    }

    pub(crate) fn connect(&self) -> Client {
        let stream = UnixStream::connect(self.socket()).unwrap();
        stream.set_read_timeout(Some(BOUND)).unwrap();
        Client(stream)
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.home.path().join("socket")
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for its own end.
    pub(crate) fn ended(&mut self) -> std::process::ExitStatus {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(start.elapsed() < BOUND, "the gateway does not end");
            std::thread::yield_now();
        }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

pub(crate) struct Client(pub(crate) UnixStream);

impl Client {
    pub(crate) fn ask(&mut self, ask: &Ask) -> Answer {
        self.ask_with(ask, &[])
    }

    pub(crate) fn ask_with(&mut self, ask: &Ask, descriptors: &[OwnedFd]) -> Answer {
        let frame = control::encode(ask).unwrap();
        let borrowed: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
        let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
        let mut ancillary = SendAncillaryBuffer::new(&mut room);
        if !borrowed.is_empty() {
            assert!(ancillary.push(SendAncillaryMessage::ScmRights(&borrowed)));
        }
        let mut sent = rustix::net::sendmsg(
            &self.0,
            &[IoSlice::new(&frame)],
            &mut ancillary,
            SendFlags::empty(),
        )
        .unwrap();
        while sent < frame.len() {
            sent += rustix::net::send(&self.0, &frame[sent..], SendFlags::empty()).unwrap();
        }
        self.answer().expect("an answer")
    }

    /// The next answer; none if the gateway closed the connection.
    pub(crate) fn answer(&mut self) -> Option<Answer> {
        let mut head = [0u8; HEAD];
        self.0.read_exact(&mut head).ok()?;
        let mut body = vec![0u8; control::body_length(head).unwrap()];
        self.0.read_exact(&mut body).unwrap();
        Some(control::decode(&body).unwrap())
    }

    pub(crate) fn set_rules(&mut self, sandbox: &str, texts: &[&str]) -> Answer {
        self.ask(&Ask::SetRules {
            sandbox: sandbox.to_owned(),
            rules: rules(texts),
        })
    }

    pub(crate) fn error(&mut self, ask: &Ask, descriptors: &[OwnedFd]) -> String {
        match self.ask_with(ask, descriptors) {
            Answer::Error(error) => error,
            other => panic!("no error: {other:?}"),
        }
    }
}

pub(crate) fn rules(texts: &[&str]) -> Vec<RuleLine> {
    texts
        .iter()
        .map(|text| RuleLine {
            text: (*text).to_owned(),
            origin: Origin::Flag,
        })
        .collect()
}

/// What the gateway answers for a proof.
pub(crate) const ANSWER: [u8; 16] = *b"\x00what is carried";

pub(crate) fn registration(sandbox: &str, texts: &[&str], proving: bool) -> Ask {
    Ask::Register(Registrant {
        sandbox: sandbox.to_owned(),
        rules: rules(texts),
        epoch: 0,
        proving: proving.then_some(ANSWER),
    })
}

/// What a sandbox hands over, made in the namespace of the calling thread.
pub(crate) struct Sockets {
    pub(crate) connections: TcpListener,
    pub(crate) proxy: TcpListener,
    pub(crate) lookups: UdpSocket,
    pub(crate) packets: OwnedFd,
    log: File,
    folder: TempDir,
}

impl Sockets {
    /// On ports that are free, or on those that the rules of a sandbox redirect to.
    pub(crate) fn new(ports: [u16; 3]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self {
            connections: TcpListener::bind(("127.0.0.1", ports[0])).unwrap(),
            proxy: TcpListener::bind(("127.0.0.1", ports[1])).unwrap(),
            lookups: UdpSocket::bind(("127.0.0.1", ports[2])).unwrap(),
            packets: netlink(),
            log: File::options()
                .append(true)
                .create(true)
                .open(folder.path().join("log"))
                .unwrap(),
            folder,
        }
    }

    pub(crate) fn descriptors(&self) -> Vec<OwnedFd> {
        [
            self.connections.as_fd(),
            self.proxy.as_fd(),
            self.lookups.as_fd(),
            self.packets.as_fd(),
            self.log.as_fd(),
        ]
        .map(|fd| fd.try_clone_to_owned().unwrap())
        .into()
    }

    /// The entries of the log as soon as `enough` holds.
    pub(crate) fn log_until(&self, enough: impl Fn(&[Entry]) -> bool) -> Vec<Entry> {
        let start = Instant::now();
        loop {
            let text = std::fs::read_to_string(self.folder.path().join("log")).unwrap();
            let entries: Vec<Entry> = text
                .lines()
                .filter_map(|line| serde_json::from_str(line).ok())
                .collect();
            if enough(&entries) {
                return entries;
            }
            assert!(start.elapsed() < BOUND, "not in the log:\n{text}");
            std::thread::yield_now();
        }
    }
}

fn netlink() -> OwnedFd {
    rustix::net::socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        Some(rustix::net::netlink::NETFILTER),
    )
    .unwrap()
}

/// A query for one name and type.
pub(crate) fn query(name: &str, kind: u16) -> Vec<u8> {
    let mut query = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        query.push(u8::try_from(label.len()).unwrap());
        query.extend_from_slice(label.as_bytes());
    }
    query.push(0);
    query.extend_from_slice(&kind.to_be_bytes());
    query.extend_from_slice(&[0, 1]);
    query
}

/// The response code and the address of an answer.
pub(crate) fn answered(message: &[u8]) -> (u8, Option<std::net::Ipv4Addr>) {
    let address = (message[7] == 1).then(|| {
        let last: [u8; 4] = *message.last_chunk().unwrap();
        last.into()
    });
    (message[3] & 15, address)
}
