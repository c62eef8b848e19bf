//! The daemon of an engine ends and comes back, in a Docker of the test's own.

use std::time::{Duration, Instant};

use cofferdam_lab::skip;
use rustix::process::Signal;

use crate::containers::{IMAGE, READY, World, making, worlds};
use crate::daemon::{Daemon, LIMIT};
use crate::environment::Done;
use crate::fake_engine::with_engine;

#[track_caller]
fn cofferdam(world: &World, daemon: &Daemon, words: &[&str]) -> Done {
    with_engine(&world.environment, "docker", &daemon.socket(), words)
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
    daemon.get(IMAGE);
    let create = making("create", "docker", &["one"]);
    cofferdam(&world, &daemon, &create).expect_code(0);
    for (number, signal) in [Signal::TERM, Signal::KILL].into_iter().enumerate() {
        let work = format!("work-{number}");
        let script = format!("echo x >{work}; git add {work}; git commit -qm {work}");
        cofferdam(&world, &daemon, &["exec", "one", "--", "sh", "-c", &script]).expect_code(0);
        let before = daemon.ask(&["ps", "--quiet", "--no-trunc"]).unwrap();
        // One may have been made ready for the next, and stays until somebody wants it.
        let ready = daemon
            .ask(&["ps", "--quiet", "--no-trunc", "--filter", READY])
            .unwrap();
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
        for old in before.lines().filter(|old| !ready.contains(old)) {
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

/// Podman has no daemon: a person's sandbox is there while its service is not, and only what is asked of that waits for it.
#[test]
fn one_who_lives_in_podman_goes_on_without_its_service() {
    if !rustix::process::geteuid().is_root() {
        return skip!("only root can start a service of their own");
    }
    let Some(world) = worlds().into_iter().find(|world| world.engine == "podman") else {
        return;
    };
    let mut service = Daemon::podman();
    let cofferdam = |service: &Daemon, words: &[&str]| {
        with_engine(&world.environment, "podman", &service.socket(), words)
    };
    cofferdam(&service, &making("start", "podman", &[])).expect_code(0);
    let state = |service: &Daemon| {
        let told = cofferdam(service, &["status", "--json", "dev"]).expect_code(0);
        let told: serde_json::Value = serde_json::from_str(&told.stdout).unwrap();
        told["state"].as_str().unwrap().to_owned()
    };
    for (number, signal) in [Signal::TERM, Signal::KILL].into_iter().enumerate() {
        service.ends(signal);
        // Programs run, and commits come home.
        assert_eq!(state(&service), "active");
        let work = format!("work-{number}");
        let script = format!("echo x >{work}; git add {work}; git commit -qm {work}");
        let done = cofferdam(&service, &["exec", "dev", "--", "sh", "-c", &script]);
        let done = done.expect_code(0);
        assert!(done.stderr.contains("landed: 1 commit on main"), "{done}");
        // Its containers are for their engine to end.
        let refused = cofferdam(&service, &["stop", "dev"]).expect_code(1);
        assert!(
            refused.stderr.contains("Podman") && refused.stderr.contains("hint: "),
            "{refused}"
        );
        service.starts_again();
        cofferdam(&service, &["stop", "dev"]).expect_code(0);
        assert_eq!(state(&service), "stopped");
        cofferdam(&service, &["start"]).expect_code(0);
        let seen = cofferdam(&service, &["exec", "dev", "--", "cat", &work]);
        assert_eq!(seen.expect_code(0).stdout, "x\n");
    }
    cofferdam(&service, &["delete", "dev"]).expect_code(0);
    world.environment.expect_clean();
}
