//! Files and commands that the user named for a run, and that do not do: what failed, and what to do.

use crate::environment::{Done, TestEnvironment};

#[track_caller]
fn hinted(done: &Done, start: &str) {
    let hints: Vec<&str> = done
        .stderr
        .lines()
        .filter_map(|line| line.strip_prefix("hint: "))
        .collect();
    assert!(
        hints.len() == 1 && hints[0].starts_with(start),
        "{start}\n{done}"
    );
}

#[test]
fn a_prompt_file_that_is_not_there() {
    let environment = TestEnvironment::with_repository();
    let done = environment
        .run(&["--prompt-file", "nosuch"], "true")
        .expect_code(1);
    assert!(done.stderr.contains("/nosuch: No such file"), "{done}");
    hinted(
        &done,
        "`--prompt-file` takes the path of a template, from the directory that you are in; ",
    );
    let done = environment
        .run(&["--prompt-file", "src"], "true")
        .expect_code(1);
    hinted(&done, "name a file in it: `ls ");
}

#[test]
fn a_login_that_is_not_there() {
    let environment = TestEnvironment::with_repository();
    let run = ["run", "--agent", "codex", "--prompt", "x", "--login"];
    let done = environment
        .cofferdam(&[&run[..], &["nosuch"]].concat())
        .expect_code(1);
    let said = "error: the login of codex cannot be read: cannot open ";
    assert!(done.stderr.starts_with(said), "{done}");
    hinted(
        &done,
        "its program keeps one in `~/.codex/auth.json` once it is logged in: `--login ~/.codex/auth.json`",
    );
}

#[test]
fn an_expression_that_fails() {
    let environment = TestEnvironment::with_repository();
    environment.write("fix.md", "see !`echo no such thing >&2; exit 4`\n");
    let done = environment
        .run(&["--head", "--prompt-file", "fix.md"], "true")
        .expect_code(1);
    let said = "error: the prompt's shell expression `echo no such thing >&2; exit 4` failed: exit code 4\n  \
                | no such thing\n";
    assert!(done.stderr.contains(said), "{done}");
    hinted(
        &done,
        "it runs in the sandbox, at the top of the repository: correct it in the template, or let it fail with ` || \
         true` at its end",
    );
    // As the hint has it.
    environment.write(
        "fix.md",
        "see !`(echo no such thing >&2; exit 4) || true`\n",
    );
    environment
        .run(&["--head", "--prompt-file", "fix.md"], "true")
        .expect_code(0);
}

#[test]
fn a_hook_that_fails() {
    let environment = TestEnvironment::with_repository();
    for (option, place, runs) in [
        (
            "--on-worktree-ready",
            "host.onWorktreeReady",
            "on your machine, in the worktree,",
        ),
        (
            "--on-host-ready",
            "host.onSandboxReady",
            "on your machine, in the directory",
        ),
        (
            "--on-sandbox-ready",
            "sandbox.onSandboxReady",
            "in the sandbox,",
        ),
    ] {
        let command = "exec 2>&1; echo first; echo no such thing >&2; exit 3";
        let done = environment
            .run(&["--branch", "feature", option, command], "true")
            .expect_code(1);
        let said = format!(
            "error: the {place} hook `{command}` failed: exit code 3\n  | first\n  | no such thing\n"
        );
        assert!(done.stderr.contains(&said), "{done}");
        let hint =
            format!("no agent was started; correct the command after `{option}`: it runs {runs}");
        hinted(&done, &hint);
        let less = done.stderr.rsplit('`').nth(1).unwrap();
        let log = environment
            .shell(&less.replace("less ", "cat "))
            .expect_code(0);
        assert!(log.stdout.contains("no such thing"), "{log}");
    }
}
