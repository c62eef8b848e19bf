//! What is lost with a sandbox that stays, and what is said of work that is not where its user looks for it.

use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::environment::{commit_script, finish};
use crate::lives::Lives;

const NONE: [&str; 2] = ["--network", "none"];

/// Its user deleted the branch while the sandbox had what was on it: what goes with the sandbox is in the trash.
#[test]
fn what_was_on_a_branch_that_somebody_deleted_is_in_the_trash() {
    let lives = Lives::with("box", &NONE);
    lives.exec("box", &commit_script(&["one"])).expect_code(0);
    lives.cofferdam(&["collect", "box"]).expect_code(0);
    let tip = lives.git(&["rev-parse", "cofferdam/box"]);
    lives.git(&["branch", "-q", "-D", "cofferdam/box"]);
    for command in ["log", "diff", "merge"] {
        let told = lives.cofferdam(&[command, "box"]).expect_code(1);
        let back = format!("git branch cofferdam/box {}", &tip[..10]);
        assert!(
            told.stderr.contains("does not exist any more") && told.stderr.contains(&back),
            "{told}"
        );
    }
    let deleted = lives.cofferdam(&["delete", "box"]).expect_code(0);
    assert!(
        (deleted.stdout.clone() + &deleted.stderr).contains("refs/cofferdam/trash/box"),
        "{deleted}"
    );
    assert_eq!(lives.git(&["rev-parse", "refs/cofferdam/trash/box"]), tip);
}

/// So is what a run has brought home on one, when `gc` forgets its sandbox.
#[test]
fn what_a_run_left_on_a_branch_that_somebody_deleted_is_in_the_trash() {
    let lives = Lives::new();
    let options = ["--branch", "work", "--name", "box", "--network", "none"];
    lives.run(&options, &commit_script(&["one"])).expect_code(0);
    let tip = lives.git(&["rev-parse", "work"]);
    lives.git(&["branch", "-q", "-D", "work"]);
    let cleared = lives.cofferdam(&["gc"]).expect_code(0);
    let told = cleared.stdout.clone() + &cleared.stderr;
    assert!(told.contains("refs/cofferdam/trash/box"), "{cleared}");
    assert_eq!(lives.listed("box"), None);
    assert_eq!(lives.git(&["rev-parse", "refs/cofferdam/trash/box"]), tip);
}

/// What somebody merged, and deleted the branch of, is nowhere else.
#[test]
fn what_is_on_another_branch_is_not_in_the_trash() {
    for purged in [false, true] {
        let lives = Lives::with("box", &NONE);
        lives.exec("box", &commit_script(&["one"])).expect_code(0);
        lives.cofferdam(&["collect", "box"]).expect_code(0);
        if !purged {
            lives.git(&["merge", "-q", "cofferdam/box"]);
        }
        lives.git(&["branch", "-q", "-D", "cofferdam/box"]);
        let purge: &[&str] = if purged { &["--purge"] } else { &[] };
        let words = [&["delete"], purge, &["box"]].concat();
        lives.cofferdam(&words).expect_code(0);
        let trash = lives.git(&["for-each-ref", "refs/cofferdam"]);
        assert_eq!(trash, "", "{purged}");
    }
}

/// Commits that came through the gate, and no further because nobody waited, are not home.
#[test]
fn what_only_passed_the_gate_is_still_to_be_collected() {
    let lives = Lives::with("box", &NONE);
    lives.exec("box", &commit_script(&["one"])).expect_code(0);
    lives.cofferdam(&["collect", "box"]).expect_code(0);
    lives.exec("box", &commit_script(&["two"])).expect_code(0);
    let before = lives.git(&["rev-parse", "cofferdam/box"]);
    let own = lives.git(&[
        "for-each-ref",
        "--format=%(refname)",
        "refs/cofferdam/*/tip",
    ]);
    lives.cofferdam(&["collect", "box"]).expect_code(0);
    let after = lives.git(&["rev-parse", "cofferdam/box"]);
    assert_ne!(before, after);
    // As it is between the two: the branch and the record are where they were.
    lives.git(&["update-ref", "refs/heads/cofferdam/box", &before]);
    let record = lives.home().join(".cofferdam/state");
    let record = record.read_dir().unwrap().flatten().next().unwrap().path();
    let record = record.join("record.json");
    let text = std::fs::read_to_string(&record).unwrap();
    cofferdam::fsx::write_private(&record, text.replace(&after, &before).as_bytes()).unwrap();
    assert_eq!(lives.git(&["rev-parse", &own]), after);
    assert_eq!(lives.status("box", "uncollected"), true);
    lives.cofferdam(&["collect", "box"]).expect_code(0);
    assert_eq!(lives.git(&["rev-parse", "cofferdam/box"]), after);
    assert_eq!(lives.status("box", "uncollected"), false);
}

/// Who commits on its branch here is told what that means for the sandbox, with a command that mends it.
#[test]
fn a_branch_that_somebody_moved_has_another_name_before_the_sandbox_goes_on() {
    let lives = Lives::with("box", &NONE);
    lives.exec("box", &commit_script(&["one"])).expect_code(0);
    lives.cofferdam(&["collect", "box"]).expect_code(0);
    lives.git(&["checkout", "-q", "cofferdam/box"]);
    lives.git(&["commit", "-q", "--allow-empty", "-m", "mine"]);
    lives.git(&["checkout", "-q", "main"]);
    lives.exec("box", &commit_script(&["two"])).expect_code(0);
    let kept = lives.cofferdam(&["collect", "box"]).expect_code(1);
    let told = kept.stdout.clone() + &kept.stderr;
    let mends = "git branch -m";
    assert!(
        told.contains("was moved here") && told.contains(mends),
        "{kept}"
    );
    lives.git(&["branch", "-m", "cofferdam/box", "mine"]);
    lives.exec("box", &commit_script(&["three"])).expect_code(0);
    lives.cofferdam(&["collect", "box"]).expect_code(0);
    let subjects = lives.git(&["log", "--format=%s", "cofferdam/box"]);
    assert!(subjects.starts_with("three\ntwo\none\n"), "{subjects}");
    assert!(
        lives
            .git(&["log", "--format=%s", "mine"])
            .starts_with("mine\none\n")
    );
}

/// Its git is brought to what is checked out now, not to what was before the work came home.
#[test]
fn an_agent_in_the_checkout_goes_on_from_what_just_came_home() {
    let lives = Lives::with("box", &["--head", "--network", "none"]);
    lives.exec("box", &commit_script(&["one"])).expect_code(0);
    lives.cofferdam(&["collect", "box"]).expect_code(0);
    lives.exec("box", &commit_script(&["two"])).expect_code(0);
    let three = commit_script(&["three"]);
    let words = ["run", "--in", "box", "--", "sh", "-c", &three];
    lives.cofferdam(&words).expect_code(0);
    let subjects = lives.git(&["log", "--format=%s", "main"]);
    assert!(subjects.starts_with("three\ntwo\none\n"), "{subjects}");
    lives.cofferdam(&["delete", "box"]).expect_code(0);
    lives.expect_clean();
}

#[test]
fn a_run_in_it_tells_of_what_is_in_no_commit() {
    let lives = Lives::with("box", &NONE);
    let run = |script: &str| {
        let words = ["run", "--in", "box", "--", "sh", "-c", script];
        lives.cofferdam(&words).expect_code(0)
    };
    let left = run("echo left > left.txt");
    assert!(
        left.stderr.contains("cofferdam diff --uncommitted box"),
        "{left}"
    );
    let taken = run("git add -A; git commit -qm left");
    assert!(!taken.stderr.contains("--uncommitted"), "{taken}");
}

/// What a person was refused before is none of the agent's: nobody opens the wall for that.
#[test]
fn a_run_in_it_names_its_own_refusals() {
    let lives = Lives::with("box", &[]);
    let asks = |host: &str| format!("bash -c 'exec 3<>/dev/tcp/{host}.example.org/443'; true");
    lives.exec("box", &asks("before")).expect_code(0);
    let begun = Instant::now();
    let is_logged = || {
        let log = lives.cofferdam(&["net", "log", "box"]).expect_code(0);
        log.stdout.contains("before.example.org")
    };
    while !is_logged() {
        assert!(begun.elapsed() < Duration::from_secs(30), "it is in no log");
        std::thread::sleep(Duration::from_millis(50));
    }
    let words = ["run", "--in", "box", "--", "sh", "-c"];
    let ran = lives.cofferdam(&[&words[..], &[&asks("during")]].concat());
    let ran = ran.expect_code(0);
    let told = ran.stdout.clone() + &ran.stderr;
    assert!(
        told.contains("during.example.org") && !told.contains("before.example.org"),
        "{ran}"
    );
}

#[test]
fn ahead_is_of_what_is_checked_out_where_somebody_asks() {
    let lives = Lives::with("box", &NONE);
    lives.exec("box", &commit_script(&["one"])).expect_code(0);
    lives.cofferdam(&["collect", "box"]).expect_code(0);
    lives.git(&["worktree", "add", "-q", "../linked"]);
    let linked = lives.repository().join("../linked");
    let in_linked = |words: &[&str]| {
        let mut command = lives.command(words);
        command.current_dir(&linked);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        finish(command.spawn().unwrap()).expect_code(0)
    };
    let ahead = |done: &crate::environment::Done| {
        let told: serde_json::Value = serde_json::from_str(&done.stdout).unwrap();
        told.as_array().unwrap()[0]["ahead"].as_u64().unwrap()
    };
    assert_eq!(ahead(&in_linked(&["list", "--json"])), 1);
    in_linked(&["merge", "box"]);
    assert_eq!(ahead(&in_linked(&["list", "--json"])), 0);
    // Not in the one that it was made from.
    assert_eq!(ahead(&lives.cofferdam(&["list", "--json"])), 1);
    lives.git(&["worktree", "remove", "--force", "../linked"]);
}
