//! `cofferdam diff` and `cofferdam log`.

use crate::environment::{TestEnvironment, check, commit_script};
use crate::everywhere::everywhere;

fn with_sandbox() -> TestEnvironment {
    let environment = TestEnvironment::with_repository();
    environment
        .run(
            &["--branch", "feature", "--name", "look"],
            &commit_script(&["a", "b"]),
        )
        .expect_code(0);
    environment
}

#[test]
fn diff_in_three_styles() {
    let environment = with_sandbox();
    let done = environment.cofferdam(&["diff", "look", "--name-status"]);
    check!(environment, done, @"
    code: 0
    --- stdout
    A	a.txt
    A	b.txt
    --- stderr
    ");
    let done = environment
        .cofferdam(&["diff", "look", "--stat"])
        .expect_code(0);
    assert!(
        done.stdout.contains("2 files changed, 2 insertions(+)"),
        "{done}"
    );
    let done = environment.cofferdam(&["diff", "look"]).expect_code(0);
    assert!(done.stdout.contains("\n+a\n"), "{done}");
    environment
        .cofferdam(&["diff", "look", "--stat", "--name-status"])
        .expect_code(2);
}

#[test]
fn log_newest_last() {
    let environment = with_sandbox();
    let done = environment.cofferdam(&["log", "look"]);
    check!(environment, done, @"
    code: 0
    --- stdout
    [SHORT] a
    [SHORT] b
    --- stderr
    ");
    let done = environment
        .cofferdam(&["log", "look", "--json"])
        .expect_code(0);
    let commits: serde_json::Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!(commits[1]["subject"], "b");
    assert_eq!(commits[1]["id"], environment.git(&["rev-parse", "feature"]));
}

#[test]
fn hostile_names_and_subjects_are_inert() {
    everywhere(131, |world| {
        let script = r#"
        name=$(printf 'a\033[2Jb\302\233c'); echo x > "$name"; git add -A
        git commit -qm "$(printf 'red \033[31m \342\200\256 end')"
    "#;
        let done = world
            .run(&["--branch", "hostile", "--name", "hostile"], script)
            .expect_code(0);
        for text in [
            done.stdout,
            done.stderr,
            world.cofferdam(&["log", "hostile"]).expect_code(0).stdout,
            world
                .cofferdam(&["log", "hostile", "--json"])
                .expect_code(0)
                .stdout,
            world.cofferdam(&["diff", "hostile"]).expect_code(0).stdout,
            world
                .cofferdam(&["diff", "hostile", "--stat"])
                .expect_code(0)
                .stdout,
            world.cofferdam(&["list"]).expect_code(0).stdout,
        ] {
            assert!(!text.is_empty());
            assert!(!text.contains(['\u{1b}', '\u{9b}', '\u{202e}']), "{text:?}");
        }
        world
            .cofferdam(&["delete", "--force", "hostile"])
            .expect_code(0);
    });
}

#[test]
fn unknown_names() {
    let environment = TestEnvironment::with_repository();
    for command in ["diff", "log", "merge", "delete"] {
        let done = environment.cofferdam(&[command, "nobody"]).expect_code(1);
        assert!(
            done.stderr.starts_with("error: ") && done.stderr.contains("nobody"),
            "{done}"
        );
    }
}
