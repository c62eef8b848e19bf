//! Agents in sandboxes that stay.

use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::environment::{check, commit_script, finish};
use crate::lives::Lives;

// covers: S2-22
#[test]
fn an_agent_works_in_it_as_often_as_wanted() {
    let lives = Lives::with("box", &["--network", "none"]);
    let work = |name: &str| {
        let script = format!("{} echo $$ > ~/here", commit_script(&[name]));
        lives.run(&["--in", "box"], &script).expect_code(0)
    };
    let done = work("a");
    let words = "landed: 1 commit on cofferdam/box, which is now at ";
    assert!(done.stdout.contains(words), "{done}");
    assert!(
        done.stdout.contains("\nnext: cofferdam merge box\n"),
        "{done}"
    );
    assert!(
        done.stderr.ends_with("box goes on: cofferdam shell box\n"),
        "{done}"
    );
    assert!(!done.stderr.contains("the default"), "{done}");
    let done = work("b");
    assert!(done.stdout.contains(words), "{done}");
    lives.exec("box", "cat a.txt b.txt ~/here").expect_code(0);
    lives.cofferdam(&["merge", "box"]).expect_code(0);
    assert_eq!(
        (lives.read("a.txt"), lives.read("b.txt")),
        ("a\n".into(), "b\n".into())
    );
    // One that fails leaves it as it is.
    let done = lives.run(&["--in", "box"], "exit 3").expect_code(1);
    assert!(
        done.stderr.contains("box goes on: cofferdam shell box\n"),
        "{done}"
    );
    assert_eq!(lives.state("box"), "active");
    let log = lives.cofferdam(&["log", "box"]).expect_code(0);
    assert_eq!(log.stdout.lines().count(), 2, "{log}");
}

#[test]
fn a_run_may_leave_its_sandbox_alive() {
    for options in [
        &[][..],
        &["--branch", "b", "--mode", "bind"],
        &["--mode", "copy"],
        &["--merge-to-head", "--mode", "bind"],
    ] {
        let lives = Lives::new();
        let options = [options, &["--keep", "--name", "kept", "--network", "none"]].concat();
        lives.write("mine", "in no commit\n");
        let done = lives
            .run(
                &options,
                &format!("{} echo kept > ~/note", commit_script(&["a"])),
            )
            .expect_code(0);
        assert!(!done.stderr.contains("as it was made"), "{done}");
        let outside = "1 uncommitted change of this checkout";
        assert!(done.stderr.contains(outside), "{done}");
        std::fs::remove_file(lives.repository().join("mine")).unwrap();
        assert_eq!(lives.state("kept"), "active");
        let note = lives.exec("kept", "cat ~/note").expect_code(0);
        assert_eq!(note.stdout, "kept\n");
        lives.cofferdam(&["merge", "kept"]).expect_code(0);
        assert_eq!(lives.read("a.txt"), "a\n", "{options:?}");
        lives.cofferdam(&["delete", "kept"]).expect_code(0);
        lives.expect_clean();
    }
}

#[test]
fn what_does_not_go_together_is_refused() {
    let lives = Lives::with("box", &["--network", "none"]);
    for option in [
        &["--branch", "b"][..],
        &["--network", "none"],
        &["--env", "A=1"],
        &["--on-sandbox-ready", "true"],
        &["--name", "x"],
        &["--keep"],
    ] {
        let done = lives.run(&[&["--in", "box"], option].concat(), "true");
        assert_eq!(done.status.code(), Some(2), "{done}");
        assert!(done.stderr.contains("cannot be used with"), "{done}");
    }
    // The one that was given, of all that could not be.
    let done = lives.run(&["--in", "box", "--env=A=1"], "true");
    let said = "error: the argument '--in <SANDBOX>' cannot be used with '--env <KEY[=VALUE]>'\n";
    assert!(done.stderr.starts_with(said), "{done}");
    let done = lives.run(&["--in", "box", "--pids", "9", "--env", "A"], "--cpus");
    let said = "cannot be used with:\n  --env <KEY[=VALUE]>\n  --pids <NUMBER>\n\n";
    assert!(done.stderr.contains(said), "{done}");
    // What a sandbox may have was said when it was made.
    let keyless = ["run", "--in", "box", "--agent", "codex", "--prompt", "hi"];
    let done = lives.cofferdam(&keyless).expect_code(1);
    let said = "`.cofferdam/.env`, or make a sandbox that has it: `cofferdam create NAME --env OPENAI_API_KEY=VALUE`";
    assert!(done.stderr.contains(said), "{done}");
    lives.write(".cofferdam/.env", "OPENAI_API_KEY=secret\n");
    let done = lives.cofferdam(&keyless).expect_code(1);
    assert!(!done.stderr.contains("OPENAI_API_KEY"), "{done}");
    lives.cofferdam(&["pause", "box"]).expect_code(0);
    let done = lives.run(&["--in", "box"], "true").expect_code(1);
    assert!(done.stderr.contains("`cofferdam resume box`"), "{done}");
    lives.cofferdam(&["stop", "box"]).expect_code(0);
    let done = lives.run(&["--in", "box"], "true").expect_code(1);
    assert!(done.stderr.contains("`cofferdam start box`"), "{done}");
}

#[test]
fn what_a_stopped_agent_committed_comes_home() {
    let lives = Lives::with("box", &["--network", "none"]);
    let script = format!("{}touch waits; sleep 600", commit_script(&["a"]));
    let running = lives
        .command(&["run", "--in", "box", "--", "sh", "-c", &script])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let until = Instant::now() + Duration::from_secs(30);
    while lives.exec("box", "ls waits").status.code() != Some(0) {
        assert!(Instant::now() < until, "the agent never waited");
    }
    kill_process(Pid::from_child(&running), Signal::INT).unwrap();
    let done = finish(running).expect_code(130);
    assert!(
        done.stderr.contains("landed: 1 commit on cofferdam/box"),
        "{done}"
    );
    assert!(
        done.stderr.contains("next: cofferdam merge box\n"),
        "{done}"
    );
    assert!(!done.stderr.contains("cofferdam gc"), "{done}");
    assert_eq!(
        lives.git(&["show", "-s", "--format=%s", "cofferdam/box"]),
        "a"
    );
    assert_eq!(lives.state("box"), "active");
}

#[test]
fn one_agent_at_a_time_works_in_it() {
    let lives = Lives::with("box", &["--network", "none"]);
    let script = "touch ~/waits; while [ ! -e ~/go ]; do sleep 0.05; done";
    let start = || {
        lives.exec("box", "rm -f ~/waits ~/go").expect_code(0);
        let running = lives
            .command(&["run", "--in", "box", "--", "sh", "-c", script])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let until = Instant::now() + Duration::from_secs(30);
        while lives.exec("box", "ls ~/waits").status.code() != Some(0) {
            assert!(Instant::now() < until, "the agent never waited");
        }
        running
    };
    let first = start();
    let second = lives.run(&["--in", "box"], "touch ~/second");
    check!(lives, second, @"
    code: 1
    --- stdout
    --- stderr
    error: an agent is at work in sandbox `box` already
    hint: see what it does with `cofferdam logs box run --follow`, and wait for its end; or make another sandbox for the other one: `cofferdam create NAME`
    ");
    lives
        .exec("box", "! ls ~/second; touch ~/go")
        .expect_code(0);
    finish(first).expect_code(0);
    lives.run(&["--in", "box"], "touch ~/second").expect_code(0);
    // One that is killed holds nobody up.
    let mut killed = start();
    killed.kill().unwrap();
    killed.wait().unwrap();
    lives.run(&["--in", "box"], "touch ~/third").expect_code(0);
    lives.exec("box", "ls ~/second ~/third").expect_code(0);
}

#[test]
fn logs_has_what_agents_printed() {
    let lives = Lives::with("box", &["--network", "none"]);
    let done = lives.cofferdam(&["logs", "box"]).expect_code(1);
    assert!(done.stderr.contains("no agent worked there"), "{done}");
    lives
        .run(&["--in", "box"], "echo said-by-an-agent")
        .expect_code(0);
    let done = lives.cofferdam(&["logs", "box"]).expect_code(0);
    assert!(done.stdout.contains("said-by-an-agent"), "{done}");
    // The newest of both, unless one is named.
    let id = lives.cofferdam(&["exec", "--detach", "box", "--", "echo", "by-a-program"]);
    let id = id.expect_code(0).stdout;
    lives
        .cofferdam(&["logs", "box", id.trim(), "--follow"])
        .expect_code(0);
    let done = lives.cofferdam(&["logs", "box"]).expect_code(0);
    assert_eq!(done.stdout, "by-a-program\n");
    let done = lives
        .cofferdam(&["logs", "box", "run", "--follow"])
        .expect_code(0);
    assert!(done.stdout.contains("said-by-an-agent"), "{done}");
    let list = lives.cofferdam(&["logs", "box", "--list"]).expect_code(0);
    assert!(list.stdout.contains("\nrun "), "{list}");
    assert!(list.stdout.contains(id.trim()), "{list}");
    lives.cofferdam(&["stop", "box"]).expect_code(0);
    let done = lives.cofferdam(&["logs", "box", "run"]).expect_code(0);
    assert!(done.stdout.contains("said-by-an-agent"), "{done}");
}

/// A worktree is there before its runs, between them and after them, for a person too, and outlives the sandbox that had it.
// covers: S2-22
#[test]
fn a_worktree_outlives_its_runs_and_its_sandbox() {
    let lives = Lives::with(
        "box",
        &["--network", "none", "--mode", "bind", "--branch", "b"],
    );
    let worktree = lives.repository().join(".cofferdam/worktrees/b");
    let work = |name: &str| {
        let script = commit_script(&[name]) + "cat left; echo agent > left";
        lives.run(&["--in", "box"], &script)
    };
    lives.write(".cofferdam/worktrees/b/left", "person\n");
    let done = work("one").expect_code(0);
    assert!(done.stderr.contains("person"), "{done}");
    lives.cofferdam(&["stop", "box"]).expect_code(0);
    assert_eq!(
        std::fs::read_to_string(worktree.join("left")).unwrap(),
        "agent\n"
    );
    lives.write(".cofferdam/worktrees/b/left", "person again\n");
    lives.cofferdam(&["start", "box"]).expect_code(0);
    let done = work("two").expect_code(0);
    assert!(done.stderr.contains("person again"), "{done}");
    let subjects = lives.git(&["log", "-2", "--format=%s", "b"]);
    assert_eq!(subjects, "two\none");
    lives.cofferdam(&["delete", "box"]).expect_code(1);
    assert!(worktree.join("left").exists());
    lives
        .cofferdam(&["delete", "--force", "box"])
        .expect_code(0);
    assert!(lives.all().is_empty());
}
