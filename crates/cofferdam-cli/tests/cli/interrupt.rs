//! Ctrl-C and its relatives during a run.

use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::environment::{TestEnvironment, finish};

/// Starts a run that commits and then waits for ever, and sends `signal` when it waits.
#[track_caller]
fn interrupted(options: &[&str], script: &str, signal: Signal, code: i32) -> TestEnvironment {
    interrupted_by(options, script, &[signal], code)
}

/// The same with several signals, one soon after the other.
#[track_caller]
fn interrupted_by(
    options: &[&str],
    script: &str,
    signals: &[Signal],
    code: i32,
) -> TestEnvironment {
    let environment = TestEnvironment::with_repository();
    let mut arguments = vec!["run"];
    arguments.extend_from_slice(options);
    arguments.extend_from_slice(&["--", "sh", "-c", script]);
    let mut child = environment
        .command(&arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let stderr = child.stderr.take().unwrap();
    let (said, rest) = std::sync::mpsc::channel();
    // Reads on, so that the command never writes into a closed pipe.
    let reader = std::thread::spawn(move || {
        use std::io::BufRead;
        let mut all = String::new();
        for line in std::io::BufReader::new(stderr).lines() {
            let line = line.unwrap();
            if line.contains("waiting-now") {
                let _ = said.send(());
            }
            all.push_str(&line);
            all.push('\n');
        }
        all
    });
    rest.recv_timeout(Duration::from_mins(1))
        .expect("the agent never waited");
    let start = Instant::now();
    for &signal in signals {
        kill_process(Pid::from_child(&child), signal).unwrap();
        // Two at once may arrive as one.
        std::thread::sleep(Duration::from_millis(200));
    }
    let done = finish(child);
    let said = reader.join().unwrap();
    assert_eq!(done.status.code(), Some(code), "{said}");
    assert!(start.elapsed() < Duration::from_secs(20), "{said}");
    assert!(said.contains("stopping the agent"), "{said}");
    environment
}

const COMMITS_AND_WAITS: &str =
    "echo a > a.txt; git add a.txt; git commit -qm a; echo waiting-now; sleep 600";

#[test]
fn commits_come_home_and_nothing_is_left() {
    let environment = interrupted(
        &["--branch", "feature"],
        COMMITS_AND_WAITS,
        Signal::INT,
        130,
    );
    assert_eq!(
        environment.git(&["log", "-1", "--format=%s", "feature"]),
        "a"
    );
    assert_eq!(environment.git(&["worktree", "list"]).lines().count(), 1);
}

#[test]
fn head_too_and_by_other_signals() {
    let environment = interrupted(&[], COMMITS_AND_WAITS, Signal::TERM, 143);
    assert_eq!(environment.git(&["log", "-1", "--format=%s", "main"]), "a");
    assert_eq!(
        environment.git(&["status", "--porcelain", "--untracked-files=no"]),
        ""
    );
    environment.expect_clean();
    interrupted(&["--merge-to-head"], COMMITS_AND_WAITS, Signal::HUP, 129);
}

#[test]
fn an_agent_that_ignores_signals_is_ended_all_the_same() {
    let script = "trap '' INT TERM HUP; echo waiting-now; while :; do sleep 1; done";
    interrupted(&[], script, Signal::INT, 130).expect_clean();
}

#[test]
fn twice_leaves_at_once_and_loses_nothing() {
    let script = format!("trap '' INT TERM HUP; {COMMITS_AND_WAITS}");
    let options = ["--branch", "feature", "--name", "twice"];
    let environment = interrupted_by(&options, &script, &[Signal::INT, Signal::INT], 130);
    environment.cofferdam(&["gc"]).expect_code(0);
    assert_eq!(
        environment.git(&["log", "-1", "--format=%s", "feature"]),
        "a"
    );
}

#[test]
fn three_times_is_the_end_of_it() {
    let script = format!("trap '' INT TERM HUP; {COMMITS_AND_WAITS}");
    let options = ["--branch", "feature", "--name", "thrice"];
    let environment = interrupted_by(&options, &script, &[Signal::INT; 3], 130);
    environment.cofferdam(&["gc"]).expect_code(0);
    assert_eq!(
        environment.git(&["log", "-1", "--format=%s", "feature"]),
        "a"
    );
}
