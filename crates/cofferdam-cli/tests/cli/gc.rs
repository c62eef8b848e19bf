use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::environment::{TestEnvironment, check, commit_script, finish, open_mode};
use crate::lives::Lives;

/// `cofferdam::git::trees::LONGEST_STACK`.
const LONGEST_STACK: usize = 8;

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
    run_and_kill(&environment, &["--branch", "feature"]);

    let done = environment.cofferdam(&["list"]).expect_code(0);
    assert!(done.stdout.contains("  interrupted  "), "{done}");
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

/// A file of somebody's beside the sandboxes' directories is none of them, and in nobody's way.
#[test]
fn a_file_among_the_sandboxes_is_left_alone() {
    let environment = TestEnvironment::with_repository();
    environment.run(&["--mode", "layer"], "true").expect_code(0);
    let stray = environment.home().join(".cofferdam/state/stray");
    cofferdam::fsx::write_private(&stray, b"mine").unwrap();
    assert_eq!(layers(&environment), 1);
    environment
        .cofferdam(&["gc", "--keep-trees", "0"])
        .expect_code(0);
    assert_eq!(layers(&environment), 0);
    assert_eq!(std::fs::read(&stray).unwrap(), b"mine");
}

/// Whoever finishes what a dead command began brings its commits home, and leaves the merge to the user.
#[test]
fn a_killed_run_moves_no_target() {
    let environment = TestEnvironment::with_repository();
    let base = environment.git(&["rev-parse", "main"]);
    run_and_kill(&environment, &["--merge-to-head"]);
    let done = environment.cofferdam(&["gc"]).expect_code(0);
    assert!(done.stdout.contains("recovered: one, 1 commit"), "{done}");
    assert!(done.stdout.contains("cofferdam merge one"), "{done}");
    assert_eq!(environment.git(&["rev-parse", "main"]), base);
    environment.cofferdam(&["merge", "one"]).expect_code(0);
    assert_eq!(environment.read("a.txt"), "a\n");
}

/// Nothing that is merged nowhere goes; what is merged goes, but for a branch that the user named.
#[test]
fn merged_sandboxes_are_cleared_and_no_others() {
    let environment = TestEnvironment::with_repository();
    let names = || -> Vec<String> {
        let done = environment.cofferdam(&["list", "--json"]).expect_code(0);
        let found: Vec<serde_json::Value> = serde_json::from_str(&done.stdout).unwrap();
        found
            .iter()
            .map(|one| one["name"].as_str().unwrap().to_owned())
            .collect()
    };
    for (name, mode, script) in [
        ("merged", "layer", commit_script(&["a"])),
        ("open", "layer", commit_script(&["b"])),
        ("half", "bind", commit_script(&["c"])),
        (
            "dirty",
            "bind",
            commit_script(&["d"]) + "echo more > draft.txt",
        ),
    ] {
        let branch = format!("work/{name}");
        let options = ["--branch", &branch, "--name", name, "--mode", mode];
        environment.run(&options, &script).expect_code(0);
    }
    for name in ["merged", "half", "dirty"] {
        environment.git(&["merge", "--quiet", "--no-edit", &format!("work/{name}")]);
    }
    // One commit more than was merged.
    let tree = environment.git(&["rev-parse", "work/half^{tree}"]);
    let more = environment.git(&["commit-tree", "-p", "work/half", "-m", "more", &tree]);
    environment.git(&["update-ref", "refs/heads/work/half", &more]);

    let before = environment.references();
    let said = "sandbox merged, whose work is on main\n";
    let done = environment.cofferdam(&["gc", "--dry-run"]).expect_code(0);
    assert_eq!(done.stdout, format!("would be removed: {said}"));
    assert_eq!(names(), ["merged", "open", "half", "dirty"]);
    // Who stands on a sandbox's branch has not merged it.
    environment.git(&["checkout", "--quiet", "work/open"]);
    environment.cofferdam(&["gc"]).expect_code(0);
    assert!(names().contains(&"open".to_owned()));
    environment.git(&["checkout", "--quiet", "main"]);
    let done = environment.cofferdam(&["gc"]).expect_code(0);
    assert_eq!(done.stdout, format!("removed: {said}"));
    assert_eq!(names(), ["open", "half", "dirty"]);
    assert_eq!(environment.references(), before);
    let draft = environment.repository().join(".cofferdam/worktrees");
    assert!(
        draft
            .read_dir()
            .unwrap()
            .flatten()
            .any(|one| one.path().join("draft.txt").exists())
    );
}

/// Whoever calls something of theirs as ours is called keeps it, and so does another repository's sandbox of the same name.
#[test]
fn what_is_only_called_as_ours_stays() {
    let environment = TestEnvironment::with_repository();
    let other = environment.temporary().join("other");
    let other = other.to_str().unwrap();
    environment.git(&["clone", "-q", ".", other]);
    let script = commit_script(&["a"]);
    let run = ["run", "--branch", "work", "--name", "one", "--", "sh", "-c"];
    for name in ["user.name", "user.email"] {
        environment.git(&["-C", other, "config", name, "u@u"]);
    }
    let there = [&["-C", other][..], &run, &[&script]].concat();
    environment.cofferdam(&there).expect_code(0);
    environment
        .cofferdam(&[&run[..], &[&script]].concat())
        .expect_code(0);

    let theirs = ".cofferdam/worktrees/cofferdam-theirs";
    environment.git(&["branch", "cofferdam/one"]);
    environment.git(&["branch", "cofferdam/theirs"]);
    environment.git(&["worktree", "add", "-q", "-b", "cofferdam/at-work", theirs]);
    environment.write(&format!("{theirs}/draft"), "mine\n");
    environment.git(&["update-ref", "refs/heads/refs/cofferdam/x", "main"]);
    for place in ["volumes/cofferdam-theirs/files", "trees/theirs", "logs"] {
        environment.puts(&format!(".cofferdam/{place}/mine"), "mine\n");
    }
    let mine = || {
        let references = environment.git(&["for-each-ref", "refs/heads"]);
        let files = environment
            .shell("find ~/.cofferdam -name mine | sort; cd .cofferdam && find . -name draft");
        let worktrees = environment.git(&["worktree", "list"]);
        let others = environment
            .cofferdam(&["-C", other, "log", "one"])
            .expect_code(0);
        (references, files.stdout, worktrees, others.stdout)
    };
    let before = mine();
    assert_eq!(before.1.lines().count(), 4, "{}", before.1);
    environment.cofferdam(&["gc"]).expect_code(0);
    environment.cofferdam(&["-C", "/", "gc"]).expect_code(0);
    assert_eq!(mine(), before);
    environment
        .cofferdam(&["delete", "--force", "one"])
        .expect_code(0);
    environment.cofferdam(&["gc"]).expect_code(0);
    let after = mine();
    // The control: the sandbox's own branch went.
    let gone = |line: &&str| line.ends_with("refs/heads/work");
    assert!(before.0.lines().any(|line| gone(&line)));
    let rest: Vec<&str> = before.0.lines().filter(|line| !gone(line)).collect();
    assert_eq!(after.0, rest.join("\n"));
    assert_eq!((after.1, after.2, after.3), (before.1, before.2, before.3));
}

/// A merge that had to wait: the temporary branch goes with its sandbox once its work has arrived.
#[test]
fn a_temporary_branch_goes_once_it_is_merged() {
    let environment = TestEnvironment::with_repository();
    let clash = "cd \"$OLDPWD\"; echo mine > README.md; git commit -qam mine";
    let top = environment.repository();
    let hook = clash.replace("\"$OLDPWD\"", &format!("'{}'", top.display()));
    environment
        .run(
            &["--merge-to-head", "--name", "one", "--on-host-ready", &hook],
            "echo theirs > README.md; git commit -qam theirs",
        )
        .expect_code(1);
    let done = environment.cofferdam(&["gc"]).expect_code(0);
    assert_eq!(done.stdout, "nothing to clean up\n");
    environment.git(&[
        "merge",
        "--quiet",
        "--no-edit",
        "--strategy=ours",
        "cofferdam/one",
    ]);
    let done = environment.cofferdam(&["gc"]).expect_code(0);
    assert_eq!(done.stdout, "removed: sandbox one, whose work is on main\n");
    assert_eq!(environment.git(&["branch", "--list", "cofferdam/*"]), "");
    environment.expect_clean();
}

/// A list that cannot be read is a problem beside what was done.
#[test]
fn a_broken_list_takes_nothing_from_the_report() {
    let environment = TestEnvironment::with_repository();
    environment
        .run(&["--branch", "b", "--name", "one"], &commit_script(&["a"]))
        .expect_code(0);
    environment.cofferdam(&["merge", "one"]).expect_code(0);
    let list = environment.home().join(".cofferdam/written.json");
    assert!(list.exists());
    cofferdam::fsx::write_private(&list, b"{").unwrap();
    let done = environment.cofferdam(&["gc"]).expect_code(1);
    assert_eq!(done.stdout, "removed: sandbox one, whose work is on main\n");
    assert!(done.stderr.contains("written.json"), "{done}");
}

/// Who may be at work in a checkout is not known then, and whose references are old is not either.
#[test]
fn a_record_that_cannot_be_read_is_told_and_nobody_writes_beside_it() {
    let environment = TestEnvironment::with_repository();
    for name in ["one", "two"] {
        let branch = format!("work/{name}");
        environment
            .run(
                &["--branch", &branch, "--name", name],
                &commit_script(&[name]),
            )
            .expect_code(0);
    }
    let done = environment.cofferdam(&["list", "--json"]).expect_code(0);
    let found: Vec<serde_json::Value> = serde_json::from_str(&done.stdout).unwrap();
    let two = found[1]["id"].as_str().unwrap();
    let state = environment.home().join(".cofferdam/state");
    let record = state.join(two).join("record.json");
    let whole = std::fs::read(&record).unwrap();
    cofferdam::fsx::write_private(&record, b"{").unwrap();
    let reference = format!("refs/cofferdam/{two}/tip");
    let long_ago = format!(
        "GIT_COMMITTER_DATE='1000000000 +0000' git update-ref --create-reflog -m old {reference} work/two"
    );
    environment.shell(&long_ago).expect_code(0);

    let done = environment.cofferdam(&["list"]).expect_code(0);
    let warned = |line: &&str| line.starts_with("warning: ") && line.contains(two);
    assert_eq!(done.stderr.lines().filter(warned).count(), 1, "{done}");
    let done = environment.cofferdam(&["merge", "one"]).expect_code(1);
    assert!(
        done.stdout.contains("nobody can say who is at work"),
        "{done}"
    );
    assert!(done.stdout.contains(state.to_str().unwrap()), "{done}");
    environment.cofferdam(&["gc"]).expect_code(1);
    assert!(environment.references().contains(&reference));
    // The control.
    cofferdam::fsx::write_private(&record, &whole).unwrap();
    let done = environment.cofferdam(&["list"]).expect_code(0);
    assert!(!done.stderr.contains("warning: "), "{done}");
    environment.cofferdam(&["merge", "one"]).expect_code(0);
}

#[test]
fn who_waits_for_another_is_told() {
    let environment = TestEnvironment::with_repository();
    environment
        .run(&["--branch", "b", "--name", "one"], &commit_script(&["a"]))
        .expect_code(0);
    environment.cofferdam(&["gc"]).expect_code(0);
    let path = environment.home().join(".cofferdam/gc.lock");
    let held = std::fs::File::open(path).unwrap();
    #[expect(clippy::disallowed_methods, reason = "as another process has it")]
    held.lock().unwrap();
    let mut child = environment
        .command(&["gc"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for(
        child.stderr.take().unwrap(),
        "another `cofferdam gc` is at work",
    );
    held.unlock().unwrap();
    finish(child).expect_code(0);
}

/// A run in the sandbox `one` whose agent has committed `a.txt` when its command is killed.
#[track_caller]
fn run_and_kill(environment: &TestEnvironment, strategy: &[&str]) {
    let script = commit_script(&["a"]) + "echo committed; sleep 600";
    let rest = ["--name", "one", "--", "sh", "-c", &script];
    let mut child = environment
        .command(&[&["run"], strategy, open_mode(strategy), &rest].concat())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for(child.stderr.take().unwrap(), "committed");
    child.kill().unwrap();
    finish(child);
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

/// The layers that are on the disk.
fn layers(environment: &TestEnvironment) -> usize {
    let line = "ls -d ~/.cofferdam/trees/*/????????????????????????????????????????";
    environment.shell(line).stdout.lines().count()
}

/// Files of commits that nobody stands on go where they take too much; what a sandbox stands on never does.
#[test]
fn files_of_commits_are_trimmed_to_a_size() {
    let environment = TestEnvironment::with_repository();
    let other = ["--mode", "layer", "--branch", "other"];
    environment.run(&other, "true").expect_code(0);
    environment.write("big", &"much\n".repeat(50_000));
    environment.git(&["add", "big"]);
    environment.git(&["commit", "-qm", "big"]);
    let kept = ["--mode", "layer", "--name", "kept", "--branch", "work"];
    environment.run(&kept, "echo new > new").expect_code(0);
    environment.git(&["reset", "-q", "--hard", "HEAD~1"]);
    environment.write("more", "more\n");
    environment.git(&["add", "more"]);
    environment.git(&["commit", "-qm", "more"]);
    environment.run(&other, "true").expect_code(0);
    assert_eq!(layers(&environment), 3);
    environment
        .cofferdam(&["gc", "--keep-trees", "1g"])
        .expect_code(0);
    assert_eq!(layers(&environment), 3);
    let done = environment.cofferdam(&["doctor", "--json"]);
    assert!(done.stdout.contains("files of 3 commits, "), "{done}");
    let dry = environment
        .cofferdam(&["gc", "--keep-trees", "0", "--dry-run"])
        .expect_code(0);
    assert!(
        dry.stdout.starts_with("would be removed: files of "),
        "{dry}"
    );
    assert_eq!(layers(&environment), 3);
    let done = environment
        .cofferdam(&["gc", "--keep-trees", "0"])
        .expect_code(0);
    assert_eq!(format!("would be {}", done.stdout), dry.stdout);
    let diff = ["diff", "--uncommitted", "kept"];
    let left = layers(&environment);
    assert!((1..3).contains(&left), "{left}");
    environment.cofferdam(&diff).expect_code(0);
    assert_eq!(
        layers(&environment),
        left,
        "what it stands on was written again"
    );
    environment
        .cofferdam(&["delete", "--force", "kept"])
        .expect_code(0);
    environment
        .cofferdam(&["gc", "--keep-trees", "0"])
        .expect_code(0);
    assert_eq!(layers(&environment), 0);
}

/// A commit on as many layers as there may be is written to one again, but never below a sandbox, running or stopped.
#[test]
fn nothing_is_rewritten_below_a_living_sandbox() {
    const WHOLE: &str = "git ls-tree -r --object-only HEAD > /tmp/ids; \
        git ls-tree -r --name-only HEAD | git hash-object --stdin-paths | cmp - /tmp/ids";
    let lives = Lives::new();
    for number in 0..100 {
        lives.write(&format!("many/{number}"), &format!("{number}\n"));
    }
    let other = ["--mode", "layer", "--branch", "other"];
    for step in 1..=LONGEST_STACK {
        lives.write("many/0", &format!("{step}\n"));
        lives.git(&["add", "--all"]);
        lives.git(&["commit", "-qm", "step"]);
        if step < LONGEST_STACK {
            lives.run(&other, "true").expect_code(0);
        }
    }
    lives.create("box", &["--mode", "layer", "--network", "none"]);
    assert_eq!(layers(&lives), LONGEST_STACK);
    let gc = || lives.cofferdam(&["gc"]).expect_code(0).stdout;
    assert_eq!(gc(), "nothing to clean up\n");
    lives.exec("box", WHOLE).expect_code(0);
    lives.exec("box", &commit_script(&["a"])).expect_code(0);
    lives.cofferdam(&["stop", "box"]).expect_code(0);
    assert_eq!(gc(), "nothing to clean up\n");
    lives.cofferdam(&["start", "box"]).expect_code(0);
    lives.exec("box", WHOLE).expect_code(0);
    lives.cofferdam(&["collect", "box"]).expect_code(0);
    assert_eq!(lives.git(&["show", "cofferdam/box:a.txt"]), "a");
    // The control: once it is gone.
    lives
        .cofferdam(&["delete", "--force", "box"])
        .expect_code(0);
    let done = gc();
    assert!(done.contains("written to one layer: "), "{done}");
    lives.run(&other, WHOLE).expect_code(0);
}
