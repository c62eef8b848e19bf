//! What `delete` says of each thing that it puts into the trash brings that thing back.

use crate::environment::Done;
use crate::lives::Lives;

/// The command in the line that begins so, which is one alone.
#[track_caller]
fn back(done: &Done, begins: &str) -> String {
    let mut lines = done.stderr.lines().filter(|line| line.starts_with(begins));
    let line = lines.next().unwrap_or_else(|| panic!("{begins}: {done}"));
    assert_eq!(lines.next(), None, "{done}");
    line.split('`').nth(1).unwrap().to_owned()
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
    let branch = back(&done, "what it did stays").replace("NAME", "again");
    lives.shell(&branch).expect_code(0);
    assert_eq!(lives.git(&["show", "again:kept"]), "kept");
    lives
        .shell(&back(&done, "a stash of it stays"))
        .expect_code(0);
    assert!(lives.read("README.md").contains("stashed"));
    lives.git(&["checkout", "README.md"]);
    lives
        .shell(&back(&done, "what it had in no commit stays"))
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
