use crate::environment::{TestEnvironment, check, commit_script};
use crate::lives::Lives;

fn with_sandbox(script: &str) -> TestEnvironment {
    let environment = TestEnvironment::with_repository();
    environment
        .run(&["--branch", "feature", "--name", "one"], script)
        .expect_code(0);
    environment
}

#[test]
fn brings_the_branch_into_the_checkout() {
    let environment = with_sandbox(&commit_script(&["a"]));
    let done = environment.cofferdam(&["merge", "one"]);
    check!(environment, done, @"
    code: 0
    --- stdout
    landed: 1 commit on main, which is now at [SHORT]
      [SHORT] a
    next: cofferdam gc   # clears merged sandboxes
    --- stderr
    ");
    assert_eq!(environment.read("a.txt"), "a\n");
    assert_eq!(environment.git(&["status", "--porcelain"]), "");
}

#[test]
fn a_merged_branch_is_merged() {
    let environment = with_sandbox(&commit_script(&["a", "b"]));
    environment.cofferdam(&["merge", "one"]).expect_code(0);
    let before = environment.references();
    let done = environment.cofferdam(&["merge", "one"]);
    check!(environment, done, @"
    code: 0
    --- stdout
    nothing to merge: 2 commits of one are on this branch already
    next: cofferdam gc   # clears merged sandboxes
    --- stderr
    ");
    assert_eq!(environment.references(), before);
    let done = environment.cofferdam(&["gc"]).expect_code(0);
    assert_eq!(done.stdout, "removed: sandbox one, whose work is on main\n");
}

/// One commit on top of what is checked out, with what it is made of for a message.
#[test]
fn all_of_it_may_be_one_commit() {
    let environment = with_sandbox(&commit_script(&["a", "b"]));
    environment.write("mine.txt", "mine\n");
    environment.git(&["add", "-A"]);
    environment.git(&["commit", "--quiet", "--message=mine"]);
    let mine = environment.git(&["rev-parse", "HEAD"]);
    let done = environment.cofferdam(&["merge", "--squash", "one"]);
    let done = done.expect_code(0);
    assert!(
        done.stdout.starts_with("landed: 2 commits on main"),
        "{done}"
    );
    assert_eq!(environment.git(&["rev-parse", "HEAD^@"]), mine);
    let message = environment.git(&["log", "-1", "--format=%B"]);
    assert_eq!(message.trim(), "Work of sandbox 'one'\n\n* a\n* b");
    for file in ["a.txt", "b.txt", "mine.txt"] {
        assert!(environment.repository().join(file).exists(), "{file}");
    }
    assert_eq!(environment.git(&["status", "--porcelain"]), "");
    // Once is enough.
    let before = environment.references();
    environment
        .cofferdam(&["merge", "--squash", "one"])
        .expect_code(0);
    assert_eq!(environment.references(), before);
    let conflict = with_sandbox("echo theirs > README.md; git commit -qam theirs");
    conflict.write("README.md", "mine\n");
    conflict.git(&["commit", "--quiet", "--all", "--message=mine"]);
    let before = conflict.references();
    conflict
        .cofferdam(&["merge", "--squash", "one"])
        .expect_code(1);
    assert_eq!(conflict.references(), before);
}

/// A sandbox that goes on after it was merged as one commit is merged from there on; where that commit is gone, all of it.
#[test]
fn a_squash_goes_on_from_the_last_one() {
    let lives = Lives::with("one", &["--network", "none"]);
    let work = |text: &str| {
        let script = format!(
            "echo {text} > README.md; echo {text} > {text}; git add -A; git commit -qm {text}"
        );
        lives.exec("one", &script).expect_code(0);
    };
    let squash = || lives.cofferdam(&["merge", "--squash", "one"]);
    let start = lives.git(&["rev-parse", "HEAD"]);
    work("first");
    squash().expect_code(0);
    let first = lives.git(&["rev-parse", "HEAD"]);
    work("second");
    squash().expect_code(0);
    assert_eq!(lives.git(&["rev-parse", "HEAD^@"]), first);
    assert_eq!(lives.read("README.md"), "second\n");
    let message = lives.git(&["log", "-1", "--format=%B"]);
    assert_eq!(message.trim(), "Work of sandbox 'one'\n\n* second");
    // Nothing is new.
    let before = lives.references();
    let again = squash().expect_code(0);
    assert!(again.stdout.contains("nothing to merge"), "{again}");
    assert_eq!(lives.references(), before);
    // Its user takes both back.
    lives.git(&["reset", "-q", "--hard", start.trim()]);
    squash().expect_code(0);
    assert_eq!(lives.git(&["rev-parse", "HEAD^@"]), start);
    for file in ["first", "second"] {
        assert!(lives.repository().join(file).exists(), "{file}");
    }
    lives
        .cofferdam(&["delete", "--force", "one"])
        .expect_code(0);
}

/// What was merged as one commit is there: no merge lands it again, and nothing of it is ahead, until something new comes.
#[test]
fn what_was_squashed_is_merged() {
    let lives = Lives::with("one", &["--network", "none"]);
    let work = |text: &str| {
        let script = format!("echo {text} > {text}; git add -A; git commit -qm {text}");
        lives.exec("one", &script).expect_code(0);
    };
    let ahead = || {
        let listed = lives.cofferdam(&["list", "--json"]).expect_code(0);
        let listed: serde_json::Value = serde_json::from_str(&listed.stdout).unwrap();
        listed[0]["ahead"].clone()
    };
    work("first");
    work("second");
    lives.cofferdam(&["collect", "one"]).expect_code(0);
    assert_eq!(ahead(), 2);
    lives
        .cofferdam(&["merge", "--squash", "one"])
        .expect_code(0);
    assert_eq!(ahead(), 0);
    let before = lives.references();
    let again = lives.cofferdam(&["merge", "one"]).expect_code(0);
    let said = "nothing to merge: 2 commits of one are on this branch already, as one (`--squash`)";
    assert!(again.stdout.contains(said), "{again}");
    assert_eq!(lives.references(), before);
    // What is new comes, and nothing conflicts with what is there.
    work("third");
    lives.cofferdam(&["collect", "one"]).expect_code(0);
    assert_eq!(ahead(), 1);
    lives.cofferdam(&["merge", "one"]).expect_code(0);
    assert_eq!(lives.read("third"), "third\n");
    assert_eq!(ahead(), 0);
    // Its user takes it all back: then it is ahead again, and comes.
    lives.git(&["reset", "-q", "--hard", "HEAD~2"]);
    assert_eq!(ahead(), 3);
    lives.cofferdam(&["merge", "one"]).expect_code(0);
    assert_eq!(lives.read("first"), "first\n");
    lives.cofferdam(&["delete", "one"]).expect_code(0);
}

/// What a program left in no commit is in no merge and no difference, and both say so.
#[test]
fn what_is_in_no_commit_is_told() {
    let lives = Lives::with("one", &["--network", "none"]);
    lives
        .exec("one", "git commit -q --allow-empty -m first")
        .expect_code(0);
    let told = |words: &[&str]| {
        let done = lives.cofferdam(words).expect_code(0);
        done.stderr.contains("cofferdam diff --uncommitted one")
    };
    assert!(!told(&["diff", "one"]));
    lives.exec("one", "echo x > left").expect_code(0);
    assert!(told(&["diff", "one"]));
    assert!(told(&["merge", "one"]));
    let left = lives.cofferdam(&["diff", "--uncommitted", "one"]);
    assert!(left.expect_code(0).stdout.contains("left"));
    lives
        .cofferdam(&["delete", "--force", "one"])
        .expect_code(0);
}

#[test]
fn a_conflict_moves_nothing() {
    let environment = with_sandbox("echo theirs > README.md; git commit -qam theirs");
    environment.write("README.md", "mine\n");
    environment.git(&["commit", "--quiet", "--all", "--message=mine"]);
    let before = environment.references();
    let done = environment.cofferdam(&["merge", "one"]).expect_code(1);
    assert!(done.stdout.starts_with("kept: 1 commit on "), "{done}");
    assert!(done.stdout.contains("README.md"), "{done}");
    assert_eq!(environment.read("README.md"), "mine\n");
    assert_eq!(environment.references(), before);
    assert_eq!(environment.git(&["status", "--porcelain"]), "");
}

/// What was there before the merge is not among what it brought, and a long list is cut.
#[test]
fn it_says_which_commits_came() {
    let environment = with_sandbox(&commit_script(&["first"]));
    environment.cofferdam(&["merge", "one"]).expect_code(0);
    let names: Vec<String> = (1..=23).map(|number| format!("c{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    environment
        .run(
            &["--branch", "feature", "--name", "two"],
            &commit_script(&names),
        )
        .expect_code(0);
    let done = environment.cofferdam(&["merge", "two"]).expect_code(0);
    assert!(
        done.stdout.starts_with("landed: 23 commits on main"),
        "{done}"
    );
    assert!(!done.stdout.contains(" first\n"), "{done}");
    assert!(
        done.stdout.contains("\n  (3 commits before these)\n"),
        "{done}"
    );
    let listed: Vec<&str> = done
        .stdout
        .lines()
        .filter_map(|line| line.strip_prefix("  ")?.split_once(' '))
        .map(|(_, subject)| subject)
        .filter(|subject| names.contains(subject))
        .collect();
    assert_eq!(listed.first(), Some(&"c4"), "{done}");
    assert_eq!(listed.last(), Some(&"c23"), "{done}");
    assert_eq!(listed.len(), 20, "{done}");
}

/// `gc` leaves such a sandbox, so nobody is sent there; what is named instead works as it stands.
#[test]
fn a_worktree_with_work_is_said_with_what_helps() {
    let environment = TestEnvironment::with_repository();
    let options = ["--branch", "feature", "--name", "one", "--mode", "bind"];
    let script = commit_script(&["a"]) + "echo more > draft.txt";
    environment.run(&options, &script).expect_code(0);
    for first in ["landed: 1 commit on main", "nothing to merge: 1 commit"] {
        let done = environment.cofferdam(&["merge", "one"]).expect_code(0);
        assert!(done.stdout.starts_with(first), "{done}");
        assert!(!done.stdout.contains("cofferdam gc"), "{done}");
        let at = environment
            .repository()
            .canonicalize()
            .unwrap()
            .join(".cofferdam/worktrees/feature");
        let kept = format!(
            "uncommitted work of the agent is kept in {}\n",
            at.display()
        );
        assert!(done.stdout.contains(&kept), "{done}");
        let next = done
            .stdout
            .lines()
            .find_map(|line| line.strip_prefix("next: "))
            .unwrap();
        let status = environment.shell(next).expect_code(0);
        assert!(status.stdout.contains("draft.txt"), "{status}");
    }
    let done = environment.cofferdam(&["gc"]).expect_code(0);
    assert_eq!(done.stdout, "nothing to clean up\n");
    environment
        .cofferdam(&["delete", "--force", "one"])
        .expect_code(0);
    environment.expect_clean();
}

/// Its commits land in the checkout too, and nobody is left to wonder where they come from.
#[test]
fn what_a_dead_run_left_in_the_checkout_is_said() {
    let environment = with_sandbox(&commit_script(&["b"]));
    crate::orphans::killed_as(&environment, "dead");
    let done = environment.cofferdam(&["merge", "one"]).expect_code(0);
    let words = "sandbox `dead`, whose command had died here, was finished first: ";
    assert!(done.stderr.starts_with(words), "{done}");
}
