//! Shells in sandboxes that stay: which one a person gets, and how it looks at them.

use cofferdam_lab::skip;

use crate::lives::{Lives, OnTerminal};

/// The only directory in which the sandbox's programs look for others.
const PATH: &str = "PATH=/home/agent/bin";

/// A sandbox in which these are all the programs that a name finds. `None`: this machine lacks one of them.
fn with_only(shells: &[&str]) -> Option<Lives> {
    let lives = Lives::with("box", &["--network", "none", "--env", PATH]);
    let script = format!(
        "PATH=/usr/bin:/bin; mkdir ~/bin; for one in {}; do ln -s \"$(command -v $one)\" ~/bin/$one || exit 3; done",
        shells.join(" ")
    );
    let made = lives.cofferdam(&["exec", "box", "--", "/bin/sh", "-c", &script]);
    made.status.success().then_some(lives)
}

/// Says what it is, and is left.
#[track_caller]
fn use_and_leave(shell: &mut OnTerminal, kind: &str) {
    shell.press("echo shell=${ZSH_VERSION:+zs''h}${BASH_VERSION:+ba''sh}.\r");
    // A plain one does not say what it is.
    let kind = if kind == "sh" { "" } else { kind };
    shell.expect(&format!("shell={kind}."));
    shell.press("exit 4\r");
    shell.ends_with(4);
}

#[test]
fn the_best_shell_that_is_inside() {
    for (inside, best, prompt) in [
        (&["sh"][..], "sh", "box:/workspace/repository$ "),
        // With colours, as the terminal has them.
        (
            &["bash", "sh"],
            "bash",
            "box:\u{1b}[1;34m/workspace/repository",
        ),
        (
            &["zsh", "bash", "sh"],
            "zsh",
            "box:\u{1b}[34m/workspace/repository",
        ),
    ] {
        let Some(lives) = with_only(inside) else {
            skip!("a sandbox with {best}: this machine has none");
            continue;
        };
        let mut shell = lives.on_a_terminal(&["shell", "box"]);
        shell.expect(prompt);
        // What is said to run there is what was asked for, and no script of ours.
        let program = format!("/home/agent/bin/{best} -i");
        let status = lives.cofferdam(&["status", "box"]).expect_code(0);
        let (_, programs) = status.stdout.split_once("programs:\n").unwrap();
        assert_eq!(programs.lines().count(), 1, "{status}");
        assert!(programs.ends_with(&format!("  {program}\n")), "{status}");
        let refused = lives.cofferdam(&["delete", "box"]).expect_code(1);
        let said = format!("error: sandbox `box` is in use: `{program}` runs there\n");
        assert!(refused.stderr.starts_with(&said), "{refused}");
        shell.press("echo \"<$SHELL>\"\r");
        shell.expect(&format!("</home/agent/bin/{best}>"));
        use_and_leave(&mut shell, best);
    }
}

/// By `exec -t` each begins with its own prompt: none asks its new user anything.
#[test]
fn a_shell_that_is_asked_for_by_name() {
    let lives = Lives::with("box", &["--network", "none"]);
    for (name, prompt) in [
        ("sh", "$ "),
        ("bash", "$ "),
        ("zsh", "cofferdam-repository-box% "),
    ] {
        if name == "zsh" && !lives.exec("box", "command -v zsh").status.success() {
            skip!("zsh in a sandbox: this machine has none");
            continue;
        }
        let mut shell = lives.on_a_terminal(&["exec", "-t", "box", "--", name]);
        shell.expect(prompt);
        assert!(shell.is_raw());
        let status = lives.cofferdam(&["status", "box"]).expect_code(0);
        assert!(status.stdout.ends_with(&format!("  {name}\n")), "{status}");
        use_and_leave(&mut shell, name);
    }
}
