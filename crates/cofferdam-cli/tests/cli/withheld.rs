//! What a terminal tells its programs is withheld from processes that outlive their starter, from their first instruction on.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use crate::lives::Lives;

/// proc_pid_status(5): a hexadecimal mask, in which bit 0 is signal 1.
fn withholds(pid: Pid, signal: Signal) -> bool {
    let path = format!("/proc/{}/status", pid.as_raw_nonzero());
    let status = std::fs::read_to_string(path).unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigBlk:"));
    let mask = u64::from_str_radix(mask.unwrap().trim(), 16).unwrap();
    mask >> (signal.as_raw() - 1) & 1 == 1
}

/// The gateway of this user, by what its lock says.
fn gateway(lives: &Lives) -> Option<Pid> {
    let home = lives.home().join(".cofferdam");
    let mut all = home.read_dir().unwrap().flatten();
    let found = all.find(|one| one.file_name().to_string_lossy().starts_with("gateway-"))?;
    let text = std::fs::read_to_string(found.path().join("lock")).ok()?;
    let pid = Pid::from_raw(text.trim_end().parse().ok()?)?;
    test_kill_process(pid).ok().map(|()| pid)
}

#[track_caller]
fn eventually<T>(mut found: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(Instant::now() < until, "it does not come");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// In whose job it is for a moment, a Ctrl-Z would have it stand still for everybody.
#[test]
fn a_gateway_and_a_watcher_hear_no_keys_and_end_when_they_are_asked() {
    let lives = Lives::new();
    lives.cofferdam(&["create", "one", "--head"]).expect_code(0);
    let watcher = lives.watches("one");
    let first = gateway(&lives).unwrap();
    for pid in [first, watcher] {
        for key in [Signal::INT, Signal::QUIT, Signal::TSTP, Signal::HUP] {
            assert!(withholds(pid, key), "{pid:?} {key:?}");
        }
        assert!(!withholds(pid, Signal::TERM), "{pid:?}");
    }
    // A supervisor starts the next one, which hears that it is to end as well.
    kill_process(first, Signal::KILL).unwrap();
    let second = eventually(|| gateway(&lives).filter(|pid| *pid != first));
    kill_process(second, Signal::TERM).unwrap();
    eventually(|| test_kill_process(second).is_err().then_some(()));
    lives.cofferdam(&["delete", "one"]).expect_code(0);
}
