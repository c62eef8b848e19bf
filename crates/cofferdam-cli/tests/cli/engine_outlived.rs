//! A Docker whose administrator has it leave containers alone when it ends (`live-restore`).

use cofferdam_lab::skip;
use rustix::process::Signal;

use crate::containers::{IMAGE, making, worlds};
use crate::daemon::Daemon;
use crate::environment::Done;
use crate::fake_engine::with_engine;

#[test]
fn a_sandbox_goes_on_without_its_daemon() {
    if !rustix::process::geteuid().is_root() {
        return skip!("only root can start a Docker of their own");
    }
    let Some(world) = worlds().into_iter().find(|world| world.engine == "docker") else {
        return;
    };
    let mut daemon = Daemon::outlived();
    daemon.get(IMAGE);
    let cofferdam = |daemon: &Daemon, words: &[&str]| -> Done {
        with_engine(&world.environment, "docker", &daemon.socket(), words)
    };
    let inside = |daemon: &Daemon, script: &str| {
        cofferdam(daemon, &["exec", "one", "--", "sh", "-c", script]).expect_code(0)
    };
    let state = |daemon: &Daemon| {
        let told = cofferdam(daemon, &["status", "--json", "one"]).expect_code(0);
        let told: serde_json::Value = serde_json::from_str(&told.stdout).unwrap();
        told["state"].as_str().unwrap().to_owned()
    };
    cofferdam(&daemon, &making("create", "docker", &["one"])).expect_code(0);
    for (number, signal) in [Signal::TERM, Signal::KILL].into_iter().enumerate() {
        let began = inside(&daemon, "sleep 1000 >/dev/null 2>&1 & echo $!").stdout;
        let alive = format!("kill -0 {}", began.trim());
        let names = "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '";
        let before = daemon.ask(&["ps", "--quiet", "--no-trunc"]).unwrap();
        daemon.ends(signal);
        let work = format!("work-{number}");
        let commit = format!("echo x >{work}; git add {work}; git commit -qm {work}");
        inside(&daemon, &format!("{alive} && {commit}"));
        assert_eq!(state(&daemon), "active", "{signal:?}");
        cofferdam(&daemon, &["collect", "one"]).expect_code(0);
        let branch = format!("cofferdam/one:{work}");
        world.environment.git(&["cat-file", "-e", &branch]);
        // The wall is no engine's.
        assert_eq!(inside(&daemon, names).stdout, "lo\n");

        daemon.starts_again();
        if state(&daemon) == "active" {
            // The same programs, and the same way out: none but the wall.
            let after = daemon.ask(&["ps", "--quiet", "--no-trunc"]).unwrap();
            assert_eq!(after, before, "{signal:?}");
            inside(&daemon, &alive);
        } else {
            // A Docker before 24.0.8 removes then whatever was to be removed at its end (moby issue 46308).
            let version = daemon.ask(&["version", "--format", "{{.Server.Version}}"]);
            let version = version.unwrap();
            let major = version.split('.').next().unwrap().parse::<u32>();
            assert!(
                major.is_ok_and(|major| major <= 24),
                "{version}: {}",
                daemon.said()
            );
            assert_eq!(state(&daemon), "stopped", "{signal:?}");
            cofferdam(&daemon, &["start", "one"]).expect_code(0);
        }
        let seen = format!("{names}; git ls-remote git://192.0.2.1/x 2>&1 | head -n 1");
        let seen = inside(&daemon, &seen);
        assert!(seen.stdout.starts_with("lo\nfatal: "), "{seen}");
        for command in ["pause", "resume"] {
            cofferdam(&daemon, &[command, "one"]).expect_code(0);
        }
    }
    cofferdam(&daemon, &["stop", "one"]).expect_code(0);
    assert_eq!(state(&daemon), "stopped");
    cofferdam(&daemon, &["start", "one"]).expect_code(0);
    cofferdam(&daemon, &["delete", "one"]).expect_code(0);
    world.environment.expect_clean();
}
