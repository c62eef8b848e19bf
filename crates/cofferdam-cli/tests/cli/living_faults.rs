//! Commands on sandboxes that stay, cut short or against each other.

use std::io::Read;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::environment::finish;
use crate::lives::Lives;

/// Starts the command, and waits for its first word on standard output.
#[track_caller]
fn started(lives: &Lives, arguments: &[&str]) -> Child {
    let mut child = lives
        .command(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut ready = [0; 6];
    let stdout = child.stdout.as_mut().unwrap();
    stdout.read_exact(&mut ready).unwrap();
    assert_eq!(&ready, b"ready\n");
    child
}

#[track_caller]
fn eventually(what: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(20);
    while !what() {
        assert!(Instant::now() < until, "it never came");
    }
}

#[test]
fn creating_that_is_interrupted_leaves_nothing() {
    let lives = Lives::new();
    let before = lives.references();
    let there = lives.temporary().join("there");
    let hook = format!("touch '{}'; sleep 600", there.display());
    let child = lives
        .command(&[
            "create",
            "box",
            "--network",
            "none",
            "--on-host-ready",
            &hook,
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    eventually(|| there.exists());
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let done = finish(child).expect_code(130);
    assert_eq!(done.stdout, "");
    assert!(
        done.stderr
            .ends_with("interrupted: `cofferdam list` shows how it is now\n"),
        "{done}"
    );
    assert_eq!(lives.references(), before);
    lives.expect_clean();
    // The name is free.
    lives.create("box", &["--network", "none"]);
}

#[test]
fn creating_that_is_killed_is_cleared_by_gc() {
    let lives = Lives::new();
    let there = lives.temporary().join("there");
    let hook = format!("touch '{}'; sleep 600", there.display());
    let mut child = lives
        .command(&[
            "create",
            "box",
            "--network",
            "none",
            "--on-host-ready",
            &hook,
        ])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    eventually(|| there.exists());
    child.kill().unwrap();
    child.wait().unwrap();
    let listed = lives.listed("box").unwrap();
    assert_eq!(listed["interrupted"], true, "{listed}");
    lives.cofferdam(&["gc"]).expect_code(0);
    lives.expect_clean();
    lives.create("box", &["--network", "none"]);
    lives.exec("box", "true").expect_code(0);
}

#[test]
fn a_program_ends_with_a_command_that_is_killed() {
    let lives = Lives::with("box", &["--network", "none"]);
    let script = "echo ready; while :; do sleep 0.05; done # 24680";
    let mut child = started(&lives, &["exec", "box", "--", "sh", "-c", script]);
    let status = || lives.cofferdam(&["status", "box"]).expect_code(0).stdout;
    assert!(status().contains("24680"));
    child.kill().unwrap();
    child.wait().unwrap();
    eventually(|| !status().contains("24680"));
    assert_eq!(lives.state("box"), "active");
}

#[test]
fn a_program_whose_sandbox_is_stopped_says_so() {
    let lives = Lives::with("box", &["--network", "none"]);
    let script = "echo ready; while :; do sleep 0.05; done";
    let child = started(&lives, &["exec", "box", "--", "sh", "-c", script]);
    lives.cofferdam(&["stop", "-t", "0", "box"]).expect_code(0);
    let done = finish(child).expect_code(1);
    assert_eq!(
        done.stderr,
        "error: sandbox `box` is stopped\nhint: start it with `cofferdam start box`\n"
    );
}

#[test]
fn programs_start_while_work_is_collected() {
    let lives = Lives::with("box", &["--network", "none"]);
    let commit = "for i in $(seq 20); do echo $i > f; git add f; git commit -qm $i; done";
    lives.exec("box", commit).expect_code(0);
    let collecting = |name: &str| {
        lives
            .command(&["collect", name])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    // Several at once wait for each other, and hold no program up for good.
    let all = ["box", "box", "box"].map(collecting);
    for _ in 0..5 {
        lives.exec("box", "true").expect_code(0);
    }
    for one in all {
        finish(one).expect_code(0);
    }
    let log = lives.cofferdam(&["log", "box"]).expect_code(0);
    assert_eq!(log.stdout.lines().count(), 20, "{log}");
}

#[test]
fn one_whose_repository_is_gone_is_given_up_by_force() {
    let lives = Lives::new();
    let gone = lives.temporary().join("gone");
    let gone = gone.to_str().unwrap();
    lives.git(&["clone", "-q", ".", gone]);
    lives
        .cofferdam(&["-C", gone, "create", "box"])
        .expect_code(0);
    lives
        .cofferdam(&[
            "-C", gone, "exec", "--detach", "box", "--", "sleep", "86420",
        ])
        .expect_code(0);
    std::fs::remove_dir_all(gone).unwrap();
    let found = lives.all();
    assert_eq!(found[0]["orphaned"], true, "{found:?}");
    let id = found[0]["id"].as_str().unwrap();
    let done = lives.cofferdam(&["delete", id]).expect_code(1);
    let hint = format!("`cofferdam delete --force {id}`");
    assert!(done.stderr.contains(&hint), "{done}");
    let runs = || lives.shell("pgrep -f 'sleep [8]6420'").stdout;
    assert_ne!(runs(), "");
    lives.cofferdam(&["delete", "--force", id]).expect_code(0);
    assert_eq!(runs(), "");
    assert!(lives.all().is_empty());
    lives.expect_clean();
}

#[test]
fn two_that_delete_it_leave_nothing_and_one_is_told() {
    let lives = Lives::with("box", &["--network", "none"]);
    let deleting = [(); 2].map(|()| {
        lives
            .command(&["delete", "box"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    });
    let mut done = deleting.map(finish);
    done.sort_by_key(|done| done.status.code());
    let [won, told] = done;
    assert_eq!(won.expect_code(0).stderr, "deleted box\n");
    // That it is being ended, has ended, or is no more.
    let told = told.expect_code(1);
    assert!(told.stdout.is_empty(), "{told}");
    assert!(told.stderr.starts_with("error: "), "{told}");
    assert!(told.stderr.contains("`box`"), "{told}");
    lives.expect_clean();
}

#[test]
fn a_merge_that_was_cut_short_is_told_and_finished_while_the_sandbox_lives_on() {
    let lives = Lives::with("one", &["--network", "none"]);
    lives
        .exec(
            "one",
            "echo new >new; git rm -q README.md; git add new; git commit -qm work",
        )
        .expect_code(0);
    lives.cofferdam(&["collect", "one"]).expect_code(0);
    let id = lives.listed("one").unwrap()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let top = lives.repository().canonicalize().unwrap();
    let git_dir = top.join(".git");
    let (old, new) = (
        lives.git(&["rev-parse", "main"]),
        lives.git(&["rev-parse", "cofferdam/one"]),
    );
    let bytes = |path: &std::path::Path| path.as_os_str().as_encoded_bytes().to_vec();
    let journal = serde_json::json!({
        "version": 1, "id": id, "files": "update", "reference": "refs/heads/main",
        "old": old, "new": new, "git_dir": bytes(&git_dir), "top": bytes(&top),
    });
    // The branch has moved, and its command is dead: index and files are the old commit's.
    let state = lives.home().join(".cofferdam/state").join(&id);
    cofferdam::fsx::write_private(&state.join("landing.json"), journal.to_string().as_bytes())
        .unwrap();
    lives.write(".git/refs/heads/main", &format!("{new}\n"));
    let listed = lives.cofferdam(&["list"]).expect_code(0);
    assert!(
        listed.stderr.contains("its merge was cut short"),
        "{listed}"
    );
    lives.cofferdam(&["gc"]).expect_code(0);
    assert_eq!(lives.git(&["status", "--porcelain"]), "");
    assert_eq!(lives.read("new"), "new\n");
    let listed = lives.cofferdam(&["list"]).expect_code(0);
    assert!(!listed.stderr.contains("cut short"), "{listed}");
    lives.exec("one", "true").expect_code(0);
    lives.cofferdam(&["delete", "one"]).expect_code(0);
}
