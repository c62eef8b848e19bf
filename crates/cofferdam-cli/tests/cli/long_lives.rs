//! Sandboxes that live long: what becomes of their work when what is around them goes, and what is said of it.

use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::environment::TestEnvironment;
use crate::kept::follow;
use crate::lives::Lives;

const NONE: [&str; 2] = ["--network", "none"];

/// `cofferdam run` in a linked checkout of a branch `side`, whose agent commits `x` and leaves `y`.
fn ran_in_a_linked_checkout() -> TestEnvironment {
    let environment = TestEnvironment::with_repository();
    environment.git(&["worktree", "add", "-q", "../linked", "-b", "side"]);
    let script = "echo x > x; git add x; git commit -qm x; echo y > y";
    let linked = ["-C", "../linked", "run", "--name", "one", "--mode", "bind"];
    let agent = ["--", "sh", "-c", script];
    environment
        .cofferdam(&[&linked[..], &NONE, &agent].concat())
        .expect_code(0);
    environment
}

/// Git takes all that it ignores in a linked checkout along with it.
#[test]
fn work_that_was_done_from_a_linked_checkout_outlives_it() {
    let environment = ran_in_a_linked_checkout();
    environment.git(&["worktree", "remove", "../linked"]);
    let log = environment
        .repository()
        .join(".cofferdam/logs/side-one.log");
    assert!(log.is_file(), "there is no {}", log.display());
    let left = environment.shell("cat .cofferdam/worktrees/cofferdam-one-*/y");
    assert_eq!(left.expect_code(0).stdout, "y\n");
    let listed = environment.cofferdam(&["list"]).expect_code(0);
    assert!(listed.stdout.contains("\none   stopped  "), "{listed}");
    environment.cofferdam(&["logs", "one"]).expect_code(0);
    environment.cofferdam(&["runs"]).expect_code(0);
    environment
        .cofferdam(&["delete", "--force", "one"])
        .expect_code(0);
    assert!(!environment.git(&["branch"]).contains("cofferdam/one"));
    assert_eq!(environment.cofferdam(&["gc"]).expect_code(0).stderr, "");
}

/// A worktree that somebody has removed by hand has nothing checked out.
#[test]
fn a_branch_whose_worktree_is_gone_is_deleted() {
    let environment = TestEnvironment::with_repository();
    let script = "echo x > x; git add x; git commit -qm x; echo y > y";
    environment
        .run(&["--name", "one", "--mode", "bind"], script)
        .expect_code(0);
    let worktrees = environment.repository().join(".cofferdam/worktrees");
    std::fs::remove_dir_all(worktrees).unwrap();
    environment
        .cofferdam(&["delete", "--force", "one"])
        .expect_code(0);
    assert!(!environment.git(&["branch"]).contains("cofferdam/one"));
}

#[test]
fn what_is_printed_after_a_squash_that_conflicts_makes_one_commit() {
    let lives = Lives::with("one", &NONE);
    let script = "echo inside > README.md; git commit -qam inside; echo more > more; git add more; git commit -qm more";
    lives.exec("one", script).expect_code(0);
    lives.write("README.md", "outside\n");
    lives.git(&["commit", "-qam", "outside"]);
    let kept = lives.cofferdam(&["merge", "--squash", "one"]);
    let kept = kept.expect_code(1);
    // Git has the conflict, and its user ends it.
    follow(&lives, &kept.stdout, "next: ").expect_code(1);
    lives.write("README.md", "both\n");
    lives.git(&["commit", "-qam", "as one"]);
    assert_eq!(lives.git(&["rev-list", "--count", "--merges", "HEAD"]), "0");
    assert!(!lives.git(&["log", "--format=%s"]).contains("inside"));
    assert_eq!(lives.read("more"), "more\n");
    lives
        .cofferdam(&["delete", "--force", "one"])
        .expect_code(0);
}

/// The command in backquotes works.
#[test]
fn the_lock_that_a_dead_git_left_is_told_with_the_way_out() {
    for mode in ["layer", "bind"] {
        let lives = Lives::new();
        let heads = lives.repository().join(".git/refs/heads/cofferdam");
        std::fs::create_dir_all(&heads).unwrap();
        lives.write(".git/refs/heads/cofferdam/one.lock", "");
        let create = [&["create", "one", "--mode", mode], &NONE[..]].concat();
        let refused = lives.cofferdam(&create).expect_code(1);
        assert!(
            refused
                .stderr
                .contains("another git command has locked `refs/heads/cofferdam/one`"),
            "{refused}"
        );
        assert!(!refused.stderr.contains("Another git process"), "{refused}");
        let (_, remove) = refused.stderr.split_once("`rm ").unwrap();
        let (path, _) = remove.split_once('`').unwrap();
        lives.shell(&format!("rm {path}")).expect_code(0);
        lives.cofferdam(&create).expect_code(0);
        lives.cofferdam(&["delete", "one"]).expect_code(0);
    }
}

#[test]
fn what_ends_with_a_sandbox_is_counted() {
    let lives = Lives::with("one", &NONE);
    let sleeps = || {
        for _ in 0..2 {
            let detached = ["exec", "--detach", "one", "--", "sleep", "1000"];
            lives.cofferdam(&detached).expect_code(0);
        }
    };
    sleeps();
    let stopped = lives.cofferdam(&["stop", "one"]).expect_code(0);
    let text =
        "stopped one with 2 programs that ran in it; it comes back with: cofferdam start one\n";
    assert_eq!(stopped.stderr, text);
    lives.cofferdam(&["start", "one"]).expect_code(0);
    sleeps();
    let deleted = lives.cofferdam(&["delete", "one"]).expect_code(0);
    let text = "deleted one with 2 programs that ran in it\n";
    assert!(deleted.stderr.contains(text), "{deleted}");
}

/// It would be taken for uncommitted work of its user's.
#[test]
fn what_was_committed_before_an_agent_comes_home_before_it() {
    let lives = Lives::with("one", &["--head", "--network", "none"]);
    let script = "echo x > x; git add x; git commit -qm x; touch /tmp/done; sleep 1000";
    let detached = ["exec", "--detach", "one", "--", "sh", "-c", script];
    lives.cofferdam(&detached).expect_code(0);
    let waits = "until [ -e /tmp/done ]; do sleep 0.01; done";
    lives.cofferdam(&["exec", "one", "--", "sh", "-c", waits]);
    lives.git(&["reset", "--quiet", "--soft", "HEAD"]);
    let script = "echo w > w; git add w; git commit -qm w";
    let run = ["run", "--in", "one", "--", "sh", "-c", script];
    let ran = lives.cofferdam(&run).expect_code(0);
    assert!(!ran.stdout.contains("yours: "), "{ran}");
    assert!(!ran.stdout.contains("uncommitted work"), "{ran}");
    assert!(ran.stdout.contains("landed: 1 commit on main"), "{ran}");
    assert_eq!(lives.git(&["log", "-2", "--format=%s"]), "w\nx");
    lives
        .cofferdam(&["delete", "--force", "one"])
        .expect_code(0);
}

#[test]
fn what_is_uncommitted_is_told_by_log_too() {
    let lives = Lives::with("one", &NONE);
    let quiet = lives.cofferdam(&["log", "one"]).expect_code(0);
    assert_eq!(quiet.stderr, "");
    lives.exec("one", "echo draft > draft").expect_code(0);
    for command in ["log", "diff", "merge"] {
        let told = lives.cofferdam(&[command, "one"]).expect_code(0);
        let next = "`cofferdam diff --uncommitted one`";
        assert!(told.stderr.contains(next), "{command}: {told}");
    }
    lives
        .cofferdam(&["delete", "--force", "one"])
        .expect_code(0);
}

/// Nobody has worked in it.
#[test]
fn a_sandbox_whose_making_was_cut_short_is_told_as_that() {
    let lives = Lives::new();
    lives.configure("setup: 'touch /workspace/began 2>/dev/null; sleep 600'\n");
    let mut create = lives.command(&["create", "one", "--network", "none", "--mode", "bind"]);
    create.stdout(Stdio::null()).stderr(Stdio::null());
    let mut create = create.spawn().unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    while lives
        .listed("one")
        .is_none_or(|one| one["state"] != "creating")
    {
        assert!(Instant::now() < until, "it is not made");
        std::thread::sleep(Duration::from_millis(5));
    }
    create.kill().unwrap();
    create.wait().unwrap();
    while lives.listed("one").unwrap()["interrupted"] != true {
        assert!(Instant::now() < until, "it goes on");
        std::thread::sleep(Duration::from_millis(5));
    }
    let listed = lives.cofferdam(&["list"]).expect_code(0);
    let text = "one: its making was cut short, and nobody has worked in it; clear it up with: cofferdam gc\n";
    assert_eq!(listed.stderr, text);
    lives.cofferdam(&["gc"]).expect_code(0);
    assert!(lives.listed("one").is_none());
}

/// What stood in the way once may be gone, and nobody looks again for a list.
#[test]
fn a_list_tells_no_reason_that_may_have_passed() {
    let lives = Lives::with("one", &NONE);
    lives
        .exec("one", "echo x > x; git add x; git commit -qm x")
        .expect_code(0);
    lives.write(".git/refs/heads/cofferdam/one.lock", "");
    let kept = lives.cofferdam(&["collect", "one"]).expect_code(1);
    assert!(kept.stdout.contains("`rm '"), "{kept}");
    lives.cofferdam(&["delete", "one"]).expect_code(1);
    let lock = lives
        .repository()
        .join(".git/refs/heads/cofferdam/one.lock");
    std::fs::remove_file(lock).unwrap();
    let listed = lives.cofferdam(&["list"]).expect_code(0);
    assert!(
        listed.stderr.contains("one: the commits are kept on "),
        "{listed}"
    );
    assert!(!listed.stderr.contains("locked"), "{listed}");
    follow(&lives, &listed.stderr, "take them with: ").expect_code(0);
    assert_eq!(lives.read("x"), "x\n");
    lives
        .cofferdam(&["delete", "--force", "one"])
        .expect_code(0);
}
