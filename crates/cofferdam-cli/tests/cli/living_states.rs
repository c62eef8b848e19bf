//! States that `list` shows of sandboxes that stay, and what the other commands say in them.

use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::environment::finish;
use crate::lives::Lives;

#[test]
fn one_that_is_being_made() {
    let lives = Lives::new();
    let hook = "touch ~/started; sleep 600";
    let making = lives
        .command(&[
            "create",
            "box",
            "--network",
            "none",
            "--on-sandbox-ready",
            hook,
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let state = lives.home().join(".cofferdam/state");
    let started = || {
        let mut all = state.read_dir().into_iter().flatten().flatten();
        all.any(|one| one.path().join("home/started").exists())
    };
    let until = Instant::now() + Duration::from_secs(30);
    while !started() {
        assert!(Instant::now() < until, "its hook never ran");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(lives.state("box"), "creating");
    for command in [
        &["exec", "box", "--", "true"][..],
        &["pause", "box"],
        &["stop", "box"],
        &["collect", "box"],
    ] {
        let done = lives.cofferdam(command).expect_code(1);
        assert_eq!(
            done.stderr,
            "error: sandbox `box` is still being made\n\
             hint: wait until its `cofferdam create` is through\n"
        );
    }
    kill_process(Pid::from_child(&making), Signal::INT).unwrap();
    finish(making).expect_code(130);
    assert_eq!(lives.listed("box"), None);
    lives.expect_clean();
}

#[test]
fn one_whose_setup_failed_is_kept_for_a_look() {
    let lives = Lives::new();
    let hook = "echo left > trace; exit 3";
    let done = lives.cofferdam(&[
        "create",
        "box",
        "--network",
        "none",
        "--on-sandbox-ready",
        hook,
    ]);
    assert_eq!(done.status.code(), Some(1), "{done}");
    assert!(done.stderr.ends_with(
        "failed: exit code 3\nhint: it is kept for a look: `cofferdam shell box`; then `cofferdam delete box`\n"
    ), "{done}");
    assert_eq!(lives.state("box"), "failed-setup");
    let status = lives.cofferdam(&["status", "box"]).expect_code(0);
    assert!(
        status.stdout.contains("state:   failed-setup\n"),
        "{status}"
    );
    let look = lives.exec("box", "cat trace").expect_code(0);
    assert_eq!(look.stdout, "left\n");
    // No agent works in what is half made.
    let done = lives.run(&["--in", "box"], "true").expect_code(1);
    assert!(
        done.stderr.contains("the setup of sandbox `box` failed"),
        "{done}"
    );
    assert!(done.stderr.contains("`cofferdam delete box`"), "{done}");
    lives.cofferdam(&["stop", "box"]).expect_code(0);
    lives.cofferdam(&["start", "box"]).expect_code(0);
    assert_eq!(lives.state("box"), "failed-setup");
    // What the hook left is nobody's work but is not thrown away unasked.
    lives.cofferdam(&["delete", "box"]).expect_code(1);
    lives
        .cofferdam(&["delete", "--force", "box"])
        .expect_code(0);
    lives.expect_clean();
}

#[test]
fn one_whose_files_are_gone() {
    let lives = Lives::with("box", &["--network", "none"]);
    lives
        .exec("box", "git commit -qm one --allow-empty")
        .expect_code(0);
    let files = lives.listed("box").unwrap()["workdir"]
        .as_str()
        .unwrap()
        .to_owned();
    std::fs::remove_dir_all(&files).unwrap();
    assert_eq!(lives.state("box"), "missing");
    let status = lives.cofferdam(&["status", "box"]).expect_code(0);
    assert!(status.stdout.contains("state:   missing\n"), "{status}");
    let missing = |command: &[&str]| {
        let done = lives.cofferdam(command).expect_code(1);
        let words = "error: the files of sandbox `box` are gone: there is no directory ";
        assert!(done.stderr.starts_with(words), "{done}");
        assert!(done.stderr.contains("`cofferdam collect box`"), "{done}");
    };
    missing(&["exec", "box", "--", "true"]);
    missing(&["run", "--in", "box", "--agent", "command", "--", "true"]);
    lives.cofferdam(&["stop", "box"]).expect_code(0);
    assert_eq!(lives.state("box"), "missing");
    missing(&["start", "box"]);
    // What was committed is in its git directory, which is elsewhere. Git takes the branch for checked out.
    let done = lives.cofferdam(&["collect", "box"]).expect_code(1);
    assert!(
        done.stdout.contains("kept: 1 commit on refs/cofferdam/"),
        "{done}"
    );
    let log = lives.cofferdam(&["log", "box"]).expect_code(0);
    assert!(log.stdout.contains("one"), "{log}");
    lives
        .cofferdam(&["delete", "--force", "box"])
        .expect_code(0);
    assert_eq!(lives.listed("box"), None);
}
