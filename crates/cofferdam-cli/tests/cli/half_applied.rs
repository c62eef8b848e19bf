//! What a death in the middle of an `apply` means for its sandbox's end.

use std::os::unix::ffi::OsStrExt;

use crate::environment::TestEnvironment;

/// After an `apply` of the only sandbox: as a death leaves it that came before its end was noted. It is not deleted until that is taken
/// back, which is done here.
#[track_caller]
fn stays_until_that_is_taken_back(environment: &TestEnvironment, name: &str) {
    let state = environment.home().join(".cofferdam/state");
    let state = state.read_dir().unwrap().flatten().next().unwrap().path();
    let top = environment.repository().canonicalize().unwrap();
    cofferdam::fsx::write_private(&state.join("applying"), top.as_os_str().as_bytes()).unwrap();
    let refused = environment.cofferdam(&["delete", name]).expect_code(1);
    assert!(refused.stderr.contains("cut short"), "{refused}");
    environment
        .cofferdam(&["apply", "--undo", name])
        .expect_code(0);
}

/// A sandbox `one` that lives on, with what this leaves in it, stopped.
#[track_caller]
fn living(options: &[&str], script: &str) -> TestEnvironment {
    let environment = TestEnvironment::with_repository();
    let create = ["create", "one", "--network", "none"];
    environment
        .cofferdam(&[&create[..], options].concat())
        .expect_code(0);
    environment
        .cofferdam(&["exec", "one", "--", "sh", "-ec", script])
        .expect_code(0);
    environment.cofferdam(&["collect", "one"]).expect_code(0);
    environment.cofferdam(&["stop", "one"]).expect_code(0);
    environment
}

#[test]
fn an_ended_one_is_not_deleted_before_that_is_finished_or_taken_back() {
    let environment = TestEnvironment::with_repository();
    environment
        .run(&["--name", "left", "-q"], "echo x > x")
        .expect_code(0);
    environment.cofferdam(&["apply", "left"]).expect_code(0);
    stays_until_that_is_taken_back(&environment, "left");
    assert!(!environment.repository().join("x").exists());
    // What was taken back is nowhere else again.
    let refused = environment.cofferdam(&["delete", "left"]).expect_code(1);
    assert!(refused.stderr.contains("uncommitted changes"), "{refused}");
    environment
        .cofferdam(&["delete", "--force", "left"])
        .expect_code(0);
    environment.expect_clean();
}

/// It is asked before anything of it ends.
#[test]
fn a_living_one_goes_on() {
    let environment = living(&[], "echo x > x");
    environment.cofferdam(&["apply", "one"]).expect_code(0);
    stays_until_that_is_taken_back(&environment, "one");
    let started = environment.cofferdam(&["start", "one"]).expect_code(0);
    assert!(!started.stderr.contains("had ended"), "{started}");
    let there = environment.cofferdam(&["exec", "one", "--", "cat", "x"]);
    assert_eq!(there.expect_code(0).stdout, "x\n");
    environment
        .cofferdam(&["delete", "--force", "one"])
        .expect_code(0);
    environment.expect_clean();
}

#[test]
fn one_that_has_nothing_else_to_keep_is_not_deleted() {
    let commit = "echo new > new; git add new; git commit -qm new";
    let environment = living(&["--branch", "work"], commit);
    environment.cofferdam(&["apply", "one"]).expect_code(0);
    stays_until_that_is_taken_back(&environment, "one");
    environment.cofferdam(&["delete", "one"]).expect_code(0);
    let kept = ["log", "--format=%s", "-1", "refs/cofferdam/trash/one"];
    assert_eq!(environment.git(&kept), "new");
}
