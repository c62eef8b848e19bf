//! Dev sandboxes on a branch of the shelf, as the commands tell of their work; and what is merged into a checkout while somebody lives
//! there.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::environment::{Done, finish};
use crate::kept::follow;
use crate::lives::Lives;

/// The sandbox on the branch `feature/x`.
const FEATURE: &str = "dev-feature-x";
const COMMIT: &str = "date +%s.%N > new; git add -A; git commit -qm";
/// What brings its work home.
const PUSH: &str = "cofferdam exec dev-feature-x -- git push host feature/x";

fn on_feature() -> Lives {
    let lives = Lives::new();
    lives
        .cofferdam(&["start", "--branch", "feature/x"])
        .expect_code(0);
    lives
}

fn subject(lives: &Lives, of: &str) -> String {
    let subject = lives.git(&["log", "-1", "--format=%s", of, "--"]);
    subject.trim().to_owned()
}

/// Runs the command that stands in backquotes after `word`, as it is printed.
#[track_caller]
fn runs(lives: &Lives, said: &str, word: &str) -> Done {
    let (_, rest) = said.split_once(word).unwrap_or_else(|| panic!("{said}"));
    let line = rest.split('`').nth(1).unwrap_or_else(|| panic!("{said}"));
    follow(lives, line, "")
}

fn next(said: &str) -> &str {
    let mut lines = said.lines();
    let line = lines.find_map(|line| line.strip_prefix("next: "));
    line.unwrap_or_else(|| panic!("{said}"))
}

/// Waits for a file in the checkout.
#[track_caller]
fn appears(lives: &Lives, name: &str) {
    let until = Instant::now() + Duration::from_secs(30);
    while !lives.repository().join(name).exists() {
        assert!(Instant::now() < until, "there is no {name}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// What is only on the shelf is no work that is missing: each command says where it is, and what brings it home.
#[test]
fn what_is_only_on_the_shelf_is_told_by_every_command() {
    let lives = on_feature();
    // The control: where nothing is committed there is nothing to be told.
    let left = lives.exec(FEATURE, "true").expect_code(0);
    assert!(!left.stderr.contains("shelf"), "{left}");
    let log = lives.cofferdam(&["log", FEATURE]).expect_code(0);
    assert_eq!((&*log.stdout, &*log.stderr), ("", ""), "{log}");
    let nothing = lives.cofferdam(&["collect", FEATURE]).expect_code(0);
    assert!(nothing.stdout.starts_with("nothing: "), "{nothing}");

    let two = format!("{COMMIT} one && {COMMIT} two");
    let only =
        format!("2 commits on feature/x are only on the shelf: bring them home with `{PUSH}`");
    let left = lives.exec(FEATURE, &two).expect_code(0);
    assert!(left.stderr.contains(&only), "{left}");
    let status = lives.cofferdam(&["status", FEATURE]).expect_code(0);
    assert!(
        status.stdout.contains(&format!("\nshelf:   {only}\n")),
        "{status}"
    );
    let collected = lives.cofferdam(&["collect", FEATURE]).expect_code(1);
    assert_eq!(collected.stdout, format!("kept: {only}\n"));
    for command in ["log", "diff", "merge"] {
        let refused = lives.cofferdam(&[command, FEATURE]).expect_code(1);
        assert_eq!(refused.stdout, "", "{refused}");
        assert!(
            refused.stderr.contains("is only on the shelf") && refused.stderr.contains(PUSH),
            "{command}: {refused}"
        );
    }

    // The printed line brings it, and they all know it then.
    runs(&lives, &left.stderr, "bring them home with ").expect_code(0);
    assert_eq!(subject(&lives, "feature/x"), "two");
    let left = lives.exec(FEATURE, "true").expect_code(0);
    assert!(!left.stderr.contains("shelf"), "{left}");
    let status = lives.cofferdam(&["status", FEATURE]).expect_code(0);
    assert!(
        status
            .stdout
            .contains("\ncommits: 2 on its branch, newest "),
        "{status}"
    );
    assert!(!status.stdout.contains("only on the shelf"), "{status}");
    let log = lives.cofferdam(&["log", FEATURE]).expect_code(0);
    let subjects = log
        .stdout
        .lines()
        .map(|line| line.split_once(' ').unwrap().1);
    assert_eq!(subjects.collect::<Vec<_>>(), ["one", "two"], "{log}");
    let diff = lives
        .cofferdam(&["diff", "--name-status", FEATURE])
        .expect_code(0);
    assert_eq!(diff.stdout, "A\tnew\n", "{diff}");

    // More of it is on the shelf than here.
    lives
        .exec(FEATURE, &format!("{COMMIT} three"))
        .expect_code(0);
    let one = "1 commit on feature/x is only on the shelf: bring it home with";
    let log = lives.cofferdam(&["log", FEATURE]).expect_code(0);
    assert_eq!(log.stdout.lines().count(), 2, "{log}");
    assert!(log.stderr.contains(one), "{log}");
    let merged = lives.cofferdam(&["merge", FEATURE]).expect_code(0);
    assert!(
        merged.stdout.starts_with("landed: 2 commits on main"),
        "{merged}"
    );
    assert!(merged.stderr.contains(one), "{merged}");
    assert_eq!(subject(&lives, "main"), "two");

    // It outlives its sandbox, and what is said brings it from there.
    let deleted = lives.cofferdam(&["delete", FEATURE]).expect_code(0);
    assert!(deleted.stderr.contains(one), "{deleted}");
    runs(&lives, &deleted.stderr, "bring it home with ").expect_code(0);
    assert_eq!(subject(&lives, "feature/x"), "three");
    // Whoever deletes it here has it on the shelf alone again.
    lives.git(&["branch", "-qD", "feature/x"]);
    let left = lives.exec(FEATURE, "true").expect_code(0);
    assert!(left.stderr.contains(one), "{left}");
    lives.cofferdam(&["delete", FEATURE]).expect_code(0);
    lives.expect_clean();
}

/// Who works on the shelf is not on what is checked out here, and is not told so.
#[test]
fn a_branch_on_the_shelf_does_not_follow_the_checkout() {
    let lives = on_feature();
    lives.cofferdam(&["start"]).expect_code(0);
    lives.git(&["commit", "-q", "--allow-empty", "-m", "outside"]);
    let there = lives
        .exec(FEATURE, "git branch --show-current")
        .expect_code(0);
    assert_eq!(there.stdout, "feature/x\n");
    assert!(!there.stderr.contains("is on main now"), "{there}");
    // The control: its checkout went along, and so does who works in that.
    let seen = lives.exec(FEATURE, "git -C /workspace/repository log -1 --format=%s");
    assert_eq!(seen.stdout, "outside\n", "{seen}");
    let seen = lives.exec("dev", "true").expect_code(0);
    assert!(seen.stderr.contains("dev is on main now"), "{seen}");
    lives.cofferdam(&["delete", "dev", FEATURE]).expect_code(0);
}

/// A `git` that looks, whenever it is to write files of the checkout, whether this one changes in the meantime, and notes it.
fn looking_git(lives: &Lives, file: &str, notes: &Path) -> PathBuf {
    let bin = lives.home().join("bin");
    std::fs::create_dir(&bin).unwrap();
    let git = lives.shell("command -v git").expect_code(0).stdout;
    let file = lives.repository().join(file);
    let (file, notes, git) = (file.display(), notes.display(), git.trim_end());
    let script = format!(
        "#!/bin/sh\ncase \" $* \" in *' read-tree '*' -u '*)\n  before=$(/bin/cat {file}); /bin/sleep 1\n  \
         if [ \"$(/bin/cat {file})\" = \"$before\" ]; then echo stands; else echo moves; fi >>{notes};;\nesac\nexec {git} \"$@\"\n"
    );
    cofferdam::fsx::write_with_mode(&bin.join("git"), script.as_bytes(), 0o755).unwrap();
    bin
}

/// Nobody who works on the shelf keeps others out of the checkout: they stand still for the moment in which files are written there.
#[test]
fn work_is_merged_beside_who_works_on_the_shelf() {
    let lives = on_feature();
    let writes = "while :; do date +%s.%N > /workspace/repository/busy; sleep 0.01; done";
    let busy = ["exec", "--detach", FEATURE, "--", "sh", "-c", writes];
    lives.cofferdam(&busy).expect_code(0);
    appears(&lives, "busy");
    lives.create("one", &["--network", "none"]);
    let script = "echo one > one; git add one; git commit -qm one";
    lives.exec("one", script).expect_code(0);
    let notes = lives.home().join("notes");
    let bin = looking_git(&lives, "busy", &notes);
    let mut merge = lives.command(&["merge", "one"]);
    let path = merge
        .get_envs()
        .find_map(|(name, value)| (name == "PATH").then(|| value.unwrap().to_owned()));
    let mut all = bin.into_os_string();
    all.push(":");
    all.push(path.unwrap());
    merge.env("PATH", all);
    merge.stdout(Stdio::piped()).stderr(Stdio::piped());
    let landed = finish(merge.spawn().unwrap()).expect_code(0);
    assert!(
        landed.stdout.contains("landed: 1 commit on main"),
        "{landed}"
    );
    assert_eq!(lives.read("one"), "one\n");
    let notes = std::fs::read_to_string(&notes).unwrap();
    assert!(!notes.is_empty() && !notes.contains("moves"), "{notes}");
    // It goes on.
    std::fs::remove_file(lives.repository().join("busy")).unwrap();
    appears(&lives, "busy");
    let task = |name: &str| {
        let script = format!("echo {name} > {name}; git add {name}; git commit -qm {name}");
        lives.run(&["--name", name, "--network", "none"], &script)
    };
    // One that does not stand still could put a link in the place of a directory that git writes: nothing is written beside it.
    let status = lives
        .cofferdam(&["status", "--json", FEATURE])
        .expect_code(0);
    let status: serde_json::Value = serde_json::from_str(&status.stdout).unwrap();
    let first = i32::try_from(status["process"].as_i64().unwrap()).unwrap();
    let first = rustix::process::Pid::from_raw(first).unwrap();
    rustix::process::kill_process(first, rustix::process::Signal::STOP).unwrap();
    let kept = task("two");
    // Whoever else is in the way is told with those that live in it: one command stops all of them.
    lives.cofferdam(&["start"]).expect_code(0);
    let both = lives.cofferdam(&["merge", "two"]);
    rustix::process::kill_process(first, rustix::process::Signal::CONT).unwrap();
    let kept = kept.expect_code(1);
    let text = "sandbox `dev-feature-x` is at work in";
    assert!(kept.stdout.contains(text), "{kept}");
    let both = both.expect_code(1);
    let names = "dev dev-feature-x";
    let sequence =
        format!("cofferdam stop {names} && cofferdam merge two && cofferdam start {names}");
    assert_eq!(next(&both.stdout), sequence);
    lives.cofferdam(&["delete", "dev"]).expect_code(0);
    assert_eq!(subject(&lives, "main"), "one");
    lives.cofferdam(&["merge", "two"]).expect_code(0);
    assert_eq!(subject(&lives, "main"), "two");
    lives
        .cofferdam(&["delete", "--force", FEATURE, "one"])
        .expect_code(0);
    std::fs::remove_file(lives.repository().join("busy")).unwrap();
}

/// What is printed while somebody lives in the checkout works as it stands.
#[test]
fn what_is_printed_merges_beside_who_lives_in_the_checkout() {
    let lives = on_feature();
    lives.cofferdam(&["start"]).expect_code(0);
    let task = |name: &str, file: &str| {
        let script = format!("echo {name} > {file}; git add {file}; git commit -qm {name}");
        lives.run(&["--name", name, "--network", "none"], &script)
    };
    // Of the two sandboxes one is in the way.
    let ran = task("one", "new").expect_code(1);
    let sequence = |merge: &str| {
        format!("cofferdam stop dev && cofferdam merge {merge} && cofferdam start dev")
    };
    assert_eq!(next(&ran.stdout), sequence("one"));
    let refused = lives
        .cofferdam(&["merge", "--squash", "one"])
        .expect_code(1);
    assert_eq!(next(&refused.stdout), sequence("--squash one"));
    let merged = follow(&lives, &ran.stdout, "next: ").expect_code(0);
    assert!(
        merged.stdout.contains("landed: 1 commit on main"),
        "{merged}"
    );
    assert_eq!(lives.state("dev"), "active");
    assert_eq!(lives.read("new"), "one\n");

    // The user's own change is in the way as well.
    task("two", "README.md").expect_code(1);
    lives.write("README.md", "mine\n");
    let refused = lives.cofferdam(&["merge", "two"]).expect_code(1);
    let begins = format!("git stash --include-untracked && {}", sequence("two"));
    assert!(next(&refused.stdout).starts_with(&begins), "{refused}");
    lives.cofferdam(&["stop"]).expect_code(0);
    let refused = lives.cofferdam(&["merge", "two"]).expect_code(1);
    let begins = "git stash --include-untracked && cofferdam merge two   # ";
    assert!(next(&refused.stdout).starts_with(begins), "{refused}");
    follow(&lives, &refused.stdout, "next: ").expect_code(0);
    assert_eq!(lives.read("README.md"), "two\n");
    assert_eq!(lives.git(&["show", "stash@{0}:README.md"]), "mine");
    lives.git(&["stash", "drop", "-q"]);

    // So does what is offered where a check failed.
    lives.cofferdam(&["start"]).expect_code(0);
    lives.configure("gate: {checks: [{cmd: 'false'}]}\n");
    task("three", "three").expect_code(1);
    let refused = lives.cofferdam(&["merge", "three"]).expect_code(1);
    let offered = format!(
        "cofferdam diff three   # `{}`",
        sequence("--no-checks three")
    );
    assert!(next(&refused.stdout).starts_with(&offered), "{refused}");
    follow(&lives, &refused.stdout, "next: ").expect_code(0);
    runs(&lives, &refused.stdout, "   # ").expect_code(0);
    assert_eq!(lives.read("three"), "three\n");
    assert_eq!(lives.state("dev"), "active");
    lives.configure("");

    // A sandbox that stays says the same when it was collected.
    lives.create("box", &["--network", "none"]);
    lives.exec("box", &format!("{COMMIT} four")).expect_code(0);
    let collected = lives.cofferdam(&["collect", "box"]).expect_code(0);
    assert_eq!(next(&collected.stdout), sequence("box"));
    follow(&lives, &collected.stdout, "next: ").expect_code(0);
    assert!(lives.git(&["log", "--format=%s"]).contains("four"));
    lives
        .cofferdam(&["delete", "--force", "dev", FEATURE, "box"])
        .expect_code(0);
}

/// Commits that met others on the host are counted and called alike by every command, and the printed line merges them.
#[test]
fn commits_that_met_others_are_counted_and_merged() {
    let lives = Lives::new();
    lives.cofferdam(&["start"]).expect_code(0);
    // Nobody leaves before the host has gone on.
    let script = format!("{COMMIT} inside; touch done");
    let detached = ["exec", "--detach", "dev", "--", "sh", "-c", &script];
    lives.cofferdam(&detached).expect_code(0);
    appears(&lives, "done");
    std::fs::remove_file(lives.repository().join("done")).unwrap();
    lives.git(&["commit", "-q", "--allow-empty", "-m", "outside"]);
    let sequence = "cofferdam stop dev && cofferdam merge dev && cofferdam start dev";
    for _ in 0..2 {
        let collected = lives.cofferdam(&["collect", "."]).expect_code(1);
        assert!(
            collected
                .stdout
                .starts_with("kept: 1 commit on refs/cofferdam/"),
            "{collected}"
        );
        assert!(collected.stdout.contains(" inside\n"), "{collected}");
        assert_eq!(next(&collected.stdout), sequence);
    }
    let status = lives.cofferdam(&["status", "."]).expect_code(0);
    let facts = status.stdout.lines().filter(|line| !line.is_empty());
    let columns: BTreeSet<_> = facts
        .map(|line| {
            let (key, said) = line.split_once(':').unwrap();
            key.len() + 1 + said.len() - said.trim_start().len()
        })
        .collect();
    assert_eq!(columns.len(), 1, "{status}");
    assert!(
        status.stdout.contains("\nheld back: the branch has"),
        "{status}"
    );
    let kept = lives.cofferdam(&["merge", "."]).expect_code(1);
    assert!(
        kept.stdout
            .starts_with("kept: 1 commit of dev: sandbox `dev` is at work in"),
        "{kept}"
    );
    assert_eq!(next(&kept.stdout), sequence);
    follow(&lives, &kept.stdout, "next: ").expect_code(0);
    let subjects = lives.git(&["log", "--format=%s"]);
    assert!(
        subjects.contains("inside") && subjects.contains("outside"),
        "{subjects}"
    );
    assert_eq!(lives.state("dev"), "active");
    // What was committed is where it belongs, and there is nothing to do.
    let left = lives.exec("dev", &format!("{COMMIT} later")).expect_code(0);
    assert!(left.stderr.contains("landed: 1 commit on main"), "{left}");
    assert!(!left.stderr.contains("next: "), "{left}");
    lives.cofferdam(&["delete", "dev"]).expect_code(0);
}

/// Its references go with a sandbox: what was home is on its branch, and the rest is in the trash.
#[test]
fn nothing_of_one_that_is_deleted_stays_but_its_trash() {
    let lives = Lives::new();
    lives.cofferdam(&["start"]).expect_code(0);
    let script = format!("{COMMIT} home; git switch -qc idea; {COMMIT} idea; git switch -q main");
    lives.exec("dev", &script).expect_code(0);
    let ours = || {
        lives.git(&[
            "for-each-ref",
            "--format=%(refname) %(subject)",
            "refs/cofferdam",
        ])
    };
    // The control.
    assert!(
        ours().contains("/tip home") && ours().contains(" idea"),
        "{}",
        ours()
    );
    let deleted = lives.cofferdam(&["delete", "dev"]).expect_code(0);
    assert_eq!(ours().trim(), "refs/cofferdam/trash/dev idea");
    assert!(
        deleted
            .stderr
            .contains("git branch NAME refs/cofferdam/trash/dev"),
        "{deleted}"
    );
    // An earlier version left some: what a branch has goes, and what none has stays.
    let gone = "0123456789abcdef0123456789abcdef";
    let idea = lives.git(&["rev-parse", "refs/cofferdam/trash/dev"]);
    let tip = format!("refs/cofferdam/{gone}/tip");
    lives.git(&["update-ref", &tip, "main"]);
    lives.git(&[
        "update-ref",
        &format!("refs/cofferdam/{gone}/extra-1"),
        idea.trim(),
    ]);
    let cleaned = lives.cofferdam(&["gc"]).expect_code(0);
    assert_eq!(cleaned.stdout, format!("expired: {tip}\n"));
    assert_eq!(
        ours().trim(),
        format!("refs/cofferdam/{gone}/extra-1 idea\nrefs/cofferdam/trash/dev idea")
    );
}

/// Without a name it is the dev sandbox that `cofferdam` alone opens a shell in.
#[test]
fn a_program_runs_in_the_only_dev_sandbox() {
    let lives = Lives::new();
    let none = lives.cofferdam(&["exec", "--", "pwd"]).expect_code(2);
    assert!(none.stderr.contains("`cofferdam start`"), "{none}");
    lives
        .cofferdam(&["start", "--branch", "feature/x"])
        .expect_code(0);
    let at = || lives.cofferdam(&["exec", "--", "pwd"]);
    let only = at().expect_code(0);
    assert_eq!(only.stdout, "/repo-shelf/worktrees/feature__x\n");
    lives.cofferdam(&["start", "--branch", "y"]).expect_code(0);
    let which = at().expect_code(2);
    assert!(which.stderr.contains("`cofferdam list`"), "{which}");
    lives.cofferdam(&["start"]).expect_code(0);
    assert_eq!(at().expect_code(0).stdout, "/workspace/repository\n");
    lives.cofferdam(&["stop"]).expect_code(0);
    let stopped = at().expect_code(1);
    assert!(
        stopped.stderr.contains("`cofferdam start dev`"),
        "{stopped}"
    );
    lives
        .cofferdam(&["delete", "dev", FEATURE, "dev-y"])
        .expect_code(0);
}
