use crate::environment::{TestEnvironment, check, commit_script};

#[test]
fn nothing_yet() {
    let environment = TestEnvironment::with_repository();
    let done = environment.cofferdam(&["list"]);
    check!(environment, done, @"
    code: 0
    --- stdout
    --- stderr
    no sandboxes; `cofferdam run` makes one
    ");
    let done = environment.cofferdam(&["list", "--json"]).expect_code(0);
    assert_eq!(done.stdout, "[]\n");
    assert_eq!(done.stderr, "");
}

#[test]
fn outside_of_a_repository() {
    let environment = TestEnvironment::empty();
    let done = environment.cofferdam(&["list"]);
    check!(environment, done, @"
    code: 1
    --- stdout
    --- stderr
    error: [PLACE]/repository is not in a git repository
    hint: start it in a repository, name one with `-C DIR`, or make one with `git init`
    ");
    environment.cofferdam(&["list", "--all"]).expect_code(0);
}

#[test]
fn a_branch_sandbox_with_its_commits() {
    let environment = TestEnvironment::with_repository();
    environment
        .run(
            &["--branch", "feature/a", "--name", "first"],
            &commit_script(&["a", "b"]),
        )
        .expect_code(0);
    let done = environment.cofferdam(&["list", "--json"]).expect_code(0);
    let found: serde_json::Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!(found.as_array().unwrap().len(), 1, "{done}");
    let one = &found[0];
    assert_eq!(one["name"], "first");
    assert_eq!(one["kind"], "task");
    assert_eq!(one["provider"], "native");
    assert_eq!(one["mode"], "bind");
    assert_eq!(one["branch"], "feature/a");
    assert_eq!(one["ahead"], 2);
    assert_eq!(one["interrupted"], false);
    let done = environment.cofferdam(&["list"]).expect_code(0);
    let mut lines = done.stdout.lines();
    assert!(
        lines
            .next()
            .unwrap()
            .starts_with("NAME   KIND  PROVIDER  MODE  STATE"),
        "{done}"
    );
    assert!(
        lines
            .next()
            .unwrap()
            .starts_with("first  task  native    bind  stopped"),
        "{done}"
    );
}

#[test]
fn a_reader_that_goes_away_is_fine() {
    let environment = TestEnvironment::with_repository();
    let line = format!(
        "'{}' completions zsh | true; echo ${{PIPESTATUS[0]}}",
        env!("CARGO_BIN_EXE_cofferdam")
    );
    let done = environment.shell(&line).expect_code(0);
    assert_eq!((done.stdout.as_str(), done.stderr.as_str()), ("0\n", ""));
}
