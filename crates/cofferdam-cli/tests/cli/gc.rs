use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::environment::{TestEnvironment, check, finish};

#[test]
fn nothing_to_do() {
    let environment = TestEnvironment::with_repository();
    let done = environment.cofferdam(&["gc"]);
    check!(environment, done, @"
    code: 0
    --- stdout
    nothing to clean up
    --- stderr
    ");
    let done = environment.cofferdam(&["gc", "--json"]).expect_code(0);
    let report: serde_json::Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!(report["recovered"], serde_json::json!([]));
}

#[test]
fn a_killed_run_is_shown_and_its_commits_come_home() {
    let environment = TestEnvironment::with_repository();
    let script = "echo a > a.txt; git add a.txt; git commit -qm a; echo committed; sleep 600";
    let mut child = environment
        .command(&[
            "run", "--branch", "feature", "--name", "one", "--", "sh", "-c", script,
        ])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for(child.stderr.take().unwrap(), "committed");
    child.kill().unwrap();
    finish(child);

    let done = environment.cofferdam(&["list"]).expect_code(0);
    assert!(done.stdout.contains("(interrupted)"), "{done}");
    assert!(done.stderr.contains("cofferdam gc"), "{done}");
    let before = environment.references();
    let done = environment.cofferdam(&["gc", "--dry-run"]).expect_code(0);
    assert_eq!(done.stdout, "would be recovered: one, on feature\n");
    assert_eq!(environment.references(), before);
    let elsewhere = ["-C", "../tmp", "gc", "--dry-run"];
    let done = environment.cofferdam(&elsewhere).expect_code(0);
    let top = environment.repository();
    let place = format!("one, on feature in {}\n", top.display());
    assert!(done.stdout.ends_with(&place), "{done}");
    let done = environment.cofferdam(&["gc"]).expect_code(0);
    assert!(
        done.stdout.contains("recovered: one, 1 commit on feature"),
        "{done}"
    );
    assert_eq!(environment.git(&["show", "feature:a.txt"]), "a");
    let done = environment.cofferdam(&["list"]).expect_code(0);
    assert!(!done.stdout.contains("interrupted"), "{done}");
}

/// Reads lines until one contains `word`.
#[track_caller]
pub(crate) fn wait_for(stream: impl std::io::Read, word: &str) {
    use std::io::BufRead;
    let start = Instant::now();
    let mut seen = String::new();
    for line in std::io::BufReader::new(stream).lines() {
        let line = line.unwrap();
        if line.contains(word) {
            return;
        }
        seen.push_str(&line);
        seen.push('\n');
        assert!(start.elapsed() < Duration::from_mins(1), "{seen}");
    }
    panic!("`{word}` was never said:\n{seen}");
}
