//! What does not go together is refused with code 2 before anything happens.

use crate::environment::{TestEnvironment, check};

#[track_caller]
fn refused(arguments: &[&str], words: &str) {
    let environment = TestEnvironment::with_repository();
    let done = environment.cofferdam(arguments).expect_code(2);
    assert!(done.stderr.contains(words), "{done}");
    assert!(done.stdout.is_empty(), "{done}");
    assert!(!environment.home().join(".cofferdam").exists());
    assert!(!environment.repository().join(".cofferdam").exists());
}

// covers: S2-12 S2-25
#[test]
fn conflicts() {
    refused(
        &["run", "--head", "--branch", "x", "--", "true"],
        "cannot be used with",
    );
    refused(
        &["run", "--head", "--merge-to-head", "--", "true"],
        "cannot be used with",
    );
    refused(&["run", "--base", "main", "--", "true"], "--branch <NAME>");
    refused(
        &["run", "--prompt", "a", "--prompt-file", "b", "--", "true"],
        "cannot be used with",
    );
    refused(
        &["run", "--arg", "A=b", "--", "true"],
        "--prompt-file <FILE>",
    );
    refused(
        &["run", "--prompt", "a", "--arg", "A=b", "--", "true"],
        "cannot be used with",
    );
    refused(
        &["run", "--head", "--copy", "a", "--", "true"],
        "cannot be used with",
    );
    refused(
        &["run", "--mode", "copy", "--head", "--", "true"],
        "`--mode copy` cannot work",
    );
    refused(
        &["run", "--mode", "layer", "--head", "--", "true"],
        "`--mode layer` cannot work",
    );
    refused(
        &["run", "--log", "a", "--no-log", "--", "true"],
        "cannot be used with",
    );
    refused(
        &["run", "--quiet", "--verbose", "--", "true"],
        "cannot be used with",
    );
    refused(
        &["run", "--runtime", "crun", "--", "true"],
        "`--runtime` is for containers",
    );
    refused(
        &["create", "one", "--image", "busybox"],
        "`--image` is for containers",
    );
}

#[test]
fn values() {
    refused(
        &["run", "--max-iterations", "0", "--", "true"],
        "--max-iterations",
    );
    refused(
        &["run", "--idle-timeout", "0", "--", "true"],
        "is not a time",
    );
    refused(&["run", "--memory", "lots", "--", "true"], "is not a size");
    refused(
        &["create", "box", "--memory", "4095k"],
        "'4095k' for '--memory <SIZE>': a sandbox has 4m of memory at least",
    );
    refused(
        &["run", "--cpus", "NaN", "--", "true"],
        "is not a number of CPUs",
    );
    refused(&["run", "--pids", "0", "--", "true"], "--pids");
    refused(
        &["run", "--branch", "a..b", "--", "true"],
        "is not a valid branch name",
    );
    refused(&["run", "--branch=-x", "--", "true"], "starts with `-`");
    refused(
        &["run", "--completion-signal", "", "--", "true"],
        "--completion-signal",
    );
    refused(
        &["run", "--env", "=x", "--", "true"],
        "`--env` needs a name",
    );
    refused(
        &["run", "--env", "NOT_SET_ANYWHERE", "--", "true"],
        "is not set in your environment",
    );
    refused(
        &[
            "run",
            "--prompt-file",
            "p",
            "--arg",
            "nothing",
            "--",
            "true",
        ],
        "is not KEY=VALUE",
    );
    refused(
        &[
            "run",
            "--prompt-file",
            "p",
            "--arg",
            "A=1",
            "--arg",
            "A=2",
            "--",
            "true",
        ],
        "is given twice",
    );
}

#[test]
fn agents() {
    refused(&["run"], "there is no agent");
    refused(&["run", "--agent", "nobody"], "invalid value 'nobody'");
    refused(&["run", "--agent", "command"], "needs the program to run");
    refused(&["run", "--model", "m", "--", "true"], "takes no model");
}

#[test]
fn hostile_arguments_are_shown_escaped() {
    refused(
        &["run", "--branch", "a\u{1b}[2Jb", "--", "true"],
        "a\\u{1b}[2Jb",
    );
    refused(
        &["run", "--memory", "\u{1b}[2J", "--", "true"],
        "`\\u{1b}[2J` is not a size",
    );
}

#[test]
fn directories() {
    let environment = TestEnvironment::empty();
    let done = environment.cofferdam(&["-C", "missing", "list"]);
    check!(environment, done, @"
    code: 1
    --- stdout
    --- stderr
    error: cannot work in missing: No such file or directory (os error 2)
    hint: give another directory with `-C DIR`
    ");
}

#[test]
fn version_needs_nothing() {
    let environment = TestEnvironment::empty();
    let done = crate::environment::finish(
        environment
            .command(&["--version"])
            .env_clear()
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap(),
    )
    .expect_code(0);
    let known = format!("cofferdam {}", env!("CARGO_PKG_VERSION"));
    assert!(done.stdout.starts_with(&known), "{done}");
    assert_eq!(done.stdout.lines().count(), 1, "{done}");
    assert_eq!(done.stderr, "");
}

/// Also where more words are missing: `cofferdam net`.
#[test]
fn a_bare_command_is_help() {
    let environment = TestEnvironment::empty();
    for arguments in [&[][..], &["net"]] {
        let bare = environment.cofferdam(arguments).expect_code(0);
        let asked = environment.cofferdam(&[arguments, &["--help"]].concat());
        assert!(bare.stdout.contains("Usage: cofferdam"), "{bare}");
        assert_eq!(bare.stderr, "");
        let usage = |text: &str| {
            text.lines()
                .find(|line| line.starts_with("Usage:"))
                .map(str::to_owned)
        };
        assert_eq!(usage(&bare.stdout), usage(&asked.stdout));
    }
    environment.cofferdam(&["nothing"]).expect_code(2);
}

#[test]
fn homeless() {
    let environment = TestEnvironment::empty();
    let done = crate::environment::finish(
        environment
            .command(&["list", "--all-repos"])
            .env_remove("HOME")
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap(),
    );
    check!(environment, done, @"
    code: 1
    --- stdout
    --- stderr
    error: there is no place for Cofferdam's own files: HOME is not set to an absolute path
    hint: set HOME, or COFFERDAM_HOME to a directory of your own
    ");
}
