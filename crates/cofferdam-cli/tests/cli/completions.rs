use crate::environment::TestEnvironment;

#[track_caller]
fn completes(shell: &str, words: &[&str]) {
    let done = TestEnvironment::empty()
        .cofferdam(&["completions", shell])
        .expect_code(0);
    assert_eq!(done.stderr, "");
    for word in words {
        assert!(done.stdout.contains(word), "{shell}: {word}");
    }
}

#[test]
fn each_shell() {
    completes(
        "bash",
        &["complete -F _cofferdam", "merge-to-head", "claude-code"],
    );
    completes(
        "zsh",
        &["#compdef cofferdam", "merge-to-head", "claude-code"],
    );
    completes(
        "fish",
        &["complete -c cofferdam", "merge-to-head", "claude-code"],
    );
    TestEnvironment::empty()
        .cofferdam(&["completions", "tcsh"])
        .expect_code(2);
}

#[test]
fn bash_takes_the_script() {
    let environment = TestEnvironment::empty();
    let script = environment
        .cofferdam(&["completions", "bash"])
        .expect_code(0)
        .stdout;
    let path = environment.temporary().join("completion");
    cofferdam::fsx::write_private(&path, script.as_bytes()).unwrap();
    let line = format!(
        "source '{}'; COMP_WORDS=(cofferdam run --merge); COMP_CWORD=2; _cofferdam cofferdam \
         --merge run; echo \"${{COMPREPLY[*]}}\"",
        path.display()
    );
    let done = environment.shell(&line).expect_code(0);
    assert_eq!(done.stdout, "--merge-to-head\n", "{done}");
}
