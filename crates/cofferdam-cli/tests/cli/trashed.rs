//! What `delete` says of each thing that it puts into the trash brings that thing back.

use crate::environment::Done;
use crate::lives::Lives;

/// The command in the line that begins so, which is one alone.
#[track_caller]
fn back(done: &Done, begins: &str) -> String {
    let mut lines = done.stderr.lines().filter(|line| line.starts_with(begins));
    let line = lines.next().unwrap_or_else(|| panic!("{begins}: {done}"));
    assert_eq!(lines.next(), None, "{done}");
    line.rsplit('`').nth(1).unwrap().to_owned()
}

/// Its commits come back as a branch, which is called `again`.
#[track_caller]
fn commits_come_back(lives: &Lives, done: &Done) {
    let branch = back(done, "what it did stays").replace("NAME", "again");
    lives.shell(&branch).expect_code(0);
}

#[test]
fn commits_a_stash_and_what_was_in_no_commit() {
    let lives = Lives::with("one", &["--network", "none"]);
    let made = "echo kept > kept; git add kept; git commit -qm kept; echo stashed >> README.md; git stash -q; echo new > new";
    lives.exec("one", made).expect_code(0);
    lives
        .cofferdam(&["diff", "one", "--uncommitted"])
        .expect_code(0);
    let done = lives
        .cofferdam(&["delete", "--force", "one"])
        .expect_code(0);
    commits_come_back(&lives, &done);
    assert_eq!(lives.git(&["show", "again:kept"]), "kept");
    lives
        .shell(&back(&done, "a stash of it stays"))
        .expect_code(0);
    assert!(lives.read("README.md").contains("stashed"));
    lives.git(&["checkout", "README.md"]);
    lives
        .shell(&back(
            &done,
            "what it had in no commit when you last looked stays",
        ))
        .expect_code(0);
    assert_eq!(lives.read("new"), "new\n");
}

#[test]
fn what_its_user_had_in_no_commit() {
    let lives = Lives::new();
    lives.write("README.md", "mine\n");
    lives
        .cofferdam(&["create", "one", "--head", "--network", "none"])
        .expect_code(0);
    lives.exec("one", "echo theirs > README.md").expect_code(0);
    let done = lives.cofferdam(&["delete", "--force", "one"]);
    let done = done.expect_code(0);
    let named = done
        .stderr
        .split('`')
        .find(|part| part.starts_with("git restore "));
    let restore = named.unwrap_or_else(|| panic!("{done}"));
    lives
        .shell(&restore.replace("PATH", "README.md"))
        .expect_code(0);
    assert_eq!(lives.read("README.md"), "mine\n");
}

/// A stash stands on a commit, and does not bring it back.
#[test]
fn a_commit_that_a_stash_stands_on() {
    let lives = Lives::with("one", &["--head", "--network", "none"]);
    let made = "echo kept > kept; git add kept; git commit -qm kept; echo stashed >> README.md; git stash -q";
    lives.exec("one", made).expect_code(0);
    lives.cofferdam(&["collect", "one"]).expect_code(0);
    lives.git(&["reset", "-q", "--hard", "HEAD~1"]);
    let done = lives
        .cofferdam(&["delete", "--force", "one"])
        .expect_code(0);
    commits_come_back(&lives, &done);
    assert_eq!(lives.git(&["show", "again:kept"]), "kept");
}

#[test]
fn a_stash_that_git_takes_for_none() {
    let lives = Lives::with("one", &["--network", "none"]);
    let made = "git commit -q --allow-empty -m alone; git update-ref --create-reflog refs/stash HEAD; git reset -q HEAD~1";
    lives.exec("one", made).expect_code(0);
    lives.cofferdam(&["collect", "one"]).expect_code(0);
    let done = lives.cofferdam(&["delete", "one"]).expect_code(0);
    commits_come_back(&lives, &done);
    assert_eq!(lives.git(&["log", "-1", "--format=%s", "again"]), "alone");
}

/// It is in no commit that `git stash show` shows by itself, and runs on the user's machine once it is taken.
#[test]
fn what_a_stash_has_of_new_files_is_told_and_shown() {
    let lives = Lives::with("one", &["--network", "none"]);
    lives
        .exec("one", "echo danger > .envrc; git stash -u -q")
        .expect_code(0);
    let told = lives.cofferdam(&["collect", "one"]).expect_code(0);
    assert!(told.stderr.contains(".envrc"), "{told}");
    let done = lives.cofferdam(&["delete", "one"]).expect_code(0);
    let mut shown = done.stderr.split('`');
    let show = shown.find(|part| part.starts_with("git stash show "));
    let shown = lives.shell(show.unwrap()).expect_code(0);
    assert!(shown.stdout.contains("+danger"), "{shown}");
}
