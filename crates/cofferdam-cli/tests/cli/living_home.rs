//! What becomes of sandboxes that stay when their user takes Cofferdam's own directory away.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use crate::lives::Lives;

#[track_caller]
fn id(lives: &Lives, name: &str) -> String {
    let listed = lives.listed(name).unwrap();
    listed["id"].as_str().unwrap().to_owned()
}

/// Nobody knows of them any more.
fn remove_groups(id: &str) {
    let top = Path::new("/sys/fs/cgroup");
    let mut tops = vec![top.to_owned()];
    let below = fs::read_dir(top).into_iter().flatten().flatten();
    tops.extend(below.map(|entry| entry.path()));
    for top in tops {
        let group = top.join("cofferdam").join(id);
        let _ = fs::remove_dir(group.join("programs"));
        let _ = fs::remove_dir(group);
    }
}

/// Init, and the supervisor.
#[track_caller]
fn processes(lives: &Lives, name: &str) -> [u32; 2] {
    let status = lives.cofferdam(&["status", name, "--json"]).expect_code(0);
    let status: serde_json::Value = serde_json::from_str(&status.stdout).unwrap();
    let number = |value: &serde_json::Value| u32::try_from(value.as_u64().unwrap()).unwrap();
    let state = lives.home().join(".cofferdam/state");
    let lock = state.join(id(lives, name)).join("lock");
    let lock = fs::read_to_string(lock).unwrap();
    let (supervisor, _) = lock.trim().split_once(' ').unwrap();
    [number(&status["process"]), supervisor.parse().unwrap()]
}

fn pid(process: u32) -> Pid {
    Pid::from_raw(i32::try_from(process).unwrap()).unwrap()
}

fn is_there(process: u32) -> bool {
    let stat = fs::read_to_string(Path::new("/proc").join(process.to_string()).join("stat"));
    test_kill_process(pid(process)).is_ok() && !stat.unwrap_or_default().contains(") Z ")
}

#[track_caller]
pub(crate) fn eventually(what: &str, is: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(20);
    while !is() {
        assert!(Instant::now() < until, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Nobody could find them any more. A directory that is moved, and back, is no end.
#[test]
fn they_end_when_their_home_is_removed() {
    let lives = Lives::with("alone", &["--network", "none"]);
    lives.create("paused", &["--network", "none"]);
    lives.create("walled", &[]);
    let ids = ["alone", "paused", "walled"].map(|name| id(&lives, name));
    let all = ["alone", "paused", "walled"].map(|name| processes(&lives, name));
    let [[_, killed], ..] = all;
    kill_process(pid(killed), Signal::KILL).unwrap();
    eventually("it is dead", || !is_there(killed));
    let (home, moved) = (
        lives.home().join(".cofferdam"),
        lives.home().join("elsewhere"),
    );
    fs::rename(&home, &moved).unwrap();
    fs::rename(&moved, &home).unwrap();
    for name in ["alone", "paused", "walled"] {
        lives.exec(name, "true").expect_code(0);
    }
    let all = ["alone", "paused", "walled"].map(|name| processes(&lives, name));
    assert!(all.as_flattened().iter().all(|process| is_there(*process)));
    let [[_, killed], ..] = all;
    kill_process(pid(killed), Signal::KILL).unwrap();
    eventually("it is dead", || !is_there(killed));
    lives
        .exec("walled", "setsid sleep 600 < /dev/null > /dev/null 2>&1 &")
        .expect_code(0);
    lives.cofferdam(&["pause", "paused"]).expect_code(0);
    // Whoever still works there may make one more file meanwhile.
    eventually("it is removed", || fs::remove_dir_all(&home).is_ok());
    eventually("nothing of them is left", || {
        !all.as_flattened().iter().any(|process| is_there(*process))
    });
    for id in ids {
        remove_groups(&id);
    }
}
