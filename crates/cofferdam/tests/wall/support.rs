//! A Cofferdam home of its own, and what a sandbox would hand to the gateway.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cofferdam::home::Home;
use cofferdam::names::{SandboxId, Slug};
use cofferdam::wall::rules::Sources;
use cofferdam::wall::{
    Answer, Ask, Origin, Registration, Rule, Sockets, Start, WallError, WallSpec, ask,
};
use cofferdam_wall::control::{PROTOCOL, Status};
use rustix::net::{AddressFamily, SocketFlags, SocketType, netlink};
use rustix::process::{Pid, Signal};

/// What a healthy machine needs a small part of, and a busy one a part.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

pub(crate) struct House {
    /// Removed at the end.
    pub(crate) dir: tempfile::TempDir,
    pub(crate) home: Home,
}

impl House {
    pub(crate) fn new() -> Self {
        Self::below(Path::new(""))
    }

    /// With the home at this path below a directory of its own.
    pub(crate) fn below(path: &Path) -> Self {
        let dir = tempfile::Builder::new()
            .prefix("cofferdam-test-")
            .tempdir()
            .unwrap();
        let home = Home::new(dir.path().join(path).join(".cofferdam"));
        Self { dir, home }
    }

    pub(crate) fn place(&self) -> PathBuf {
        self.home.gateway(PROTOCOL)
    }

    /// The process that the lock names; one that starts has not yet written its number.
    pub(crate) fn gateway(&self) -> Pid {
        let named = || {
            let text = fs::read_to_string(self.place().join("lock")).ok()?;
            Pid::from_raw(text.trim_end().parse().ok()?)
        };
        until("the lock names a process", || named().is_some());
        named().unwrap()
    }

    pub(crate) fn status(&self, start: Start) -> Result<Vec<Status>, WallError> {
        block_on(self.behind(start))
    }

    /// The sandboxes behind the gateway.
    pub(crate) async fn behind(&self, start: Start) -> Result<Vec<Status>, WallError> {
        match ask(&self.home, &Ask::Status, start).await? {
            Answer::Status(status) => Ok(status),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn spec(&self, rules: &[&str]) -> WallSpec {
        let sandbox = SandboxId::random().unwrap();
        let flags = rules
            .iter()
            .map(|text| Rule::parse(text, Origin::Flag).unwrap())
            .collect();
        WallSpec {
            home: self.home.clone(),
            sandbox,
            name: Slug::from_text("test").unwrap(),
            sources: Sources {
                home: self.home.clone(),
                repository: None,
                sandbox: Some(sandbox),
                flags,
            },
        }
    }
}

impl Drop for House {
    fn drop(&mut self) {
        let lock = fs::read_to_string(self.place().join("lock")).unwrap_or_default();
        if let Some(process) = lock.trim_end().parse().ok().and_then(Pid::from_raw)
            && is_gateway(process)
        {
            let _ = rustix::process::kill_process(process, Signal::KILL);
        }
    }
}

/// Ends it as a crash would.
pub(crate) fn kill(process: Pid) {
    rustix::process::kill_process(process, Signal::KILL).unwrap();
    until("the gateway is dead", || is_dead(process));
}

/// It has closed its files: its lock and its sockets. Its command line goes before they do.
pub(crate) fn is_dead(process: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero()));
    stat.map_or(true, |text| text.contains(") Z ") || text.contains(") X "))
}

pub(crate) fn is_gateway(process: Pid) -> bool {
    fs::read(format!("/proc/{}/cmdline", process.as_raw_nonzero()))
        .is_ok_and(|line| line.starts_with(b"cofferdam-gateway\0"))
}

pub(crate) fn until(what: &str, mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < LIMIT, "not within {LIMIT:?}: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Runs it here, and what it spawns on a thread beside it: a test may block meanwhile.
pub(crate) fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let handle = runtime.handle().clone();
    let (end, ended) = tokio::sync::oneshot::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || runtime.block_on(ended));
        let _end = end;
        handle.block_on(work)
    })
}

/// Where the test reaches what a sandbox would have inside.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Doors {
    pub(crate) connections: SocketAddr,
    lookups: SocketAddr,
}

/// As the guest makes them, but in this test's own network.
pub(crate) fn sockets() -> (Sockets, Doors) {
    let any = (Ipv4Addr::LOCALHOST, 0);
    let (connections, proxy) = (
        TcpListener::bind(any).unwrap(),
        TcpListener::bind(any).unwrap(),
    );
    let lookups = UdpSocket::bind(any).unwrap();
    let packets = rustix::net::socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        Some(netlink::NETFILTER),
    )
    .unwrap();
    let doors = Doors {
        connections: connections.local_addr().unwrap(),
        lookups: lookups.local_addr().unwrap(),
    };
    let sockets = Sockets {
        connections: OwnedFd::from(connections),
        proxy: OwnedFd::from(proxy),
        lookups: OwnedFd::from(lookups),
        packets,
    };
    (sockets, doors)
}

/// Registered and open.
pub(crate) async fn registered(spec: &WallSpec) -> (Registration, Doors) {
    let (sockets, doors) = sockets();
    let registration = Registration::register(spec, sockets).await.unwrap();
    registration.open().await.unwrap();
    (registration, doors)
}

impl Doors {
    /// The code of the answer to a lookup of this name. Who asks is patient, as resolvers are: a gateway
    /// that is replaced, or a busy machine, may lose or delay one.
    pub(crate) fn look_up(&self, name: &str) -> Option<u8> {
        let began = Instant::now();
        loop {
            let answer = self.look_up_once(name);
            if answer.is_some() || began.elapsed() > LIMIT {
                return answer;
            }
        }
    }

    /// The same; `None`: there was no answer for a moment.
    pub(crate) fn look_up_once(&self, name: &str) -> Option<u8> {
        self.ask(name).map(|answer| answer[3] & 0x0f)
    }

    /// The address that stands for a name that is found.
    pub(crate) fn address_of(&self, name: &str) -> Ipv4Addr {
        until("the name is found", || self.look_up(name) == Some(0));
        let answer = self.ask(name).unwrap();
        let address = answer.last_chunk::<4>().unwrap();
        Ipv4Addr::from(*address)
    }

    fn ask(&self, name: &str) -> Option<Vec<u8>> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        socket
            .set_read_timeout(Some(Duration::from_millis(100)))
            .unwrap();
        let mut query = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
        for label in name.split('.') {
            query.push(u8::try_from(label.len()).unwrap());
            query.extend_from_slice(label.as_bytes());
        }
        query.extend_from_slice(&[0, 0, 1, 0, 1]);
        socket.send_to(&query, self.lookups).unwrap();
        let mut answer = [0u8; 512];
        let length = socket.recv(&mut answer).ok()?;
        assert!(length >= 12 && answer[..2] == query[..2]);
        Some(answer[..length].to_vec())
    }
}
