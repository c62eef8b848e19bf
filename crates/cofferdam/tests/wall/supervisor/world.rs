//! A long-lived sandbox without its inside: a state directory, a process that passes for init, and the four sockets,
//! of which the test keeps duplicates as the guest does.

use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use cofferdam::fsx;
use cofferdam::wall::change::Change;
use cofferdam::wall::supervisor::{
    self, Compiled, Status, Supervisor, SupervisorError, Wall, write_rules,
};
use cofferdam::wall::{HandedOver, Sockets, Start, WallSpec};
use rustix::process::{Pid, PidfdFlags, Signal};

use crate::support::{Doors, House, is_dead, registered, sockets, until};

pub(crate) const REFUSED: Option<u8> = Some(3);
pub(crate) const FOUND: Option<u8> = Some(0);

pub(crate) struct Sandbox {
    pub(crate) house: House,
    pub(crate) spec: WallSpec,
    init: Child,
    /// Of it, also when it is dead and gone.
    pidfd: OwnedFd,
}

impl Sandbox {
    pub(crate) fn new(rules: &[&str]) -> Self {
        Self::within(House::new(), rules)
    }

    pub(crate) fn within(house: House, rules: &[&str]) -> Self {
        let spec = house.spec(rules);
        // The built-in list would be in every frame.
        fsx::private_dir(house.home.path()).unwrap();
        fsx::write_private(&house.home.config(), b"firewall: {allow: []}\n").unwrap();
        fsx::private_dir(&house.home.sandbox(spec.sandbox)).unwrap();
        let init = Command::new("/bin/sleep")
            .arg("infinity")
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let pidfd = pidfd(Pid::from_child(&init));
        Self {
            house,
            spec,
            init,
            pidfd,
        }
    }

    pub(crate) fn directory(&self) -> PathBuf {
        self.house.home.sandbox(self.spec.sandbox)
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.directory().join("supervisor.sock")
    }

    pub(crate) fn rules(&self) -> PathBuf {
        self.directory().join("rules")
    }

    /// Not taken.
    pub(crate) fn lock(&self) -> File {
        fsx::write_private(&self.directory().join("lock.made"), b"").unwrap();
        let path = self.directory().join("lock");
        // As the registry makes it: once.
        if !path.exists() {
            fs::rename(self.directory().join("lock.made"), &path).unwrap();
        }
        File::options().read(true).write(true).open(path).unwrap()
    }

    /// Held for more than the moment in which somebody looks, or a process is made that has a copy until it executes.
    pub(crate) fn is_locked(&self) -> bool {
        let lock = self.lock();
        #[expect(clippy::disallowed_methods, reason = "a stranger to the library")]
        let is_held = || lock.try_lock().is_err();
        (0..50).all(|_| {
            std::thread::sleep(std::time::Duration::from_millis(2));
            is_held()
        })
    }

    pub(crate) fn init(&self) -> OwnedFd {
        self.pidfd.try_clone().unwrap()
    }

    pub(crate) fn init_process(&self) -> u32 {
        self.init.id()
    }

    pub(crate) fn kill_init(&mut self) {
        self.init.kill().unwrap();
        self.init.wait().unwrap();
    }

    /// Only these, from now on, where the list is read.
    pub(crate) async fn write(&self, rules: &[&str]) -> Change {
        let change = Change::begin(&self.house.home).await.unwrap();
        self.write_within(&change, rules).await;
        change
    }

    pub(crate) async fn write_within(&self, change: &Change, rules: &[&str]) {
        let mut spec = self.spec.clone();
        spec.sources.flags = self.house.spec(rules).sources.flags;
        write_rules(change, &spec).await.unwrap();
    }

    /// The list as its sources are now.
    pub(crate) async fn compiled(&self) -> Compiled {
        let change = Change::begin(&self.house.home).await.unwrap();
        write_rules(&change, &self.spec).await.unwrap()
    }

    pub(crate) async fn start(
        &self,
        wall: Option<HandedOver>,
    ) -> Result<(Supervisor, Status), SupervisorError> {
        let lock = self.lock().into();
        supervisor::start(&self.house.home, self.spec.sandbox, lock, self.init(), wall).await
    }

    /// Registered by this process, proven, handed over.
    pub(crate) async fn handed_over(&self) -> (Supervisor, Status, Doors) {
        drop(self.write(&RULES).await);
        let (registration, doors) = registered(&self.spec).await;
        let wall = registration.hand_over().await.unwrap();
        let (supervisor, status) = self.start(Some(wall)).await.unwrap();
        assert_eq!(status.wall, Some(Wall::Carried));
        (supervisor, status, doors)
    }

    /// Registered by the supervisor, from what the sandbox still has.
    pub(crate) async fn replaced(
        &self,
        sockets: Sockets,
    ) -> Result<(Supervisor, Status), SupervisorError> {
        let wall = HandedOver::of_sockets(&self.spec, sockets).unwrap();
        self.start(Some(wall)).await
    }

    /// What others see of its supervisor.
    pub(crate) async fn status(&self) -> Option<Status> {
        let found = Supervisor::connect(&self.directory()).await.unwrap();
        found.map(|(_, status)| status)
    }

    /// Waits until so many sandboxes are behind the gateway of this home.
    pub(crate) async fn are_behind(&self, count: usize) {
        let began = std::time::Instant::now();
        loop {
            let behind = self.house.behind(Start::Never).await.unwrap();
            if behind.len() == count {
                return;
            }
            assert!(began.elapsed() < crate::support::LIMIT, "{behind:?}");
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    }

    /// Waits for this network.
    pub(crate) async fn becomes(&self, what: &str, is: impl Fn(&Wall) -> bool) -> Status {
        let began = std::time::Instant::now();
        loop {
            let status = self.status().await.unwrap();
            if status.wall.as_ref().is_some_and(&is) {
                return status;
            }
            assert!(
                began.elapsed() < crate::support::LIMIT,
                "{what}: {status:?}"
            );
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        let _ = self.init.kill();
        let _ = self.init.wait();
        // Its supervisor ends with its init, unless a test was to show that and failed.
        let socket = self.socket();
        if !std::thread::panicking() {
            until("nobody keeps its place", || {
                !self.is_locked() && !socket.exists()
            });
        }
    }
}

/// What [`Sandbox::handed_over`] writes into the list.
pub(crate) const RULES: [&str; 2] = ["allowed.example.com", "also.example.com"];

pub(crate) fn pidfd(process: Pid) -> OwnedFd {
    rustix::process::pidfd_open(process, PidfdFlags::empty()).unwrap()
}

/// As the guest keeps them.
pub(crate) fn kept(sockets: &Sockets) -> Sockets {
    Sockets {
        connections: sockets.connections.try_clone().unwrap(),
        proxy: sockets.proxy.try_clone().unwrap(),
        lookups: sockets.lookups.try_clone().unwrap(),
        packets: sockets.packets.try_clone().unwrap(),
    }
}

pub(crate) fn made() -> (Sockets, Doors) {
    sockets()
}

pub(crate) fn carries(doors: Doors) {
    until("an allowed name is found", || {
        doors.look_up("allowed.example.com") == FOUND
    });
    assert_eq!(doors.look_up("other.example.com"), REFUSED);
}

/// Ends a supervisor as a crash would.
pub(crate) fn kill(process: u32) {
    let process = pid(process);
    rustix::process::kill_process(process, Signal::KILL).unwrap();
    until("the supervisor is dead", || is_dead(process));
}

pub(crate) fn pid(process: u32) -> Pid {
    Pid::from_raw(i32::try_from(process).unwrap()).unwrap()
}

/// A line of `/proc/PROCESS/status`.
pub(crate) fn field(process: u32, name: &str) -> String {
    let text = fs::read_to_string(Path::new("/proc").join(process.to_string()).join("status"));
    let text = text.unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap().trim_start_matches(':').trim().to_owned()
}
