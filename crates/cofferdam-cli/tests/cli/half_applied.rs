//! What a death in the middle of an `apply` means for its sandbox's end.

use std::os::unix::ffi::OsStrExt;

use crate::environment::TestEnvironment;

/// As a death leaves the `apply` of its only sandbox that came before the end was noted.
fn cut_short(environment: &TestEnvironment) {
    let state = environment.home().join(".cofferdam/state");
    let state = state.read_dir().unwrap().flatten().next().unwrap().path();
    let top = environment.repository().canonicalize().unwrap();
    cofferdam::fsx::write_private(&state.join("applying"), top.as_os_str().as_bytes()).unwrap();
}

#[test]
fn an_ended_one_is_not_deleted_before_that_is_finished_or_taken_back() {
    let environment = TestEnvironment::with_repository();
    environment
        .run(&["--name", "left", "-q"], "echo x > x")
        .expect_code(0);
    environment.cofferdam(&["apply", "left"]).expect_code(0);
    cut_short(&environment);
    let refused = environment.cofferdam(&["delete", "left"]).expect_code(1);
    assert!(refused.stderr.contains("cut short"), "{refused}");
    environment
        .cofferdam(&["apply", "--undo", "left"])
        .expect_code(0);
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
    let environment = TestEnvironment::with_repository();
    environment
        .cofferdam(&["create", "one", "--network", "none"])
        .expect_code(0);
    environment
        .cofferdam(&["exec", "one", "--", "sh", "-c", "echo x > x"])
        .expect_code(0);
    for command in ["stop", "apply"] {
        environment.cofferdam(&[command, "one"]).expect_code(0);
    }
    cut_short(&environment);
    let refused = environment.cofferdam(&["delete", "one"]).expect_code(1);
    assert!(refused.stderr.contains("cut short"), "{refused}");
    environment
        .cofferdam(&["apply", "--undo", "one"])
        .expect_code(0);
    let started = environment.cofferdam(&["start", "one"]).expect_code(0);
    assert!(!started.stderr.contains("had ended"), "{started}");
    let there = environment.cofferdam(&["exec", "one", "--", "cat", "x"]);
    assert_eq!(there.expect_code(0).stdout, "x\n");
    environment
        .cofferdam(&["delete", "--force", "one"])
        .expect_code(0);
    environment.expect_clean();
}
