//! Commits that are kept beside a branch because it moved while the agent worked, and commits that a dead or
//! stopped run left: what is said of them is true, and the commands that are printed take them.

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::environment::{Done, TestEnvironment, commit_script, finish};

/// Starts a run that does `script` and waits until it is let go, and returns it with its worktree once it
/// waits.
#[track_caller]
fn waiting(environment: &TestEnvironment, options: &[&str], script: &str) -> (Child, PathBuf) {
    let script =
        format!("{script}\ntouch ready; until [ -e go ]; do sleep 0.05; done; rm ready go");
    let mut arguments = vec!["run", "--mode", "bind", "--name", "one"];
    arguments.extend_from_slice(options);
    arguments.extend_from_slice(&["--", "sh", "-c", &script]);
    let child = environment
        .command(&arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    (child, ready(environment))
}

/// The worktree whose agent waits.
#[track_caller]
fn ready(environment: &TestEnvironment) -> PathBuf {
    let all = environment.repository().join(".cofferdam/worktrees");
    let began = Instant::now();
    loop {
        let found = std::fs::read_dir(&all).into_iter().flatten().flatten();
        let ready = found.map(|one| one.path());
        if let Some(place) = ready.into_iter().find(|path| path.join("ready").exists()) {
            return place;
        }
        assert!(began.elapsed() < Duration::from_mins(1), "it never started");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The user commits in that worktree: the branch moves.
fn commit_there(environment: &TestEnvironment, worktree: &Path, file: &str) {
    let place = worktree.to_str().unwrap();
    environment.write(worktree.join(file).to_str().unwrap(), "mine\n");
    environment.git(&["-C", place, "add", file]);
    environment.git(&["-C", place, "commit", "--quiet", "--message=mine"]);
}

/// The branch has a commit of the user's, and the agent's is beside it.
#[track_caller]
fn moved(environment: &TestEnvironment, options: &[&str], file: &str, script: &str) -> Done {
    let (child, worktree) = waiting(environment, options, script);
    commit_there(environment, &worktree, file);
    environment.write(worktree.join("go").to_str().unwrap(), "");
    finish(child).expect_code(1)
}

/// The command after the first `word` of what was said, run as it stands.
#[track_caller]
pub(crate) fn follow(environment: &TestEnvironment, said: &str, word: &str) -> Done {
    let (_, rest) = said.split_once(word).unwrap_or_else(|| panic!("{said}"));
    let line = rest.lines().next().unwrap();
    let program = env!("CARGO_BIN_EXE_cofferdam");
    environment.shell(&format!("cofferdam() {{ '{program}' \"$@\"; }}; {line}"))
}

#[track_caller]
fn listed(environment: &TestEnvironment) -> serde_json::Value {
    let done = environment.cofferdam(&["list", "--json"]).expect_code(0);
    let found: serde_json::Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!(found.as_array().unwrap().len(), 1, "{done}");
    found[0].clone()
}

#[test]
fn merge_takes_what_is_kept_beside_a_branch_that_moved() {
    for options in [&["--branch", "feature"][..], &["--merge-to-head"]] {
        let environment = TestEnvironment::with_repository();
        let run = moved(&environment, options, "mine.txt", &commit_script(&["a"]));
        assert!(
            run.stdout.contains("kept: 1 commit on refs/cofferdam/"),
            "{run}"
        );
        // The worktree has nothing that is not committed on one side or the other.
        assert!(!run.stdout.contains("uncommitted"), "{run}");
        assert!(!run.stdout.contains("delete --force"), "{run}");
        let one = listed(&environment);
        assert_eq!(one["ahead"], 2, "{one}");
        assert!(one["kept"].is_string(), "{one}");
        assert!(one["changes"].is_null(), "{one}");
        let log = environment.cofferdam(&["log", "one"]).expect_code(0);
        assert!(
            log.stdout.contains(" a\n") && log.stdout.contains(" mine\n"),
            "{log}"
        );
        let diff = environment.cofferdam(&["diff", "one"]).expect_code(0);
        assert!(
            diff.stdout.contains("\n+a\n") && diff.stdout.contains("\n+mine\n"),
            "{diff}"
        );
        let merge = follow(&environment, &run.stdout, "next: ").expect_code(0);
        assert_eq!(
            merge.stdout.matches("landed: 1 commit on main").count(),
            2,
            "{merge}"
        );
        assert_eq!(environment.read("a.txt"), "a\n");
        assert_eq!(environment.read("mine.txt"), "mine\n");
        let one = listed(&environment);
        assert_eq!(one["ahead"], 0, "{one}");
        assert!(one["kept"].is_null(), "{one}");
        let again = environment.cofferdam(&["merge", "one"]).expect_code(0);
        assert!(
            again
                .stdout
                .starts_with("nothing to merge: 2 commits of one"),
            "{again}"
        );
        let gc = environment.cofferdam(&["gc"]).expect_code(0);
        assert_eq!(gc.stdout, "removed: sandbox one, whose work is on main\n");
        environment.expect_clean();
    }
}

#[test]
fn it_is_named_until_what_is_checked_out_has_it() {
    let environment = TestEnvironment::with_repository();
    let options = ["--branch", "feature"];
    moved(&environment, &options, "mine.txt", &commit_script(&["a"]));
    environment.git(&["merge", "--quiet", "feature"]);
    for gone in [false, true] {
        if gone {
            environment.git(&["branch", "--quiet", "-D", "feature"]);
        }
        let one = listed(&environment);
        assert_eq!(one["ahead"], 1, "{one}");
        assert!(one["kept"].as_str().unwrap().contains("/tip"), "{one}");
        let gc = environment.cofferdam(&["gc"]).expect_code(0);
        assert_eq!(gc.stdout, "nothing to clean up\n");
    }
    let done = environment.cofferdam(&["list"]).expect_code(0);
    let merge = follow(&environment, &done.stderr, "; take them with: ").expect_code(0);
    assert!(
        merge.stdout.starts_with("landed: 1 commit on main"),
        "{merge}"
    );
    assert_eq!(environment.read("a.txt"), "a\n");
    assert!(listed(&environment)["kept"].is_null());
    environment.cofferdam(&["gc"]).expect_code(0);
    environment.expect_clean();
}

#[test]
fn a_side_that_conflicts_stays_and_is_named() {
    let environment = TestEnvironment::with_repository();
    let script = "echo theirs > README.md; git commit -qam theirs";
    moved(&environment, &["--branch", "feature"], "README.md", script);
    let done = environment.cofferdam(&["merge", "one"]).expect_code(1);
    assert!(done.stdout.contains("landed: 1 commit on main"), "{done}");
    assert!(
        done.stdout.contains("\nkept: 1 commit on refs/cofferdam/"),
        "{done}"
    );
    let one = listed(&environment);
    assert!(one["kept"].is_string(), "{one}");
    // Git stops for the conflict, as the user wants to see it.
    follow(&environment, &done.stdout, "next: ").expect_code(1);
    assert_eq!(environment.git(&["stash", "list"]), "");
    environment.write("README.md", "both\n");
    environment.git(&["commit", "--quiet", "--all", "--message=both"]);
    let gc = environment.cofferdam(&["gc"]).expect_code(0);
    assert_eq!(gc.stdout, "removed: sandbox one, whose work is on main\n");
}

#[test]
fn delete_puts_both_sides_into_the_trash_and_says_so() {
    let environment = TestEnvironment::with_repository();
    let options = ["--branch", "feature"];
    moved(&environment, &options, "mine.txt", &commit_script(&["a"]));
    let done = environment.cofferdam(&["delete", "one"]).expect_code(0);
    let subjects: Vec<String> = (done.stderr.lines())
        .filter_map(|line| line.split('`').nth(1))
        .map(|line| {
            environment
                .shell(&line.replace("NAME", "back"))
                .expect_code(0);
            let subject = environment.git(&["log", "-1", "--format=%s", "back"]);
            environment.git(&["branch", "--quiet", "-D", "back"]);
            subject
        })
        .collect();
    assert_eq!(subjects, ["mine", "a"], "{done}");
}

#[test]
fn gc_says_where_kept_commits_are_and_how_to_take_them() {
    let environment = TestEnvironment::with_repository();
    let options = ["--branch", "feature"];
    let (child, worktree) = waiting(&environment, &options, &commit_script(&["a"]));
    commit_there(&environment, &worktree, "mine.txt");
    killed(child);
    let done = environment.cofferdam(&["gc"]).expect_code(0);
    let words = "recovered: one, 1 commit kept on refs/cofferdam/";
    assert!(done.stdout.starts_with(words), "{done}");
    assert!(
        done.stdout.contains("\n  next: cofferdam merge one\n"),
        "{done}"
    );
    follow(&environment, &done.stdout, "next: ").expect_code(0);
    assert_eq!(environment.read("a.txt"), "a\n");
    assert_eq!(environment.read("mine.txt"), "mine\n");
}

/// Ends the command as a power cut would.
fn killed(mut child: Child) {
    child.kill().unwrap();
    finish(child);
}

#[test]
fn commits_of_a_dead_run_are_told_by_who_cannot_show_them() {
    let environment = TestEnvironment::with_repository();
    let options = ["--branch", "feature"];
    killed(waiting(&environment, &options, &commit_script(&["a"])).0);
    for command in ["diff", "log", "merge"] {
        let done = environment.cofferdam(&[command, "one"]).expect_code(1);
        assert_eq!(done.stdout, "");
        assert!(done.stderr.contains("was interrupted"), "{done}");
        assert!(done.stderr.contains("`cofferdam gc`"), "{done}");
    }
    // From elsewhere, the next step goes there.
    let done = environment
        .cofferdam(&["-C", "../tmp", "gc"])
        .expect_code(0);
    assert!(
        done.stdout
            .starts_with("recovered: one, 1 commit on feature ("),
        "{done}"
    );
    assert!(done.stdout.contains("  next: cd "), "{done}");
    environment.cofferdam(&["log", "one"]).expect_code(0);
    follow(&environment, &done.stdout, "next: ").expect_code(0);
    assert_eq!(environment.read("a.txt"), "a\n");
}

#[test]
fn delete_of_a_dead_run_says_what_came_home() {
    let environment = TestEnvironment::with_repository();
    let script = commit_script(&["a"]) + "echo more > draft.txt";
    killed(waiting(&environment, &["--branch", "feature"], &script).0);
    let done = environment.cofferdam(&["delete", "one"]).expect_code(1);
    let words = "recovered: one, 1 commit on feature (feature is at ";
    assert!(done.stderr.starts_with(words), "{done}");
    assert!(done.stderr.contains("\nerror: "), "{done}");
    let done = environment.cofferdam(&["log", "one"]).expect_code(0);
    assert!(done.stdout.ends_with(" a\n"), "{done}");
}

#[test]
fn commits_come_before_what_is_uncommitted() {
    let environment = TestEnvironment::with_repository();
    let script = commit_script(&["a"]) + "echo more > draft.txt";
    let run = environment
        .run(&["--branch", "feature", "--name", "one"], &script)
        .expect_code(0);
    let status = follow(&environment, &run.stdout, "; look at it with: ").expect_code(0);
    assert!(status.stdout.contains("draft.txt"), "{status}");
    let goes = "cofferdam delete --force one   # removes that work, and branch feature; ";
    assert!(run.stdout.contains(goes), "{run}");
    follow(&environment, &run.stdout, "next: ").expect_code(0);
    assert_eq!(environment.read("a.txt"), "a\n");
    let done = follow(&environment, &run.stdout, "is needed: ").expect_code(0);
    assert!(done.stderr.starts_with("deleted one\n"), "{done}");
    assert_eq!(environment.git(&["branch", "--list", "feature"]), "");
    environment.expect_clean();
}

#[test]
fn what_neither_side_has_is_uncommitted_work() {
    // Untracked directories are told as a whole, and each side knows another part of this one.
    for (script, draft) in [
        ("echo draft > draft.txt", "draft.txt"),
        ("mkdir d; echo draft > d/draft.txt", "d/draft.txt"),
        ("echo draft >> a.txt", "a.txt"),
    ] {
        let environment = TestEnvironment::with_repository();
        let script = commit_script(&["a"]) + script;
        let run = moved(&environment, &["--branch", "feature"], "mine.txt", &script);
        let all = environment.repository().join(".cofferdam/worktrees");
        let place = all.read_dir().unwrap().flatten().next();
        let place = place.expect("the worktree stays").path();
        let text = std::fs::read_to_string(place.join(draft)).unwrap();
        assert!(text.ends_with("draft\n"), "{text}");
        assert_eq!(listed(&environment)["changes"], true);
        let done = environment.cofferdam(&["delete", "one"]).expect_code(1);
        assert!(done.stderr.contains("uncommitted changes"), "{done}");
        // The commits come first.
        follow(&environment, &run.stdout, "next: ").expect_code(0);
        assert!(environment.read("a.txt").starts_with("a\n"));
        let gc = environment.cofferdam(&["gc"]).expect_code(0);
        assert_eq!(gc.stdout, "nothing to clean up\n");
    }
}

/// `merge` does not take what is beside the branch, so a merged branch says nothing of that.
#[test]
fn what_no_merge_takes_is_listed_on() {
    let environment = TestEnvironment::with_repository();
    let script = "git checkout -qb other; git commit -q --allow-empty -m b; git checkout -q -";
    let script = commit_script(&["a"]) + script;
    let options = ["--branch", "feature", "--name", "one"];
    environment.run(&options, &script).expect_code(0);
    environment.cofferdam(&["merge", "one"]).expect_code(0);
    let one = listed(&environment);
    assert_eq!(one["ahead"], 0, "{one}");
    assert!(
        one["beside"][0].as_str().unwrap().contains("/extra-"),
        "{one}"
    );
}
