//! The daemon of an engine ends and comes back, in a Docker of the test's own.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use cofferdam_lab::skip;
use rustix::process::{Pid, Signal, kill_process};

use crate::containers::{IMAGE, World, own, worlds};
use crate::environment::{Done, finish};

/// How long the daemon may take for each step.
const LIMIT: Duration = Duration::from_mins(1);

/// Ends with this value, and what it started with it.
struct Daemon {
    place: tempfile::TempDir,
    running: Option<Child>,
}

impl Daemon {
    fn start() -> Self {
        let place = tempfile::Builder::new().prefix("cfd").tempdir_in("/tmp");
        let mut daemon = Self {
            place: place.unwrap(),
            running: None,
        };
        daemon.starts_again();
        daemon
    }

    fn path(&self, part: &str) -> PathBuf {
        self.place.path().join(part)
    }

    fn host(&self) -> String {
        format!("unix://{}", self.path("s").display())
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "tests start the daemon as a service manager does"
    )]
    fn starts_again(&mut self) {
        let said = std::fs::File::create(self.path("said")).unwrap();
        let mut command = Command::new("dockerd");
        for (option, part) in [
            ("--data-root", "data"),
            ("--exec-root", "exec"),
            ("--pidfile", "pid"),
        ] {
            command.arg(option).arg(self.path(part));
        }
        command
            .args([
                "--host",
                &self.host(),
                "--bridge",
                "none",
                "--iptables=false",
                "--ip6tables=false",
            ])
            // Where its containerd writes what it did before it was killed for its slowness.
            .env("TMPDIR", self.place.path())
            .stdin(Stdio::null())
            .stdout(said.try_clone().unwrap())
            .stderr(said);
        self.running = Some(command.spawn().unwrap());
        let began = Instant::now();
        while self.ask(&["version"]).is_err() {
            assert!(began.elapsed() < LIMIT, "{}", self.said());
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn said(&self) -> String {
        std::fs::read_to_string(self.path("said")).unwrap_or_default()
    }

    fn ask(&self, words: &[&str]) -> Result<String, String> {
        own("docker", &[&["--host", &self.host()], words].concat())
    }

    fn ends(&mut self, signal: Signal) {
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

#[track_caller]
fn cofferdam(world: &World, daemon: &Daemon, words: &[&str]) -> Done {
    let mut command = world.environment.command(words);
    command
        .env("DOCKER_HOST", daemon.host())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    finish(command.spawn().unwrap())
}

#[test]
fn a_daemon_that_is_started_again_has_opened_nothing_and_lost_nothing() {
    if !rustix::process::geteuid().is_root() {
        return skip!("only root can start a Docker of their own");
    }
    let Some(world) = worlds().into_iter().find(|world| world.engine == "docker") else {
        return;
    };
    let mut daemon = Daemon::start();
    let image = daemon.path("image.tar");
    own(
        "docker",
        &["save", "--output", image.to_str().unwrap(), IMAGE],
    )
    .unwrap();
    daemon
        .ask(&["load", "--input", image.to_str().unwrap()])
        .unwrap();
    let create = ["create", "one", "--sandbox", "docker", "--image", IMAGE];
    cofferdam(&world, &daemon, &create).expect_code(0);
    for (number, signal) in [Signal::TERM, Signal::KILL].into_iter().enumerate() {
        let work = format!("work-{number}");
        let script = format!("echo x >{work}; git add {work}; git commit -qm {work}");
        cofferdam(&world, &daemon, &["exec", "one", "--", "sh", "-c", &script]).expect_code(0);
        let before = daemon.ask(&["ps", "--quiet", "--no-trunc"]).unwrap();
        daemon.ends(signal);
        // What is said now is true, whichever it is, and no engine is needed for it.
        let away = status(&world, &daemon);
        if signal == Signal::TERM {
            // Such a daemon ends its containers first.
            assert_eq!(away, "stopped");
            let refused = cofferdam(&world, &daemon, &["start", "one"]).expect_code(1);
            assert!(
                refused.stderr.contains("Docker") && refused.stderr.contains("hint: "),
                "{refused}"
            );
        } else {
            // The agent works on behind its wall, which is no engine's.
            assert_eq!(away, "active");
            let names = "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '";
            let seen = cofferdam(&world, &daemon, &["exec", "one", "--", "sh", "-c", names]);
            assert_eq!(seen.stdout, "lo\n", "{seen}");
        }
        let collected = cofferdam(&world, &daemon, &["collect", "one"]);
        if signal == Signal::TERM {
            // Whether it has ended for good only its engine can tell; the work waits in its files.
            assert!(
                collected.stderr.contains("Docker") && collected.stderr.contains("hint: "),
                "{collected}"
            );
            daemon.starts_again();
            cofferdam(&world, &daemon, &["collect", "one"]).expect_code(0);
        } else {
            collected.expect_code(0);
            daemon.starts_again();
        }
        world
            .environment
            .git(&["cat-file", "-e", &format!("cofferdam/one:{work}")]);
        // It ends what it finds running, and starts nothing by itself.
        let began = Instant::now();
        while status(&world, &daemon) != "stopped" {
            assert!(began.elapsed() < LIMIT, "{}", daemon.said());
            std::thread::sleep(Duration::from_millis(100));
        }
        cofferdam(&world, &daemon, &["start", "one"]).expect_code(0);
        let seen = "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '; git ls-remote git://192.0.2.1/x 2>&1 | head -n 1";
        let seen =
            cofferdam(&world, &daemon, &["exec", "one", "--", "sh", "-c", seen]).expect_code(0);
        assert!(seen.stdout.starts_with("lo\nfatal: "), "{seen}");
        let after = daemon
            .ask(&["ps", "--all", "--quiet", "--no-trunc"])
            .unwrap();
        for old in before.lines() {
            assert!(!after.contains(old), "{signal:?}: {before}{after}");
        }
    }
    cofferdam(&world, &daemon, &["delete", "--force", "one"]).expect_code(0);
    world.environment.expect_clean();
}

#[track_caller]
fn status(world: &World, daemon: &Daemon) -> String {
    let told = cofferdam(world, daemon, &["status", "--json", "one"]).expect_code(0);
    let told: serde_json::Value = serde_json::from_str(&told.stdout).unwrap();
    told["state"].as_str().unwrap().to_owned()
}
