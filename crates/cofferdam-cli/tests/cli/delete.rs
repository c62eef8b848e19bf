use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::environment::{TestEnvironment, commit_script, finish};
use crate::lives::Lives;

// covers: S4-UJ5 S4-FR3.1 S4-FR3.2 S4-AC3.1 S4-AC3.2
#[test]
fn the_tip_can_be_brought_back() {
    let environment = TestEnvironment::with_repository();
    environment
        .run(
            &["--branch", "feature", "--name", "one"],
            &commit_script(&["a"]),
        )
        .expect_code(0);
    let tip = environment.git(&["rev-parse", "feature"]);
    let done = environment.cofferdam(&["delete", "one"]).expect_code(0);
    assert!(done.stderr.starts_with("deleted one\n"), "{done}");
    assert!(done.stderr.contains("refs/cofferdam/trash/one"), "{done}");
    assert_eq!(
        environment.git(&["rev-parse", "refs/cofferdam/trash/one"]),
        tip
    );
    assert_eq!(environment.git(&["branch", "--list", "feature"]), "");
    assert_eq!(
        environment
            .cofferdam(&["list", "--json"])
            .expect_code(0)
            .stdout,
        "[]\n"
    );
    environment.expect_clean();
}

// covers: S4-FR3.3 S4-AC3.3
#[test]
fn purge_keeps_nothing() {
    let environment = TestEnvironment::with_repository();
    let before = environment.references();
    environment
        .run(
            &["--branch", "feature", "--name", "one"],
            &commit_script(&["a"]),
        )
        .expect_code(0);
    let refused = environment
        .cofferdam(&["delete", "one", "--purge"])
        .expect_code(1);
    assert_eq!(
        refused.stderr,
        "error: 1 commit of sandbox `one` is on no other branch, and `--purge` keeps no way back\n\
         hint: see them with `cofferdam log one`, take them with `cofferdam merge one`; when nothing of them is needed: \
         `cofferdam delete --force --purge one`\n"
    );
    environment
        .cofferdam(&["delete", "--force", "--purge", "one"])
        .expect_code(0);
    assert_eq!(environment.references(), before);
    environment.expect_clean();
}

/// Nor does it ask where everything is elsewhere. A sandbox that stays goes on where it is not.
#[test]
fn purge_asks_before_commits_go_that_are_nowhere_else() {
    let lives = Lives::with("box", &["--network", "none"]);
    lives
        .exec("box", &commit_script(&["one", "two"]))
        .expect_code(0);
    let purge = ["delete", "--purge", "box"];
    let refused = lives.cofferdam(&purge).expect_code(1);
    assert!(
        refused
            .stderr
            .contains("error: 2 commits of sandbox `box` are on no other branch, and "),
        "{refused}"
    );
    assert_eq!(lives.state("box"), "active");
    lives.exec("box", "true").expect_code(0);
    // Of what was taken, what came later is alone there.
    lives.cofferdam(&["merge", "box"]).expect_code(0);
    lives.exec("box", &commit_script(&["three"])).expect_code(0);
    let refused = lives.cofferdam(&purge).expect_code(1);
    assert!(
        refused.stderr.contains("error: 1 commit of sandbox `box` "),
        "{refused}"
    );
    lives.cofferdam(&["merge", "box"]).expect_code(0);
    lives.cofferdam(&purge).expect_code(0);
    assert_eq!(lives.git(&["for-each-ref", "refs/cofferdam"]), "");
    lives.expect_clean();
}

#[test]
fn uncommitted_work_is_not_deleted_without_force() {
    let environment = TestEnvironment::with_repository();
    environment
        .run(
            &["--branch", "feature", "--name", "one"],
            "echo draft > draft.txt",
        )
        .expect_code(0);
    let done = environment.cofferdam(&["delete", "one"]).expect_code(1);
    assert!(done.stderr.contains("uncommitted changes"), "{done}");
    // The hint, word by word.
    let hint = ["delete", "--force", "one"];
    let words = format!("`cofferdam {}`", hint.join(" "));
    assert!(done.stderr.contains(&words), "{done}");
    environment.cofferdam(&hint).expect_code(0);
    environment.expect_clean();
}

// covers: S4-E13
#[test]
fn an_unknown_name_is_said_to_be_unknown() {
    let environment = TestEnvironment::with_repository();
    let done = environment.cofferdam(&["delete", "nobody"]).expect_code(1);
    let words = "error: Sandbox 'nobody' not found.\nhint: ";
    assert!(done.stderr.starts_with(words), "{done}");
    // And nothing else that was named is deleted.
    environment
        .run(
            &["--branch", "feature", "--name", "one"],
            &commit_script(&["a"]),
        )
        .expect_code(0);
    environment
        .cofferdam(&["delete", "one", "nobody"])
        .expect_code(1);
    assert!(environment.cofferdam(&["list"]).stdout.contains("one"));
}

// covers: S4-E14
#[test]
fn one_that_somebody_works_in_is_refused_and_forced() {
    let lives = Lives::with("box", &["--network", "none"]);
    let works = |arguments: &[&str]| {
        lives
            .command(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let until = Instant::now() + Duration::from_secs(30);
    let wait_for = |file: &str| {
        while lives.exec("box", &format!("ls {file}")).status.code() != Some(0) {
            assert!(Instant::now() < until, "it never started");
        }
    };
    let exec = works(&["exec", "box", "--", "sh", "-c", "touch one; sleep 1000"]);
    wait_for("one");
    let refused = || {
        let done = lives.cofferdam(&["delete", "box"]).expect_code(1);
        assert!(
            done.stderr
                .contains("sandbox `box` is in use: `sh -c touch "),
            "{done}"
        );
        assert!(
            done.stderr.contains("`cofferdam delete --force box`"),
            "{done}"
        );
        assert_eq!(lives.state("box"), "active");
    };
    refused();
    lives
        .exec("box", "kill $(pgrep -x sleep); rm one")
        .expect_code(0);
    finish(exec);
    let run = works(&[
        "run",
        "--in",
        "box",
        "--",
        "sh",
        "-c",
        "touch two; sleep 1000",
    ]);
    wait_for("two");
    refused();
    lives
        .cofferdam(&["delete", "--force", "box"])
        .expect_code(0);
    let done = finish(run);
    assert_ne!(done.status.code(), Some(0), "{done}");
    lives.expect_clean();
}

// covers: S4-E14
#[test]
fn one_in_use_is_refused_and_forced() {
    let environment = TestEnvironment::with_repository();
    let script = "git commit -qm one --allow-empty; sleep 1000";
    let run = [
        "run", "--branch", "feature", "--name", "busy", "--", "sh", "-c", script,
    ];
    let running = environment
        .command(&run)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let log = environment
        .repository()
        .join(".cofferdam/logs/feature-busy.log");
    let began = Instant::now();
    while !std::fs::read_to_string(&log).is_ok_and(|text| text.contains("iteration 1/1")) {
        assert!(
            began.elapsed() < Duration::from_secs(30),
            "it never started"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
    let done = environment.cofferdam(&["delete", "busy"]).expect_code(1);
    assert!(done.stderr.contains("is running"), "{done}");
    environment
        .cofferdam(&["delete", "busy", "--force"])
        .expect_code(0);
    finish(running).expect_code(143);
    assert_eq!(
        environment
            .cofferdam(&["list", "--json"])
            .expect_code(0)
            .stdout,
        "[]\n"
    );
    environment.expect_clean();
}

/// A branch with two sandboxes goes with the last of them, and each is told of.
#[test]
fn a_branch_that_another_sandbox_is_on_stays() {
    let environment = TestEnvironment::with_repository();
    for name in ["one", "two"] {
        environment
            .run(
                &["--branch", "feature", "--name", name],
                &commit_script(&[name]),
            )
            .expect_code(0);
    }
    let tip = environment.git(&["rev-parse", "feature"]);
    let done = environment.cofferdam(&["delete", "one"]).expect_code(0);
    assert_eq!(
        done.stderr,
        "deleted one\nbranch feature stays: sandbox two is on it too\n"
    );
    assert_eq!(environment.git(&["rev-parse", "feature"]), tip);
    let done = environment.cofferdam(&["log", "two"]).expect_code(0);
    assert!(done.stdout.contains(" two\n"), "{done}");
    // It was the first one's, and is the second one's now.
    let done = environment.cofferdam(&["delete", "two"]).expect_code(0);
    assert!(done.stderr.contains("refs/cofferdam/trash/two"), "{done}");
    assert_eq!(environment.git(&["branch", "--list", "feature"]), "");
    environment.expect_clean();
}

/// Not with everything else of it either.
#[test]
fn purge_leaves_a_branch_that_another_sandbox_is_on() {
    let environment = TestEnvironment::with_repository();
    for name in ["one", "two"] {
        environment
            .run(
                &["--branch", "feature", "--name", name],
                &commit_script(&[name]),
            )
            .expect_code(0);
    }
    let tip = environment.git(&["rev-parse", "feature"]);
    environment
        .cofferdam(&["delete", "one", "--purge"])
        .expect_code(0);
    assert_eq!(environment.git(&["rev-parse", "feature"]), tip);
}

/// The same where `gc` clears the sandbox for which the branch was made.
#[test]
fn gc_leaves_a_branch_that_another_sandbox_is_on() {
    let environment = TestEnvironment::with_repository();
    // It stays after its run, because its merge was in the way of the user's work.
    environment.write("README.md", "mine\n");
    let script = "echo theirs > README.md; git commit -qam theirs";
    environment
        .run(&["--merge-to-head", "--name", "one"], script)
        .expect_code(1);
    environment.git(&["checkout", "--quiet", "README.md"]);
    environment.cofferdam(&["merge", "one"]).expect_code(0);
    environment
        .run(
            &["--branch", "cofferdam/one", "--name", "two"],
            &commit_script(&["two"]),
        )
        .expect_code(0);
    environment.git(&["merge", "--quiet", "cofferdam/one"]);
    let tip = environment.git(&["rev-parse", "cofferdam/one"]);
    let done = environment.cofferdam(&["gc"]).expect_code(0);
    assert!(done.stdout.contains("removed: sandbox one,"), "{done}");
    // The second is of a branch that was there before it, and that stays.
    assert!(done.stdout.contains("removed: sandbox two,"), "{done}");
    assert_eq!(environment.git(&["rev-parse", "cofferdam/one"]), tip);
}

/// Who deletes the branch by hand is told how to have it again, and how to let go of the rest.
#[test]
fn a_missing_branch_is_brought_back_as_the_hint_says() {
    let environment = TestEnvironment::with_repository();
    environment
        .run(
            &["--branch", "feature", "--name", "one"],
            &commit_script(&["a"]),
        )
        .expect_code(0);
    let tip = environment.git(&["rev-parse", "feature"]);
    environment.git(&["branch", "--quiet", "-D", "feature"]);
    for command in ["log", "diff", "merge"] {
        let done = environment.cofferdam(&[command, "one"]).expect_code(1);
        let said = "error: branch `feature` of sandbox `one` does not exist any more\n\
                    hint: bring it back with `";
        assert!(done.stderr.starts_with(said), "{done}");
        assert!(done.stderr.contains("`cofferdam delete one`"), "{done}");
    }
    let done = environment.cofferdam(&["log", "one"]).expect_code(1);
    let line = done.stderr.split('`').nth(5).unwrap();
    environment.shell(line).expect_code(0);
    assert_eq!(environment.git(&["rev-parse", "feature"]), tip);
    environment.cofferdam(&["log", "one"]).expect_code(0);
    environment.git(&["branch", "--quiet", "-D", "feature"]);
    environment.cofferdam(&["delete", "one"]).expect_code(0);
    environment.expect_clean();
}

/// What stands in the way of a branch is named with what is left, nothing is lost, and the same command finishes it later.
// covers: S4-E15
#[test]
fn one_whose_branch_cannot_go_is_deleted_when_it_can() {
    let way = |lives: &Lives, in_the_way: &str| match in_the_way {
        "a lock" => lives
            .repository()
            .join(".git/refs/heads/cofferdam/one.lock"),
        _ => lives.temporary().join("theirs"),
    };
    for (in_the_way, collected) in [("a lock", true), ("a lock", false), ("a worktree", true)] {
        for options in [&[][..], &["--force"], &["--force", "--purge"]] {
            let what = format!("{in_the_way} {collected} {options:?}");
            let lives = Lives::with("one", &["--network", "none"]);
            lives.exec("one", &commit_script(&["work"])).expect_code(0);
            if collected {
                lives.cofferdam(&["collect", "one"]).expect_code(0);
            }
            let way = way(&lives, in_the_way);
            let place = way.to_str().unwrap();
            if in_the_way == "a lock" {
                cofferdam::fsx::write_private(&way, b"").unwrap();
            } else {
                // In a mode with a worktree of the sandbox's own, it is there twice.
                lives.git(&["worktree", "add", "--force", "-q", place, "cofferdam/one"]);
                cofferdam::fsx::write_private(&way.join("draft"), b"theirs\n").unwrap();
            }
            let delete = [&["delete", "one"], options].concat();
            for _ in 0..2 {
                let refused = lives.cofferdam(&delete).expect_code(1);
                for told in [
                    "error: sandbox `one` has ended, and its branch `cofferdam/one` is left: ",
                    place,
                    "hint: when nothing is in its way any more, `cofferdam delete one` deletes it\n",
                ] {
                    assert!(refused.stderr.contains(told), "{what}: {told}: {refused}");
                }
                if in_the_way != "a lock" {
                    let switch = format!("`git -C {place} switch NAME`");
                    assert!(refused.stderr.contains(&switch), "{what}: {refused}");
                }
                assert_eq!(lives.state("one"), "stopped", "{what}");
                let there = lives.git(&["log", "--all", "--format=%s"]);
                assert!(there.lines().any(|line| line == "work"), "{what}: {there}");
                lives.git(&["fsck", "--strict"]);
            }
            if in_the_way == "a lock" {
                cofferdam::fsx::remove_file_if_exists(&way).unwrap();
            } else {
                let draft = std::fs::read_to_string(way.join("draft")).unwrap();
                assert_eq!(draft, "theirs\n", "{what}");
                lives.git(&["-C", place, "switch", "-q", "-c", "theirs"]);
            }
            lives.cofferdam(&delete).expect_code(0);
            assert!(lives.listed("one").is_none(), "{what}");
            let branches = lives.git(&["branch", "--list", "cofferdam/*"]);
            assert_eq!(branches, "", "{what}");
            let kept = lives.git(&["log", "--all", "--format=%s"]);
            let is_kept = kept.lines().any(|line| line == "work");
            let somewhere = in_the_way != "a lock" || !options.contains(&"--purge");
            assert_eq!(is_kept, somewhere, "{what}: {kept}");
            if in_the_way != "a lock" {
                lives.git(&["worktree", "remove", "--force", place]);
            }
            lives.expect_clean();
        }
    }
}
