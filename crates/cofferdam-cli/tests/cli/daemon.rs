//! An engine of a test's own.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::containers::own;

/// How long the daemon may take for each step.
pub(crate) const LIMIT: Duration = Duration::from_mins(1);

/// Ends with this value, and what it started with it.
pub(crate) struct Daemon {
    engine: &'static str,
    /// Whether it has the network that engines have by themselves, in a network namespace of its own.
    networked: bool,
    /// Podman's file of what it gives every container, and the like in its settings.
    gives: Option<(String, String)>,
    /// Whether a Podman has its files where [`Self::data`] says, and not where Podman has them here.
    apart: bool,
    /// Whether its containers go on while it does not run: `live-restore`.
    outlived: bool,
    place: tempfile::TempDir,
    running: Option<Child>,
}

impl Daemon {
    /// A Docker that changes nothing of the machine's network.
    pub(crate) fn start() -> Self {
        Self::at_rest("docker", false).started()
    }

    /// A service of Podman's, with what Podman has here.
    pub(crate) fn podman() -> Self {
        Self::at_rest("podman", false).started()
    }

    /// The same of an administrator who gives every container something: by lines of `mounts.conf`, and by lines of what
    /// containers.conf says of containers.
    pub(crate) fn podman_that_gives(mounts: &str, settings: &str) -> Self {
        let mut service = Self::at_rest("podman", false);
        service.gives = Some((mounts.to_owned(), settings.to_owned()));
        service.started()
    }

    /// With a network, which is none of the machine's. Podman's is a service of its own, with what Podman has here.
    pub(crate) fn with_a_network(engine: &'static str) -> Self {
        Self::at_rest(engine, true).started()
    }

    /// A Docker as of [`Self::start`] whose containers go on without it.
    pub(crate) fn outlived() -> Self {
        let mut daemon = Self::at_rest("docker", false);
        daemon.outlived = true;
        daemon.started()
    }

    /// One with files of its own that does not run yet; a Docker as of [`Self::start`].
    pub(crate) fn not_yet(engine: &'static str) -> Self {
        let mut daemon = Self::at_rest(engine, false);
        daemon.apart = true;
        daemon
    }

    fn at_rest(engine: &'static str, networked: bool) -> Self {
        let place = tempfile::Builder::new().prefix("cfd").tempdir_in("/tmp");
        Self {
            engine,
            networked,
            gives: None,
            apart: false,
            outlived: false,
            place: place.unwrap(),
            running: None,
        }
    }

    pub(crate) fn started(mut self) -> Self {
        self.starts_again();
        self
    }

    /// Where its images and containers are.
    pub(crate) fn data(&self) -> PathBuf {
        self.path("data")
    }

    fn path(&self, part: &str) -> PathBuf {
        self.place.path().join(part)
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.path("s")
    }

    fn host(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    fn command(&self) -> Vec<String> {
        let mut words = Vec::new();
        let mut add = |more: &[&str]| words.extend(more.iter().map(|&word| word.to_owned()));
        if self.networked {
            let alone = "ip link set lo up; exec \"$@\"";
            add(&["unshare", "--net", "sh", "-c", alone, "sh"]);
        }
        if self.engine == "docker" {
            add(&["dockerd", "--host", &self.host()]);
            for (option, part) in [
                ("--data-root", "data"),
                ("--exec-root", "exec"),
                ("--pidfile", "pid"),
            ] {
                add(&[option, self.path(part).to_str().unwrap()]);
            }
            add(&["--iptables=false", "--ip6tables=false"]);
            if !self.networked {
                add(&["--bridge", "none"]);
            }
            if self.outlived {
                add(&["--live-restore"]);
            }
        } else {
            add(&["podman"]);
            if self.apart {
                for (option, part) in [("--root", "data"), ("--runroot", "exec")] {
                    add(&[option, self.path(part).to_str().unwrap()]);
                }
            }
            if self.gives.is_some() {
                let file = self.path("mounts.conf");
                add(&["--default-mounts-file", file.to_str().unwrap()]);
            }
            add(&["system", "service", "--time", "0", &self.host()]);
        }
        words
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "tests start the daemon as a service manager does"
    )]
    pub(crate) fn starts_again(&mut self) {
        let said = std::fs::File::create(self.path("said")).unwrap();
        let words = self.command();
        let mut command = Command::new(&words[0]);
        command
            .args(&words[1..])
            // With it Podman asks another one.
            .env_remove("CONTAINER_HOST")
            // Where its containerd writes what it did before it was killed for its slowness.
            .env("TMPDIR", self.place.path())
            .stdin(Stdio::null())
            .stdout(said.try_clone().unwrap())
            .stderr(said);
        if let Some((mounts, settings)) = &self.gives {
            let file = self.path("containers.conf");
            let known = std::env::var_os("CONTAINERS_CONF").map(std::fs::read_to_string);
            let known = known.map_or_else(String::new, Result::unwrap);
            let (heading, mut lines) = ("[containers]", known.lines().collect::<Vec<_>>());
            let found = lines.iter().position(|line| line.trim() == heading);
            let at = found.unwrap_or_else(|| {
                lines.push(heading);
                lines.len() - 1
            });
            lines.insert(at + 1, settings);
            let settings = lines.join("\n");
            std::fs::write(&file, settings).unwrap();
            std::fs::write(self.path("mounts.conf"), mounts).unwrap();
            command.env("CONTAINERS_CONF", file);
        }
        self.running = Some(command.spawn().unwrap());
        let began = Instant::now();
        while self.ask(&["version"]).is_err() {
            assert!(began.elapsed() < LIMIT, "{}", self.said());
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    pub(crate) fn said(&self) -> String {
        std::fs::read_to_string(self.path("said")).unwrap_or_default()
    }

    /// By the engine's own command.
    pub(crate) fn ask(&self, words: &[&str]) -> Result<String, String> {
        let option = if self.engine == "docker" {
            "--host"
        } else {
            "--url"
        };
        own(self.engine, &[&[option, &self.host()], words].concat())
    }

    /// Gives it an image of the machine's.
    pub(crate) fn get(&self, image: &str) {
        let archive = self.path("image.tar");
        let archive = archive.to_str().unwrap();
        own(self.engine, &["save", "--output", archive, image]).unwrap();
        self.ask(&["load", "--input", archive]).unwrap();
    }

    pub(crate) fn ends(&mut self, signal: Signal) {
        if let Some(mut child) = self.running.take() {
            let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
            let _ = kill_process(pid, signal);
            child.wait().unwrap();
            if signal == Signal::KILL {
                self.ends_what_is_below();
                // Where nobody waits for it its number looks as if it ran.
                let _ = std::fs::remove_file(self.path("exec/containerd/containerd.pid"));
            }
        }
    }
}

impl Daemon {
    /// The daemon below it, which one that was killed leaves. Containers are processes of neither.
    fn ends_what_is_below(&self) {
        self.kill_whose_command_names("containerd/containerd.toml");
    }

    /// Processes whose command line has this path below the daemon's place.
    fn kill_whose_command_names(&self, part: &str) {
        let path = self.path(part).display().to_string();
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            let name = entry.file_name().into_string();
            let Some(pid) = name.ok().and_then(|name| name.parse().ok()) else {
                continue;
            };
            let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            if String::from_utf8_lossy(&line).contains(&path) {
                let _ = kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL);
            }
        }
    }
}

impl Drop for Daemon {
    #[expect(
        clippy::disallowed_methods,
        reason = "a test takes away what its daemon had mounted"
    )]
    fn drop(&mut self) {
        self.ends(Signal::TERM);
        // Where a test failed in between.
        self.kill_whose_command_names("exec");
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let places = mounts.lines().filter_map(|line| line.split(' ').nth(1));
        let below = places.filter(|place| Path::new(place).starts_with(self.place.path()));
        for place in below.collect::<Vec<_>>().into_iter().rev() {
            let _ = Command::new("umount").arg("-l").arg(place).status();
        }
    }
}
