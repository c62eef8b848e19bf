//! Hooks of the user's that fail, and what is left of it.

use crate::environment::TestEnvironment;

/// What hooks made is nobody's work: after one that failed, the same command is run again once it is mended.
#[test]
fn a_hook_that_failed_leaves_nothing_in_the_way() {
    let environment = TestEnvironment::with_repository();
    let run = |name: &str, hook: &str| {
        let options = [
            "--branch",
            "p/1",
            "--name",
            name,
            "--on-worktree-ready",
            "touch made",
            "--on-sandbox-ready",
            hook,
        ];
        environment.run(&options, "echo a > a.txt; git add a.txt; git commit -qm a")
    };
    let done = run("one", "touch inside; exit 3").expect_code(1);
    assert!(done.stderr.contains("exit code 3"), "{done}");
    assert!(!done.stdout.contains("uncommitted work"), "{done}");
    let worktrees = environment.git(&["worktree", "list", "--porcelain"]);
    assert_eq!(worktrees.matches("worktree ").count(), 1, "{worktrees}");
    let list = environment.cofferdam(&["list"]).expect_code(0);
    assert!(!list.stdout.contains("one"), "{list}");
    environment.git(&["fsck", "--strict"]);
    assert_eq!(environment.git(&["branch", "--list", "p/1"]), "");
    // The control: what an agent left stays, and so does what a hook made beside it.
    let done = run("one", "true").expect_code(0);
    assert!(
        done.stdout.contains("uncommitted work of the agent"),
        "{done}"
    );
    let held = run("two", "true").expect_code(1);
    let hint = "or, when nothing of it is needed, `cofferdam delete --force one`";
    assert!(held.stderr.contains(hint), "{held}");
    environment
        .cofferdam(&["delete", "--force", "one"])
        .expect_code(0);
    run("two", "true").expect_code(0);
}
