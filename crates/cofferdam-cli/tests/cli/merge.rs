use crate::environment::{TestEnvironment, check, commit_script};

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
    let done = environment.cofferdam(&["merge", "one"]).expect_code(0);
    assert!(
        done.stdout.starts_with("landed: 1 commit on main"),
        "{done}"
    );
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
