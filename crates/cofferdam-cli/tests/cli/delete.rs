use crate::environment::{TestEnvironment, commit_script};

#[test]
fn the_tip_can_be_brought_back() {
    let environment = TestEnvironment::with_repository();
    environment
        .run(
            &["--branch", "feature", "--name", "one"],
            &commit_script(&["a"]),
        )
        .expect_code(0);
    let tip = environment.git(&["rev-parse", "feature"]);
    let done = environment.cofferdam(&["delete", "one"]).expect_code(0);
    assert!(done.stderr.starts_with("deleted one\n"), "{done}");
    assert!(done.stderr.contains("refs/cofferdam/trash/one"), "{done}");
    assert_eq!(
        environment.git(&["rev-parse", "refs/cofferdam/trash/one"]),
        tip
    );
    assert_eq!(environment.git(&["branch", "--list", "feature"]), "");
    assert_eq!(
        environment
            .cofferdam(&["list", "--json"])
            .expect_code(0)
            .stdout,
        "[]\n"
    );
    environment.expect_clean();
}

#[test]
fn purge_keeps_nothing() {
    let environment = TestEnvironment::with_repository();
    let before = environment.references();
    environment
        .run(
            &["--branch", "feature", "--name", "one"],
            &commit_script(&["a"]),
        )
        .expect_code(0);
    environment
        .cofferdam(&["delete", "one", "--purge"])
        .expect_code(0);
    assert_eq!(environment.references(), before);
    environment.expect_clean();
}

#[test]
fn uncommitted_work_is_not_deleted_without_force() {
    let environment = TestEnvironment::with_repository();
    environment
        .run(
            &["--branch", "feature", "--name", "one"],
            "echo draft > draft.txt",
        )
        .expect_code(0);
    let done = environment.cofferdam(&["delete", "one"]).expect_code(1);
    assert!(done.stderr.contains("uncommitted changes"), "{done}");
    assert!(done.stderr.contains("hint: "), "{done}");
    environment
        .cofferdam(&["delete", "one", "--force"])
        .expect_code(0);
    environment.expect_clean();
}
