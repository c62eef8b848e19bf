use crate::environment::{TestEnvironment, commit_script};

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
fn bash_completes_the_names_of_sandboxes() {
    let environment = TestEnvironment::with_repository();
    for name in ["one", "other"] {
        environment
            .run(&["--branch", name, "--name", name], &commit_script(&["a"]))
            .expect_code(0);
    }
    let script = environment
        .cofferdam(&["completions", "bash"])
        .expect_code(0)
        .stdout;
    let path = environment.temporary().join("completion");
    cofferdam::fsx::write_private(&path, script.as_bytes()).unwrap();
    let check = |words: &str, wanted: &str| {
        let line = format!(
            "cofferdam() {{ '{}' \"$@\"; }}; source '{}'; COMP_WORDS=({words}); \
             COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
             _cofferdam_or_sandbox cofferdam \"${{COMP_WORDS[-1]}}\" \"${{COMP_WORDS[-2]}}\"; \
             echo \"${{COMPREPLY[*]}}\"",
            env!("CARGO_BIN_EXE_cofferdam"),
            path.display()
        );
        let done = environment.shell(&line).expect_code(0);
        assert_eq!(done.stdout, format!("{wanted}\n"), "{words}: {done}");
    };
    check("cofferdam exec o", "one other");
    check("cofferdam shell ''", "one other");
    check("cofferdam pause one ot", "other");
    check("cofferdam -C . diff on", "one");
    check("cofferdam exec one -- o", "");
    check("cofferdam create o", "");
    // Typed as a path, with nothing of that name in PATH; or as another name for it.
    let check = |setting: &str, typed: &str| {
        let line = format!(
            "{setting} cp '{}' ~/cofferdam; source '{}'; COMP_WORDS=('{typed}' shell ot); COMP_CWORD=2; \
             _cofferdam_or_sandbox '{typed}' ot shell; echo \"${{COMPREPLY[*]}}\"",
            env!("CARGO_BIN_EXE_cofferdam"),
            path.display()
        );
        let done = environment.shell(&line).expect_code(0);
        assert_eq!(done.stdout, "other\n", "{typed}: {done}");
    };
    let home = environment.home();
    check("", &home.join("cofferdam").to_string_lossy());
    check("", "~/cofferdam");
    check("", "../home/cofferdam");
    check("PATH=$PATH:~;", "box");
    for (shell, word) in [
        ("zsh", "names it:_cofferdam_sandboxes'"),
        ("zsh", "names them:_cofferdam_sandboxes'"),
        ("zsh", "_cofferdam_sandboxes() {"),
        (
            "fish",
            "using_subcommand exec\" -f -a \"(cofferdam list --names",
        ),
    ] {
        completes(shell, &[word]);
    }
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
