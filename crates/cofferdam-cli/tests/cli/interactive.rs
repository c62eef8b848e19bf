//! `cofferdam interactive`: an agent's own terminal interface in a sandbox, with its user there.

use serde_json::Value;

use crate::environment::finish;
use crate::lives::{Lives, OnTerminal};
use crate::mistakes::at_work_on;

/// Called like the real one: it says what it was given, takes a line from its terminal, keeps a conversation, commits and leaves some
/// work.
const CLAUDE: &str = r#"#!/bin/sh
test -t 0 && test -t 1 && test -t 2 || exit 99
id=01234567-89ab-cdef-0123-456789abcdef
projects=~/.claude/projects/$(pwd | tr -c 'a-zA-Z0-9\n' -)
mkdir -p "$projects"
for word; do case $word in "$id") echo "resumed: $(cat "$projects/$id.jsonl")" ;; esac; last=$word; done
echo "asked: $last; size: $(stty size)"
printf 'you: '; read -r line
echo "heard $line"
printf '{"sessionId":"%s","said":"%s"}\n' "$id" "$line" >> "$projects/$id.jsonl"
echo "$line" > said; git add said; git commit -qm "said $line"; echo left > left
exit 3
"#;

fn user() -> Lives {
    let lives = Lives::new();
    lives.has_program("claude", CLAUDE);
    lives.write(".cofferdam/.env", "ANTHROPIC_API_KEY=secret\n");
    lives
}

pub(crate) fn at(lives: &Lives, words: &[&str]) -> OnTerminal {
    let mut command = lives.command(&[&["interactive"], words].concat());
    let path = format!("{}/tools/bin:/usr/bin:/bin", lives.home().display());
    command.env("PATH", path);
    OnTerminal::start(&command, (33, 111))
}

const CLAUDE_CODE: [&str; 4] = ["--agent", "claude-code", "--network", "none"];

// covers: S2-23
#[test]
fn the_program_has_the_terminal_and_its_commits_land() {
    let lives = user();
    for (options, branch, word) in [
        (&[][..], "main", "one"),
        (&["--branch", "own"], "own", "two"),
        (&["--head"], "main", "three"),
    ] {
        let words = [&CLAUDE_CODE[..], &["--prompt", "do it"], options].concat();
        let mut terminal = at(&lives, &words);
        terminal.expect("asked: do it; size: 33 111");
        terminal.expect("you: ");
        terminal.press(&format!("{word}\r"));
        terminal.expect(&format!("heard {word}"));
        terminal.expect(&format!("1 commit on {branch}"));
        terminal.ends_with(3);
        let text = terminal.text();
        let told = lives.git(&["log", "-1", "--format=%s", branch]);
        assert_eq!(told.trim(), format!("said {word}"), "{options:?}: {text}");
        lives.shell("git reset -q --hard; git clean -fdq");
        // What was left is said, and nothing of it is lost; a run is known when it is over.
        let is_kept = text.contains("uncommitted work of the agent is kept");
        assert!(options.contains(&"--head") || is_kept, "{text}");
        let runs = lives.cofferdam(&["runs", "--json"]).expect_code(0).stdout;
        let runs: Value = serde_json::from_str(&runs).unwrap();
        assert_eq!(runs[0]["agent"], "claude-code", "{runs}");
    }
}

/// Where a run says what is missing, a person is asked.
// covers: S2-28
#[test]
fn what_a_template_needs_is_asked_for() {
    let lives = user();
    lives.write(
        ".cofferdam/prompts/fix.md",
        "Fix {{ISSUE}} in {{PLACE}} for {{WHO}}.\n",
    );
    let file = [
        "--prompt-file",
        ".cofferdam/prompts/fix.md",
        "--arg",
        "PLACE=src",
    ];
    let mut terminal = at(&lives, &[&CLAUDE_CODE[..], &file].concat());
    terminal.expect("ISSUE: ");
    terminal.press("17 `touch x`\r");
    terminal.expect("WHO: ");
    terminal.press("me\r");
    terminal.expect("asked: Fix 17 `touch x` in src for me.");
    terminal.press("done\r");
    terminal.ends_with(3);
    // Nothing that could be asked for is left open in a run without a terminal.
    let words = [&["run"], &CLAUDE_CODE[..], &file].concat();
    let refused = lives.cofferdam(&words).expect_code(1);
    assert!(refused.stderr.contains("ISSUE"), "{refused}");
}

/// Its commands run in the sandbox before the program has the terminal.
#[test]
fn a_template_is_filled_in_inside() {
    let lives = user();
    let file = ".cofferdam/prompts/where.md";
    lives.write(
        file,
        "On !`git branch --show-current` in !`pwd` for {{TARGET_BRANCH}}.\n",
    );
    let options = ["--branch", "own", "--prompt-file", file, "--arg", "SPARE=x"];
    let mut terminal = at(&lives, &[&CLAUDE_CODE[..], &options].concat());
    terminal.expect("prompt argument `SPARE` is not used");
    terminal.expect("asked: On own in /workspace/repository for main.");
    terminal.press("done\r");
    terminal.ends_with(3);
}

#[test]
fn a_prompt_that_cannot_be_is_refused_before_anything_is_made() {
    let lives = user();
    let (file, long) = (".cofferdam/prompts/it.md", ".cofferdam/prompts/long.md");
    lives.write(file, "For {{SOURCE_BRANCH}}.\n");
    lives.write(long, &"0123456789 abcdefgh\n".repeat(250_000));
    let built_in = ["--prompt-file", file, "--arg", "SOURCE_BRANCH=x"];
    let is_long = "a prompt of 5000000 bytes does not fit on the command line of claude-code";
    for (options, says, code) in [
        (
            &built_in[..],
            "`SOURCE_BRANCH` is built in and cannot be given",
            1,
        ),
        (&["--prompt", "x", "--arg", "A=b"], "cannot be used with", 2),
        (&["--prompt-file", long], is_long, 1),
        (&["--prompt-file", long, "--keep"], is_long, 1),
    ] {
        let mut terminal = at(&lives, &[&CLAUDE_CODE[..], options].concat());
        terminal.expect(says);
        if says == is_long {
            terminal.expect("put it into a file, and name that in a short prompt");
        }
        terminal.ends_with(code);
        assert!(lives.all().is_empty(), "{options:?}");
        let runs = lives.cofferdam(&["runs", "--json"]).expect_code(0).stdout;
        assert_eq!(runs, "[]\n", "{options:?}");
        assert!(!lives.repository().join(".cofferdam/logs").exists());
    }
}

#[test]
fn a_busy_branch_is_refused_by_its_sandboxs_name() {
    let lives = user();
    let mut running = at_work_on(&lives, "feature", "busy");
    let words = [&CLAUDE_CODE[..], &["--branch", "feature"]].concat();
    let mut terminal = at(&lives, &words);
    terminal.expect("branch `feature` is in use by the running sandbox `busy`");
    terminal.expect("wait for");
    terminal.ends_with(1);
    assert!(!terminal.text().contains("asked: "), "{}", terminal.text());
    running.kill().unwrap();
    running.wait().unwrap();
}

#[test]
fn a_conversation_goes_on_at_the_terminal() {
    let lives = user();
    let mut terminal = at(&lives, &[&CLAUDE_CODE[..], &["--name", "talk"]].concat());
    terminal.expect("you: ");
    terminal.press("first\r");
    terminal.ends_with(3);
    let shown = lives.cofferdam(&["runs", "show", "talk"]).expect_code(0);
    assert!(shown.stdout.contains("01234567-89ab-cdef"), "{shown}");
    let mut command = lives.command(&["continue", "talk", "--interactive", "--network", "none"]);
    let path = format!("{}/tools/bin:/usr/bin:/bin", lives.home().display());
    command.env("PATH", path);
    let mut terminal = OnTerminal::start(&command, (24, 80));
    terminal.expect(
        "resumed: {\"sessionId\":\"01234567-89ab-cdef-0123-456789abcdef\",\"said\":\"first\"}",
    );
    terminal.expect("you: ");
    terminal.press("second\r");
    terminal.ends_with(3);
    // What the first one left uncommitted keeps its branch there, and the second one goes on on it.
    let subjects = lives.git(&["log", "-2", "--format=%s", "cofferdam/talk"]);
    assert_eq!(subjects, "said second\nsaid first", "{}", terminal.text());
}

#[test]
fn in_a_sandbox_that_stays_and_in_one_that_is_kept() {
    let lives = user();
    let mut terminal = at(
        &lives,
        &[&CLAUDE_CODE[..], &["--name", "kept", "--keep"]].concat(),
    );
    terminal.expect("you: ");
    terminal.press("one\r");
    terminal.ends_with(3);
    assert_eq!(lives.state("kept"), "active");
    let mut terminal = at(&lives, &["--agent", "claude-code", "--in", "kept"]);
    terminal.expect("you: ");
    terminal.press("two\r");
    terminal.ends_with(3);
    let subjects = lives.git(&["log", "-2", "--format=%s", "cofferdam/kept"]);
    assert_eq!(subjects, "said two\nsaid one");
    lives
        .cofferdam(&["delete", "--force", "kept"])
        .expect_code(0);
}

/// A program of the user's, which Ctrl-C ends.
#[test]
fn keys_are_the_programs() {
    let lives = Lives::new();
    let script = "trap 'echo stopped; git commit -q --allow-empty -m stopped; exit 5' INT; echo waiting; while :; do sleep 0.05; done";
    let mut terminal = at(&lives, &["--network", "none", "--", "sh", "-c", script]);
    terminal.expect("waiting");
    terminal.press("\u{3}");
    terminal.expect("stopped");
    terminal.ends_with(5);
    assert_eq!(lives.git(&["log", "-1", "--format=%s"]).trim(), "stopped");
    lives.expect_clean();
}

#[test]
fn without_a_terminal_or_with_what_is_about_no_person() {
    let lives = user();
    let words = [&["interactive"], &CLAUDE_CODE[..]].concat();
    let refused = finish(
        lives
            .command(&words)
            .stdin(std::process::Stdio::null())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap(),
    )
    .expect_code(2);
    assert!(refused.stderr.contains("`cofferdam run`"), "{refused}");
    let mut terminal = at(&lives, &[&CLAUDE_CODE[..], &["--max-time", "1h"]].concat());
    terminal.expect("`--max-time` is about an agent that works by itself");
    terminal.ends_with(2);
    assert!(lives.all().is_empty());
}

/// The second screen, no cursor, marked pastes, the mouse.
const LEFT: &str =
    "printf '\\033[?1049h\\033[?25l\\033[?2004h\\033[?1000h\\033[?1006h'; stty raw -echo";

/// What a program left on its terminal is taken back in the end, however it ended.
#[test]
fn the_terminal_is_its_users_again() {
    let lives = Lives::with("box", &["--network", "none"]);
    for (end, code) in [("exit 0", 0), ("kill -9 $$", 137), ("kill -TERM $$", 143)] {
        let script = format!("{LEFT}; {end}");
        for words in [
            &[
                "interactive",
                "--network",
                "none",
                "--",
                "sh",
                "-c",
                &script,
            ][..],
            &["interactive", "--in", "box", "--", "sh", "-c", &script],
            &["exec", "-t", "box", "--", "sh", "-c", &script],
        ] {
            let mut terminal = lives.on_a_terminal(words);
            terminal.expect("\x1b[?1006h");
            for taken_back in ["[?1047l", "[?25h", "[?2004l", "[?1000l", "[?1006l"] {
                terminal.expect(&format!("\x1b{taken_back}"));
            }
            terminal.ends_with(code);
        }
    }
    let mut shell = lives.on_a_terminal(&["shell", "box"]);
    shell.expect("/workspace/repository");
    shell.press(&format!("{LEFT}; kill -9 $$\r"));
    shell.expect("\x1b[?1006h");
    shell.expect("\x1b[?1047l");
    shell.ends();
    shell.expect_sane();
}
