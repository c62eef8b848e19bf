//! Sandboxes that stay: made, paused, stopped, started, collected, merged and deleted.

use std::time::{Duration, Instant};

use crate::environment::{check, commit_script};
use crate::lives::Lives;

#[test]
fn create_says_what_it_made_and_where_to_go_on() {
    let lives = Lives::new();
    let done = lives.cofferdam(&["create", "Fix 17", "--network", "none"]);
    check!(lives, done, @"
    code: 0
    --- stdout
    created: fix-17 on cofferdam/fix-17, mode layer, network none
    next: cofferdam shell fix-17
    --- stderr
    note: the sandbox is called `fix-17`: a name has only a-z, 0-9 and `-`, and other commands take `Fix 17` for it too
    ");
    let done = lives.create(
        "copy",
        &["--mode", "copy", "--branch", "feature/a", "--json"],
    );
    let made: serde_json::Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!(made["name"], "copy");
    assert_eq!(made["branch"], "feature/a");
    assert_eq!(made["mode"], "copy");
    assert_eq!(made["network"], "allowlist");
    assert_eq!(made["base"], lives.git(&["rev-parse", "main"]));
    assert_eq!(lives.state("fix-17"), "active");
}

// covers: S4-E1, S4-E2, S4-FR1.8
#[test]
fn create_refuses_what_cannot_be() {
    let lives = Lives::with("box", &["--mode", "bind", "--network", "none"]);
    let before = lives.references();
    let done = lives.cofferdam(&["create", "box"]);
    check!(lives, done, @"
    code: 1
    --- stdout
    --- stderr
    error: Sandbox 'box' already exists. Please choose a different name.
    hint: see how it is with `cofferdam status box`, or take another name: `cofferdam create box-2`
    ");
    let done = lives.cofferdam(&["create", &"long ".repeat(20)]);
    check!(lives, done, @"
    code: 1
    --- stdout
    --- stderr
    error: Invalid sandbox name. Slugified names must be 1-63 characters and contain only [a-z0-9-].
    hint: it has 99 characters: shorten it, for example to `cofferdam create long-long-long-long`
    ");
    let done = lives.cofferdam(&["create", "other", "--branch", "cofferdam/box"]);
    assert_eq!(done.status.code(), Some(1), "{done}");
    assert!(
        done.stderr
            .contains("`cofferdam shell box`, end it with `cofferdam delete box`"),
        "{done}"
    );
    // A hook of the host that fails leaves nothing.
    let done = lives.cofferdam(&["create", "hooked", "--on-host-ready", "exit 3"]);
    assert_eq!(done.status.code(), Some(1), "{done}");
    assert_eq!(lives.listed("hooked"), None);
    assert_eq!(lives.references(), before);
}

// covers: S4-FR2.1, S4-FR2.4, S4-AC2.1, S4-AC2.4, S4-D4, S4-E8, S4-E11
#[test]
fn paused_and_resumed() {
    let lives = Lives::with("box", &["--network", "none"]);
    let counts = "n=0; while :; do n=$((n+1)); echo $n > count; sleep 0.02; done";
    lives
        .cofferdam(&["exec", "--detach", "box", "--", "sh", "-c", counts])
        .expect_code(0);
    let count = || -> u64 {
        let text = lives.exec("box", "cat count").expect_code(0).stdout;
        text.trim().parse().unwrap_or_default()
    };
    let until = Instant::now() + Duration::from_secs(20);
    let mut first = 0;
    while first < 10 {
        assert!(Instant::now() < until);
        first = count();
    }
    lives.cofferdam(&["pause", "box"]).expect_code(0);
    assert_eq!(lives.state("box"), "paused");
    let again = lives.cofferdam(&["pause", "box"]).expect_code(0);
    assert_eq!(again.stderr, "box is paused already\n");
    let done = lives.exec("box", "true");
    check!(lives, done, @"
    code: 1
    --- stdout
    --- stderr
    error: sandbox `box` is paused
    hint: let it go on with `cofferdam resume box`
    ");
    lives.cofferdam(&["resume", "box"]).expect_code(0);
    assert_eq!(lives.state("box"), "active");
    let again = lives.cofferdam(&["resume", "box"]).expect_code(0);
    assert_eq!(again.stderr, "box is running already\n");
    // Its memory was kept: it counts on from where it was.
    let resumed = loop {
        match count() {
            // It is being written.
            0 => assert!(Instant::now() < until),
            count => break count,
        }
    };
    assert!(resumed >= first, "{resumed} after {first}");
    while count() <= resumed {
        assert!(Instant::now() < until);
    }
}

// covers: S4-E7, S4-E10
#[test]
fn nobody_of_that_name_is_paused_or_resumed() {
    let lives = Lives::new();
    for command in ["pause", "resume"] {
        let done = lives.cofferdam(&[command, "non-existent-sandbox"]);
        let done = done.expect_code(1);
        let words = "error: Sandbox 'non-existent-sandbox' not found.\n";
        assert!(done.stderr.starts_with(words), "{done}");
    }
}

// covers: S4-D4
#[test]
fn stopped_and_started_with_its_files() {
    let lives = Lives::with("box", &["--env", "GIVEN=once"]);
    lives
        .exec(
            "box",
            "echo file > draft; echo home > ~/note; git switch -q -c other",
        )
        .expect_code(0);
    lives.cofferdam(&["stop", "box"]).expect_code(0);
    assert_eq!(lives.state("box"), "stopped");
    let again = lives.cofferdam(&["stop", "box"]).expect_code(0);
    assert_eq!(again.stderr, "box is stopped already\n");
    for command in [
        &["exec", "box", "--", "true"][..],
        &["pause", "box"],
        &["resume", "box"],
    ] {
        let done = lives.cofferdam(command).expect_code(1);
        assert_eq!(
            done.stderr,
            "error: sandbox `box` is stopped\nhint: start it with `cofferdam start box`\n"
        );
    }
    lives.cofferdam(&["start", "box"]).expect_code(0);
    let again = lives.cofferdam(&["start", "box"]).expect_code(0);
    assert_eq!(again.stderr, "box is running already\n");
    let look = "cat draft ~/note; echo $GIVEN; git branch --show-current";
    let done = lives.exec("box", look).expect_code(0);
    assert_eq!(done.stdout, "file\nhome\nonce\nother\n");
    // A start of one that is paused is told from both.
    lives.cofferdam(&["pause", "box"]).expect_code(0);
    let done = lives.cofferdam(&["start", "box"]).expect_code(1);
    assert!(done.stderr.contains("`cofferdam resume box`"), "{done}");
}

#[test]
fn several_at_once() {
    let lives = Lives::new();
    for name in ["one", "two"] {
        lives.create(name, &["--network", "none"]);
    }
    // A mistyped name changes nothing.
    lives.cofferdam(&["pause", "one", "no-such"]).expect_code(1);
    assert_eq!(lives.state("one"), "active");
    lives
        .cofferdam(&["pause", "one", "two", "one"])
        .expect_code(0);
    assert_eq!(
        (lives.state("one"), lives.state("two")),
        ("paused".into(), "paused".into())
    );
    lives.cofferdam(&["stop", "one"]).expect_code(0);
    // What fails with one is said, and the other is done.
    let done = lives.cofferdam(&["resume", "one", "two"]).expect_code(1);
    assert!(
        done.stderr.contains("error: sandbox `one` is stopped"),
        "{done}"
    );
    assert_eq!(lives.state("two"), "active");
    lives.cofferdam(&["delete", "one", "two"]).expect_code(0);
    lives.expect_clean();
}

fn moment(value: &serde_json::Value) -> jiff::Timestamp {
    value.as_str().unwrap().parse().unwrap()
}

#[test]
fn what_it_committed_comes_home_while_it_goes_on() {
    let lives = Lives::with("box", &["--network", "none"]);
    let base = lives.git(&["rev-parse", "main"]);
    let status = lives.cofferdam(&["status", "box"]).expect_code(0);
    assert!(
        status.stdout.contains("\nhome:    nothing yet\n"),
        "{status}"
    );
    lives.exec("box", &commit_script(&["a"])).expect_code(0);
    let done = lives.cofferdam(&["collect", "box"]).expect_code(0);
    let words = "landed: 1 commit on cofferdam/box, which is now at ";
    assert!(done.stdout.starts_with(words), "{done}");
    assert!(
        done.stdout.ends_with("next: cofferdam merge box\n"),
        "{done}"
    );
    let done = lives.cofferdam(&["collect", "box"]).expect_code(0);
    assert_eq!(done.stdout, "nothing: box has no new commit\n");
    // Those that look collect by themselves.
    lives.exec("box", &commit_script(&["b"])).expect_code(0);
    let done = lives.cofferdam(&["log", "box"]).expect_code(0);
    assert_eq!(done.stdout.lines().count(), 2, "{done}");
    lives.exec("box", &commit_script(&["c"])).expect_code(0);
    let done = lives
        .cofferdam(&["diff", "--name-status", "box"])
        .expect_code(0);
    assert_eq!(done.stdout, "A\ta.txt\nA\tb.txt\nA\tc.txt\n");
    assert_eq!(lives.git(&["rev-parse", "main"]), base);
    let status = lives.cofferdam(&["status", "box", "--json"]).expect_code(0);
    let status: serde_json::Value = serde_json::from_str(&status.stdout).unwrap();
    assert_eq!(status["state"], "active");
    assert_eq!(status["commits"].as_array().unwrap().len(), 3);
    // What came home last, and when.
    let tip = lives.git(&["rev-parse", "cofferdam/box"]);
    assert_eq!(status["landed"], *tip);
    let (made, landed) = (moment(&status["created"]), moment(&status["landed_at"]));
    assert!(
        made < landed && landed <= jiff::Timestamp::now(),
        "{status}"
    );
    let said = lives.cofferdam(&["status", "box"]).expect_code(0);
    let line = format!("\nhome:    {}, ", &tip[..10]);
    assert!(said.stdout.contains(&line), "{said}");
    assert_eq!(status["wall"], "none");
    // It is stopped as `doctor` says that it can be here, and the weaker way is named.
    let doctor = lives.cofferdam(&["doctor", "--json"]).expect_code(0);
    let doctor: serde_json::Value = serde_json::from_str(&doctor.stdout).unwrap();
    let mut checks = doctor.as_array().unwrap().iter();
    let pause = checks.find(|check| check["name"] == "pause").unwrap();
    let frozen = pause["status"] == "ok";
    assert_eq!(status["pause"], if frozen { "freezer" } else { "signals" });
    let shown = lives.cofferdam(&["status", "box"]).expect_code(0).stdout;
    assert_eq!(shown.contains("pause:   by signals"), !frozen, "{shown}");
    // Merged, also when it is paused or stopped, and it stays.
    for (name, state) in [("d", None), ("e", Some("pause")), ("f", Some("stop"))] {
        lives.exec("box", &commit_script(&[name])).expect_code(0);
        if let Some(state) = state {
            lives.cofferdam(&[state, "box"]).expect_code(0);
        }
        let done = lives.cofferdam(&["merge", "box"]).expect_code(0);
        assert!(done.stdout.contains(" on main, which is now at "), "{done}");
        assert!(!done.stdout.contains("cofferdam gc"), "{done}");
        assert_eq!(lives.read(&format!("{name}.txt")), format!("{name}\n"));
        if state == Some("pause") {
            assert_eq!(lives.state("box"), "paused");
            lives.cofferdam(&["resume", "box"]).expect_code(0);
        }
    }
    assert_eq!(lives.state("box"), "stopped");
    assert_eq!(lives.git(&["status", "--porcelain"]), "");
}

#[test]
fn with_merge_to_head_the_target_moves_at_merge_alone() {
    for mode in ["bind", "layer", "copy"] {
        let lives = Lives::with(
            "box",
            &["--merge-to-head", "--mode", mode, "--network", "none"],
        );
        let base = lives.git(&["rev-parse", "main"]);
        lives.exec("box", &commit_script(&["a"])).expect_code(0);
        lives.cofferdam(&["diff", "box"]).expect_code(0);
        lives.cofferdam(&["log", "box"]).expect_code(0);
        lives.exec("box", &commit_script(&["z"])).expect_code(0);
        lives.cofferdam(&["collect", "box"]).expect_code(0);
        assert_eq!(lives.git(&["rev-parse", "main"]), base, "{mode}");
        lives.cofferdam(&["merge", "box"]).expect_code(0);
        assert_eq!(lives.read("a.txt"), "a\n", "{mode}");
        lives.exec("box", &commit_script(&["b"])).expect_code(0);
        lives.cofferdam(&["merge", "box"]).expect_code(0);
        assert_eq!(lives.read("b.txt"), "b\n", "{mode}");
        lives.cofferdam(&["delete", "box"]).expect_code(0);
        lives.expect_clean();
    }
}

// covers: S4-FR3.1, S4-FR3.2, S4-FR3.3, S4-AC3.1, S4-AC3.2, S4-AC3.3
#[test]
fn delete_leaves_nothing() {
    for mode in ["bind", "layer"] {
        nothing_is_left_of(mode);
    }
}

fn nothing_is_left_of(mode: &str) {
    let lives = Lives::with("box", &["--mode", mode]);
    lives.exec("box", &commit_script(&["a"])).expect_code(0);
    lives
        .cofferdam(&["exec", "--detach", "box", "--", "sleep", "98765"])
        .expect_code(0);
    let home = lives.home();
    let ours = || {
        let found = lives.shell("cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '");
        let all = String::from_utf8_lossy(found.stdout.as_bytes()).into_owned();
        all.contains("sleep 98765")
            || all.contains(&*home.join(".cofferdam/state").to_string_lossy())
    };
    assert!(ours());
    let done = lives.cofferdam(&["delete", "box"]).expect_code(0);
    // Unmerged commits can be brought back.
    assert!(done.stderr.contains("refs/cofferdam/trash/box"), "{done}");
    assert!(!ours());
    lives.expect_clean();
    let left = lives.git(&["for-each-ref", "--format=%(refname)"]);
    assert_eq!(left, "refs/cofferdam/trash/box\nrefs/heads/main");
    let worktrees = lives.repository().join(".cofferdam/worktrees");
    let left = worktrees.read_dir().into_iter().flatten().flatten();
    let left: Vec<_> = left.collect();
    assert!(
        left.iter()
            .all(|one| one.file_name().to_string_lossy().starts_with('.')),
        "{left:?}"
    );
    lives.cofferdam(&["status", "box"]).expect_code(1);
    // The name is free again.
    lives.create("box", &["--network", "none"]);
    lives
        .cofferdam(&["delete", "--purge", "box"])
        .expect_code(0);
}

#[test]
fn what_would_be_lost_is_not_deleted_and_it_goes_on() {
    for mode in ["bind", "layer", "copy"] {
        let lives = Lives::with("box", &["--mode", mode, "--network", "none"]);
        let script = commit_script(&["a"]) + "echo draft > draft";
        lives.exec("box", &script).expect_code(0);
        let counts = "n=0; while :; do n=$((n+1)); echo $n > ~/count; sleep 0.02; done";
        lives
            .cofferdam(&["exec", "--detach", "box", "--", "sh", "-c", counts])
            .expect_code(0);
        let done = lives.cofferdam(&["delete", "box"]).expect_code(1);
        assert!(done.stderr.contains("has uncommitted changes"), "{done}");
        assert!(
            done.stderr.contains("`cofferdam delete --force box`"),
            "{done}"
        );
        // As before: its programs run, and its commits are home.
        assert_eq!(lives.state("box"), "active");
        let moves = "a=$(cat ~/count); for i in $(seq 200); do sleep 0.05; [ \"$(cat ~/count)\" = \"$a\" ] || exit 0; done; exit 1";
        lives.exec("box", moves).expect_code(0);
        assert_eq!(
            lives.git(&["log", "-1", "--format=%s", "cofferdam/box"]),
            "a"
        );
        lives.exec("box", "cat draft").expect_code(0);
        // One that is paused stays paused.
        lives.cofferdam(&["pause", "box"]).expect_code(0);
        lives.cofferdam(&["delete", "box"]).expect_code(1);
        assert_eq!(lives.state("box"), "paused");
        lives
            .cofferdam(&["delete", "--force", "box"])
            .expect_code(0);
        lives.expect_clean();
    }
}

#[test]
fn every_checkout_of_a_repository_has_its_sandboxes() {
    let lives = Lives::with("box", &["--network", "none"]);
    let other = lives.temporary().join("other");
    let other = other.to_str().unwrap();
    lives.git(&["worktree", "add", "-q", other, "-b", "other"]);
    let there = |arguments: &[&str]| lives.cofferdam(&[&["-C", other], arguments].concat());
    let list = there(&["list"]).expect_code(0);
    assert!(
        list.stdout.contains("\nbox   active  cofferdam/box"),
        "{list}"
    );
    let script = commit_script(&["a"]);
    there(&["exec", "box", "--", "sh", "-c", &script]).expect_code(0);
    let log = there(&["log", "box"]).expect_code(0);
    assert_eq!(log.stdout.lines().count(), 1, "{log}");
    let main = lives.git(&["rev-parse", "main"]);
    // Merged into what is checked out where the command was started.
    there(&["merge", "box"]).expect_code(0);
    assert_eq!(lives.git(&["log", "-1", "--format=%s", "other"]), "a");
    assert_eq!(lives.git(&["rev-parse", "main"]), main);
    // A name is the repository's.
    there(&["create", "box"]).expect_code(1);
    there(&["delete", "box"]).expect_code(0);
    assert_eq!(lives.listed("box"), None);
    // Another repository has none of it.
    lives.create("mine", &["--network", "none"]);
    let strange = lives.temporary().join("strange");
    let line = format!(
        "git init -q '{0}' && git -C '{0}' -c user.name=x -c user.email=x commit -q --allow-empty -m x",
        strange.display()
    );
    lives.shell(&line).expect_code(0);
    let list = lives
        .cofferdam(&["-C", strange.to_str().unwrap(), "list", "--json"])
        .expect_code(0);
    assert_eq!(list.stdout, "[]\n");
    lives
        .cofferdam(&[
            "-C",
            strange.to_str().unwrap(),
            "exec",
            "mine",
            "--",
            "true",
        ])
        .expect_code(1);
}

/// Linked worktrees come and go; what was made from one belongs to the repository.
#[test]
fn a_sandbox_outlives_the_checkout_that_it_was_made_from() {
    let lives = Lives::new();
    let other = lives.temporary().join("other");
    let other = other.to_str().unwrap();
    lives.git(&["worktree", "add", "-q", other, "-b", "other"]);
    let at_other = ["-C", other, "create", "box", "--network", "none"];
    lives.cofferdam(&at_other).expect_code(0);
    lives.exec("box", &commit_script(&["a"])).expect_code(0);
    lives.git(&["worktree", "remove", "--force", other]);
    for _ in ["gone", "another repository is there"] {
        assert_eq!(lives.state("box"), "active");
        let list = lives.cofferdam(&["list", "--all-repos"]).expect_code(0);
        assert!(list.stdout.contains("active"), "{list}");
        assert!(!list.stderr.contains("is gone"), "{list}");
        // Its name and its branch are taken.
        let done = lives.cofferdam(&["create", "box", "--network", "none"]);
        assert!(
            done.expect_code(1)
                .stderr
                .contains("`cofferdam status box`")
        );
        let second = [
            "create",
            "two",
            "--branch",
            "cofferdam/box",
            "--network",
            "none",
        ];
        let done = lives.cofferdam(&second).expect_code(1);
        assert!(done.stderr.contains("in use by sandbox `box`"), "{done}");
        lives.exec("box", "git log -1 --format=%s").expect_code(0);
        lives.cofferdam(&["gc"]).expect_code(0);
        let line = format!(
            "git init -q '{other}' && git -C '{other}' -c user.name=x -c user.email=x commit -q --allow-empty -m x"
        );
        lives.shell(&line).expect_code(0);
    }
    // That one has nothing of it.
    let there = lives
        .cofferdam(&["-C", other, "list", "--json"])
        .expect_code(0);
    assert_eq!(there.stdout, "[]\n");
    lives
        .cofferdam(&["-C", other, "exec", "box", "--", "true"])
        .expect_code(1);
    lives.cofferdam(&["stop", "box"]).expect_code(0);
    lives.cofferdam(&["start", "box"]).expect_code(0);
    lives.cofferdam(&["collect", "box"]).expect_code(0);
    assert_eq!(
        lives.git(&["log", "-1", "--format=%s", "cofferdam/box"]),
        "a"
    );
    lives
        .run(&["--in", "box"], "echo b > b; git add b; git commit -qm b")
        .expect_code(0);
    let logs = lives.cofferdam(&["logs", "box", "run"]).expect_code(0);
    assert!(logs.stdout.contains("--- Run started"), "{logs}");
    lives.cofferdam(&["merge", "box"]).expect_code(0);
    assert_eq!(lives.git(&["log", "-1", "--format=%s", "main"]), "b");
    lives.cofferdam(&["delete", "box"]).expect_code(0);
    assert_eq!(lives.listed("box"), None);
    lives.expect_clean();
}

#[test]
fn a_runs_sandbox_is_told_from_one_that_stays() {
    let lives = Lives::new();
    lives
        .run(&["--branch", "b", "--name", "ran"], &commit_script(&["a"]))
        .expect_code(0);
    for command in [
        &["exec", "ran", "--", "true"][..],
        &["pause", "ran"],
        &["start", "ran"],
    ] {
        let done = lives.cofferdam(command).expect_code(1);
        assert!(
            done.stderr
                .starts_with("error: sandbox `ran` has ended\nhint: "),
            "{done}"
        );
    }
    // How it ended, and what there is to do.
    let status = lives.cofferdam(&["status", "ran"]).expect_code(0);
    let says = "name:    ran\nstate:   ended\nended:   with its run: b is at ";
    assert!(status.stdout.starts_with(says), "{status}");
    assert!(status.stderr.contains("cofferdam merge ran\n"), "{status}");
    let status = lives.cofferdam(&["status", "ran", "--json"]).expect_code(0);
    let status: serde_json::Value = serde_json::from_str(&status.stdout).unwrap();
    assert_eq!(
        (&status["state"], &status["lives_on"]),
        (&"stopped".into(), &false.into())
    );
    let done = lives
        .cofferdam(&["exec", "no-such", "--", "true"])
        .expect_code(1);
    assert!(
        done.stderr
            .starts_with("error: Sandbox 'no-such' not found."),
        "{done}"
    );
}

#[test]
fn what_stands_side_by_side_comes_home_once() {
    for ends in ["git switch -qc two", "git switch -q --detach"] {
        let lives = Lives::with("box", &["--network", "none"]);
        let script = format!(
            "set -e; git switch -qc one; git commit -qm 1 --allow-empty; git switch -q -; {ends}; \
             echo 2 > two.txt; git add .; git commit -qm 2"
        );
        lives.exec("box", &script).expect_code(0);
        lives.cofferdam(&["collect", "box"]).expect_code(0);
        let first = lives.git(&["show", "-s", "--format=%s", "cofferdam/box"]);
        assert_eq!(first, "2");
        for _ in 0..3 {
            let done = lives.cofferdam(&["collect", "box"]).expect_code(0);
            assert_eq!(done.stdout, "nothing: box has no new commit\n");
            assert_eq!(done.stderr, "");
            assert_eq!(
                lives.git(&["show", "-s", "--format=%s", "cofferdam/box"]),
                "2"
            );
        }
        // Where the agent goes on, the branch follows.
        lives
            .exec("box", "git commit -qm 3 --allow-empty")
            .expect_code(0);
        lives.cofferdam(&["collect", "box"]).expect_code(0);
        assert_eq!(
            lives.git(&["show", "-s", "--format=%s", "cofferdam/box"]),
            "3"
        );
        lives
            .exec("box", "git switch -q one; git commit -qm 4 --allow-empty")
            .expect_code(0);
        lives.cofferdam(&["collect", "box"]).expect_code(0);
        assert_eq!(
            lives.git(&["show", "-s", "--format=%s", "cofferdam/box"]),
            "4"
        );
        // Its end moves it no more.
        lives.cofferdam(&["delete", "box"]).expect_code(0);
        let at = lives.git(&["show", "-s", "--format=%s", "refs/cofferdam/trash/box"]);
        assert_eq!(at, "4");
    }
}

#[test]
fn committed_work_that_is_not_checked_out_is_no_uncommitted_work() {
    let lives = Lives::with("box", &["--network", "none"]);
    let script = format!(
        "git switch -qc side; {} git switch -q -",
        commit_script(&["a"])
    );
    lives.exec("box", &script).expect_code(0);
    lives.cofferdam(&["merge", "box"]).expect_code(0);
    assert_eq!(lives.read("a.txt"), "a\n");
    lives.exec("box", "echo work > draft").expect_code(0);
    lives.cofferdam(&["delete", "box"]).expect_code(1);
    lives.exec("box", "rm draft").expect_code(0);
    lives.cofferdam(&["delete", "box"]).expect_code(0);
}

/// What the gate noticed and let pass is told by whoever brings it home, once.
#[test]
fn what_the_gate_noticed_is_told() {
    let lives = Lives::with("box", &["--network", "none"]);
    // Two names that are one on other machines.
    let two = |name: &str| {
        let upper = name.to_uppercase();
        format!("echo a > {name}; echo b > {upper}; git add -A; git commit -qm {name}-and-so-on")
    };
    let told = |said: &str, name: &str| said.contains(name) && said.contains(&name.to_uppercase());
    lives.exec("box", &two("seen")).expect_code(0);
    let done = lives.cofferdam(&["collect", "box"]).expect_code(0);
    assert!(told(&done.stderr, "seen"), "{done}");
    let done = lives.cofferdam(&["collect", "box"]).expect_code(0);
    assert!(!told(&done.stderr, "seen"), "{done}");
    lives.exec("box", &two("looked")).expect_code(0);
    let done = lives.cofferdam(&["log", "box"]).expect_code(0);
    assert!(told(&done.stderr, "looked"), "{done}");
    let done = lives.run(&["--branch", "b"], &two("worked")).expect_code(0);
    assert!(told(&done.stderr, "worked"), "{done}");
    // What runs on this machine by itself.
    let said = "note: these changed files run on your machine: .envrc";
    let runs = "echo : >> .envrc; git add -A; git commit -qm runs";
    for command in ["collect", "merge", "log", "delete"] {
        lives.exec("box", runs).expect_code(0);
        let done = lives.cofferdam(&[command, "box"]).expect_code(0);
        let told = done.stderr.lines().filter(|line| *line == said).count();
        assert_eq!(told, 1, "{done}");
        if command != "delete" {
            lives.exec("box", &commit_script(&[command])).expect_code(0);
            let done = lives.cofferdam(&[command, "box"]).expect_code(0);
            assert!(!done.stderr.contains(".envrc"), "{done}");
        }
    }
    lives.create("box", &["--network", "none"]);
    let done = lives.run(&["--in", "box"], runs).expect_code(0);
    let told = done.stderr.lines().filter(|line| *line == said).count();
    assert_eq!(told, 1, "{done}");
}

#[test]
fn what_was_kept_beside_a_users_branch_keeps_its_name() {
    let lives = Lives::new();
    lives.git(&["branch", "mine"]);
    lives.create("box", &["--branch", "mine", "--network", "none"]);
    lives
        .exec("box", "git commit -qm 1 --allow-empty")
        .expect_code(0);
    lives.cofferdam(&["collect", "box"]).expect_code(0);
    // A branch of the user's moves forward only.
    for subject in ["2", "3"] {
        let amend = format!("git commit -q --amend -m {subject} --allow-empty");
        lives.exec("box", &amend).expect_code(0);
        let done = lives.cofferdam(&["collect", "box"]).expect_code(1);
        assert!(
            done.stdout.contains("kept: 1 commit on refs/cofferdam/"),
            "{done}"
        );
    }
    lives.cofferdam(&["delete", "box"]).expect_code(0);
    let all = lives.git(&["log", "--all", "--format=%s"]);
    for subject in ["1", "2", "3"] {
        assert!(all.lines().any(|line| line == subject), "{subject}: {all}");
    }
}

/// Its user took the commit back that it began with, with the branch that had it, and git has removed that: what the sandbox made stays inside, and no
/// branch comes home that nobody can read.
#[test]
fn a_history_that_was_rewritten_meanwhile() {
    for mode in ["layer", "copy"] {
        let lives = Lives::new();
        lives.write("base", "base\n");
        lives.git(&["add", "base"]);
        lives.git(&["commit", "-qm", "base"]);
        let base = lives.git(&["rev-parse", "HEAD"]);
        lives.create("box", &["--mode", mode, "--network", "none"]);
        let script = commit_script(&["a"]) + "echo draft > draft";
        lives.exec("box", &script).expect_code(0);
        lives.cofferdam(&["stop", "box"]).expect_code(0);
        let prune = "git reset -q --hard HEAD~1 && git reflog expire --expire=now --all && git gc -q --prune=now";
        lives.shell(prune).expect_code(0);
        let there = format!("git cat-file -e {base}");
        // The sandbox's branch has it, until that is taken away too.
        lives.shell(&there).expect_code(0);
        let all = format!(
            "git branch -qD cofferdam/box && {}",
            prune.replace("HEAD~1", "HEAD")
        );
        lives.shell(&all).expect_code(0);
        assert!(!lives.shell(&there).status.success(), "{mode}");
        let before = lives.references();
        lives.cofferdam(&["start", "box"]).expect_code(0);
        let seen = lives.exec("box", "cat base a.txt draft; git log -1 --format=%s");
        assert_eq!(seen.expect_code(0).stdout, "base\na\ndraft\na\n", "{mode}");
        let done = lives.cofferdam(&["collect", "box"]).expect_code(1);
        let error = "the repository no longer has commit ";
        assert!(done.stderr.contains(error), "{mode}: {done}");
        let gone = ["diff", "--uncommitted", "box"];
        let done = lives.cofferdam(&gone).expect_code(1);
        assert!(done.stderr.contains(error), "{mode}: {done}");
        assert_eq!(lives.references(), before, "{mode}");
        lives.git(&["fsck", "--connectivity-only"]);
        // Its files cannot be written again either.
        lives.cofferdam(&["stop", "box"]).expect_code(0);
        let trees = lives.home().join(".cofferdam/trees");
        if mode == "layer" {
            std::fs::remove_dir_all(trees).unwrap();
            let refused = lives.cofferdam(&["start", "box"]).expect_code(1);
            let error = "the files that it stands on were removed, and cannot be written again";
            assert!(refused.stderr.contains(error), "{refused}");
        }
        // What the hint says helps.
        let hint = done.stderr.lines().find(|line| line.starts_with("hint: "));
        let command = hint.and_then(|line| line.split('`').nth(1)).unwrap();
        lives.shell(command).expect_code(0);
        lives.cofferdam(&["collect", "box"]).expect_code(0);
        assert_eq!(lives.git(&["show", "cofferdam/box:a.txt"]), "a");
        lives.git(&["fsck", "--connectivity-only"]);
        lives.cofferdam(&["start", "box"]).expect_code(0);
        let seen = lives.exec("box", "cat base a.txt draft").expect_code(0);
        assert_eq!(seen.stdout, "base\na\ndraft\n", "{mode}");
        lives
            .cofferdam(&["delete", "--force", "box"])
            .expect_code(0);
    }
}
