//! How long a supervisor lives, what it is, and that there is one.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};

use cofferdam::home::Home;
use cofferdam::names::SandboxId;
use cofferdam::wall::HandedOver;
use cofferdam::wall::supervisor::{Supervisor, SupervisorError, Wall, start};
use cofferdam_lab::skip;
use rustix::process::Signal;

use super::world::{RULES, Sandbox, carries, field, made, pid, pidfd};
use crate::support::{House, block_on, is_dead, until};

/// What another process of the tests is given to start.
const PLACE: &str = "COFFERDAM_TEST_SUPERVISED";

/// Not a test: the command that starts a supervisor and is gone.
#[test]
fn helper_starts_a_supervisor() {
    let Ok(place) = std::env::var(PLACE) else {
        return;
    };
    let [home, sandbox, init] = place.split(' ').collect::<Vec<_>>()[..] else {
        panic!("{place}");
    };
    let home = Home::new(home);
    let sandbox: SandboxId = sandbox.parse().unwrap();
    let lock = fs::File::options()
        .read(true)
        .write(true)
        .open(home.sandbox(sandbox).join("lock"))
        .unwrap();
    let init = pidfd(pid(init.parse().unwrap()));
    block_on(async {
        start(&home, sandbox, lock.into(), init, None)
            .await
            .unwrap();
    });
}

/// Starts it from a process that has ended when this returns.
pub(crate) fn started_elsewhere(sandbox: &Sandbox) {
    drop(sandbox.lock());
    let place = format!(
        "{} {} {}",
        sandbox.house.home.path().display(),
        sandbox.spec.sandbox,
        sandbox.init_process()
    );
    let name = "supervisor::life::helper_starts_a_supervisor";
    let done = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--test-threads=1"])
        .env(PLACE, place)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(done.status.success(), "{done:?}");
}

#[test]
fn it_outlives_its_starter_and_others_find_it() {
    let sandbox = Sandbox::new(&[]);
    started_elsewhere(&sandbox);
    block_on(async {
        let status = sandbox.status().await.unwrap();
        assert_eq!(status.wall, Some(Wall::None));
        // It holds the lock, and the lock names it: who, and since when.
        assert!(sandbox.is_locked());
        let signed = fs::read_to_string(sandbox.directory().join("lock")).unwrap();
        let (process, since) = signed.trim_end().split_once(' ').unwrap();
        assert_eq!(process, status.process.to_string());
        let is_alive = cofferdam::process::is_alive(status.process, since.parse().unwrap());
        assert!(is_alive, "{signed:?}");
    });
}

#[test]
fn it_ends_with_the_sandboxs_init() {
    let mut sandbox = Sandbox::new(&RULES);
    block_on(async {
        let (_, status, doors) = sandbox.handed_over().await;
        carries(doors);
        sandbox.kill_init();
        until("it ended", || is_dead(pid(status.process)));
        assert!(!sandbox.socket().exists());
        assert!(!sandbox.is_locked());
        assert_eq!(sandbox.status().await, None);
        sandbox.are_behind(0).await;
        // Nor does one begin for a dead sandbox.
        let refused = sandbox.start(None).await.map(|_| ());
        assert!(
            matches!(&refused, Err(SupervisorError::Start(why)) if why.contains("init is dead")),
            "{refused:?}"
        );
        assert!(!sandbox.is_locked());
    });
}

#[test]
fn stopped_it_lets_go_of_everything_before_it_says_so() {
    let sandbox = Sandbox::new(&RULES);
    block_on(async {
        for _ in 0..5 {
            let (supervisor, _, doors) = sandbox.handed_over().await;
            supervisor.stop().await.unwrap();
            assert!(!sandbox.is_locked());
            assert!(!sandbox.socket().exists());
            assert_eq!(sandbox.status().await, None);
            until("nothing of it is carried", || {
                doors.look_up_once("allowed.example.com").is_none()
            });
        }
        // Two at once: whoever is second finds nobody.
        let (first, ..) = sandbox.handed_over().await;
        let (second, _) = Supervisor::connect(&sandbox.directory())
            .await
            .unwrap()
            .unwrap();
        let (one, other) = tokio::join!(first.stop(), second.stop());
        one.unwrap();
        other.unwrap();
    });
}

/// SIGTERM is a stop; what a terminal sends is nothing to it.
#[test]
fn signals_of_a_terminal_do_not_end_it() {
    let sandbox = Sandbox::new(&[]);
    block_on(async {
        let (_, status) = sandbox.start(None).await.unwrap();
        let process = pid(status.process);
        for signal in [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TSTP] {
            rustix::process::kill_process(process, signal).unwrap();
            assert_eq!(sandbox.status().await, Some(status.clone()), "{signal:?}");
        }
        // A session of its own: no terminal is its.
        assert_eq!(rustix::process::getsid(Some(process)).unwrap(), process);
        rustix::process::kill_process(process, Signal::TERM).unwrap();
        until("it ended", || is_dead(process));
        assert!(!sandbox.socket().exists());
    });
}

#[test]
fn of_two_starts_at_once_one_wins_by_the_lock() {
    let sandbox = Sandbox::new(&[]);
    block_on(async {
        let starts = futures_util::future::join_all((0..4).map(|_| sandbox.start(None)));
        let (won, lost): (Vec<_>, Vec<_>) = starts.await.into_iter().partition(Result::is_ok);
        assert_eq!((won.len(), lost.len()), (1, 3), "{lost:?}");
        for one in lost {
            let error = one.map(|_| ()).unwrap_err();
            assert!(matches!(error, SupervisorError::Taken), "{error:?}");
        }
        let (_, status) = won.into_iter().next().unwrap().unwrap();
        assert_eq!(sandbox.status().await, Some(status));
    });
}

#[test]
fn a_long_path_is_no_obstacle() {
    let house = House::below(Path::new(&"a-rather-long-name/".repeat(12)));
    let sandbox = Sandbox::within(house, &RULES);
    assert!(sandbox.socket().as_os_str().len() > 250);
    block_on(async {
        let (supervisor, status, doors) = sandbox.handed_over().await;
        carries(doors);
        assert_eq!(sandbox.status().await, Some(status));
        supervisor.stop().await.unwrap();
    });
}

/// It keeps its user, who owns what it keeps, and nothing else: as root, what a gateway's start needs.
#[test]
fn it_has_no_more_rights_than_it_needs() {
    let sandbox = Sandbox::new(&RULES);
    block_on(async {
        let (_, status, doors) = sandbox.handed_over().await;
        let of = |name| field(status.process, name);
        let setgid_and_setuid = "00000000000000c0";
        let none = "0000000000000000";
        let kept = if rustix::process::getuid().is_root() {
            setgid_and_setuid
        } else {
            none
        };
        for (name, kept) in [
            ("CapEff", kept),
            ("CapPrm", kept),
            ("CapInh", none),
            ("CapAmb", none),
        ] {
            assert_eq!(of(name), kept, "{name}");
        }
        if rustix::process::getuid().is_root() {
            assert_eq!(of("CapBnd"), kept);
        }
        assert_eq!(of("NoNewPrivs"), "1");
        assert_eq!(of("Threads"), "1");
        // Nobody else of the same user looks into it: what is below its number is root's then.
        let found = fs::metadata(format!("/proc/{}/fd", status.process)).unwrap();
        assert_eq!(found.uid(), 0);
        let socket = fs::metadata(sandbox.socket()).unwrap();
        assert_eq!(socket.mode() & 0o777, 0o600);
        // With them it starts gateways that are nobody special.
        crate::support::kill(sandbox.house.gateway());
        carries(doors);
        let gateway = sandbox.house.gateway().as_raw_nonzero().get();
        let gateway = u32::try_from(gateway).unwrap();
        assert_eq!(field(gateway, "CapPrm"), none);
        assert!(
            !field(gateway, "Uid")
                .split_ascii_whitespace()
                .any(|id| id == "0")
        );
    });
}

/// Nothing of the starter's stays open in it: who reads a pipe to its end waits for all who have it.
#[test]
fn it_keeps_nothing_of_its_starters() {
    let sandbox = Sandbox::new(&RULES);
    block_on(async {
        let (_, status, _) = sandbox.handed_over().await;
        let path = format!("/proc/{}/fd", status.process);
        if fs::read_dir(&path).is_err() {
            return skip!("only root sees what a process that cannot be dumped has open");
        }
        // Its standard three, lock, init, directory, listener, signals, five of the sandbox's, the connection, the
        // gateway's directory and the watch on it. A moment ago also the starter.
        until("it has what it needs and no more", || {
            fs::read_dir(&path).unwrap().count() == 16
        });
    });
}

#[test]
fn a_supervisor_that_cannot_begin_says_why_and_holds_nothing() {
    let sandbox = Sandbox::new(&RULES);
    block_on(async {
        drop(sandbox.write(&RULES).await);
        // A directory in the socket's place is not removed.
        fs::create_dir_all(sandbox.socket().join("kept")).unwrap();
        let (sockets, _) = made();
        let wall = HandedOver::of_sockets(&sandbox.spec, sockets).unwrap();
        let refused = sandbox.start(Some(wall)).await.map(|_| ());
        assert!(
            matches!(&refused, Err(SupervisorError::Start(why)) if why.contains("socket")),
            "{refused:?}"
        );
        until("the lock is free", || !sandbox.is_locked());
        fs::remove_dir_all(sandbox.socket()).unwrap();
        sandbox.start(None).await.unwrap();
    });
}
