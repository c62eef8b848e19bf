//! `cofferdam interactive --no-sandbox`: a person and their agent on this machine itself.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use crate::lives::{Lives, OnTerminal};

/// Called like the real one: it says what it was given and where it is, takes a line, commits, and leaves some work. Hung up, it goes on.
const CLAUDE: &str = r#"#!/bin/sh
test -t 0 && test -t 1 && test -t 2 || exit 99
trap '' HUP
echo "agent=$$ command=$PPID; mark $MARK; home $HOME; sandboxed ${CLAUDE_CODE_SANDBOXED:-no}"
for word; do echo "word $word"; done
pwd
printf 'you: '; read -r line
echo "$line" > said; git add said; git commit -qm "said $line"; echo left > left
case $line in amend) git checkout -q --detach; git commit -q --amend -m amended; rm left ;; esac
case $line in stay) echo staying; for second in $(seq 60); do sleep 1; done ;; esac
exit 3
"#;

fn user() -> Lives {
    let lives = Lives::new();
    lives.has_program("claude", CLAUDE);
    lives
}

fn at(lives: &Lives, words: &[&str]) -> OnTerminal {
    let no_sandbox = ["interactive", "--no-sandbox", "--agent", "claude-code"];
    let mut command = lives.command(&[&no_sandbox[..], words].concat());
    let path = format!("{}/tools/bin:/usr/bin:/bin", lives.home().display());
    command.env("PATH", path).env("MARK", "of the user");
    OnTerminal::start(&command, (33, 111))
}

/// What it was told of itself.
fn number(text: &str, before: &str) -> Pid {
    let (_, rest) = text.rsplit_once(before).unwrap();
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    Pid::from_raw(digits.parse().unwrap()).unwrap()
}

/// What the agent left in the worktree of a temporary branch.
#[track_caller]
fn left_in_worktree(lives: &Lives) -> PathBuf {
    let listed = lives.git(&["worktree", "list", "--porcelain"]);
    let mut places = listed
        .lines()
        .filter_map(|line| line.strip_prefix("worktree "));
    let place = places.find(|place| place.contains("/worktrees/cofferdam-t-"));
    PathBuf::from(place.unwrap()).join("left")
}

#[track_caller]
fn ends(process: Pid) {
    let until = Instant::now() + Duration::from_secs(30);
    while test_kill_process(process).is_ok() {
        assert!(Instant::now() < until, "{process:?} goes on");
        std::thread::sleep(Duration::from_millis(10));
    }
}

// covers: S2-1 S2-4 S2-5 S2-9 S2-12
#[test]
fn it_has_the_users_machine_and_asks_them() {
    let lives = user();
    let text = "[user]\n\temail = own@example.com\n[mark]\n\tof = the-user\n";
    let global = lives.puts(".gitconfig", text);
    assert_eq!(lives.git(&["config", "mark.of"]), "the-user");
    let top = lives.repository();
    for (options, branch, word) in [
        (&[][..], "main", "one"),
        (&["--branch", "own"], "own", "two"),
        (&["--merge-to-head", "--name", "t"], "main", "three"),
    ] {
        let mut terminal = at(&lives, &[options, &["--prompt", "do it"]].concat());
        terminal.expect("no sandbox: the agent works on this machine as you do");
        terminal.expect("mark of the user");
        let home = format!("home {}; sandboxed no", lives.home().display());
        terminal.expect(&home);
        terminal.expect("word --\r\nword do it\r\n");
        terminal.expect("you: ");
        terminal.press(&format!("{word}\r"));
        terminal.expect(&format!("1 commit on {branch}"));
        terminal.ends_with(3);
        let text = terminal.text();
        assert!(!text.contains("skip-permissions"), "{text}");
        let told = lives.git(&["log", "-1", "--format=%s", branch]);
        assert_eq!(told.trim(), format!("said {word}"), "{options:?}: {text}");
        // What is in no commit is where it was left.
        let left = match word {
            "one" => top.join("left"),
            "two" => top.join(".cofferdam/worktrees/own/left"),
            _ => left_in_worktree(&lives),
        };
        assert_eq!(std::fs::read_to_string(&left).unwrap(), "left\n");
        let place = left.parent().unwrap().to_str().unwrap();
        assert!(text.contains(&format!("\n{place}\r\n")), "{text}");
        lives.shell("git clean -fdq");
    }
    assert_eq!(std::fs::read_to_string(&global).unwrap(), text);
}

#[test]
fn what_has_no_meaning_without_a_sandbox_is_refused() {
    let lives = user();
    lives.write(".cofferdam/prompts/x.md", "See !`touch ran`.\n");
    for (words, said) in [
        (&["--sandbox", "docker"][..], "cannot be used with"),
        (&["--network", "open"], "cannot be used with"),
        (&["--keep"], "cannot be used with"),
        (&["--hide", "x"], "cannot be used with"),
        (
            &["--prompt-file", ".cofferdam/prompts/x.md"],
            "there is no place for them",
        ),
    ] {
        let mut terminal = at(&lives, words);
        terminal.expect(said);
        terminal.ends();
    }
    let mut terminal = at(&lives, &["--merge-to-head", "--", "--resume"]);
    terminal.expect("word --resume");
    terminal.expect("you: ");
    terminal.press("x\r");
    terminal.ends_with(3);
    let refused = lives.cofferdam(&["run", "--no-sandbox", "--", "true"]);
    assert!(refused.expect_code(2).stderr.contains("--no-sandbox"));
    let command = ["interactive", "--no-sandbox", "--", "no-such-program"];
    let mut terminal = lives.on_a_terminal(&command);
    terminal.expect("cannot run `no-such-program`: there is no such program");
    terminal.ends_with(1);
    assert!(!lives.repository().join("ran").exists());
}

/// Whose terminal goes is ended at last, and what it committed is on its branch: nothing else moves.
#[test]
fn it_is_stopped_and_loses_nothing() {
    let lives = user();
    let main = lives.git(&["rev-parse", "main"]);
    let mut terminal = at(&lives, &["--merge-to-head", "--name", "t"]);
    terminal.expect("you: ");
    terminal.press("stay\r");
    terminal.expect("staying");
    let (agent, command) = (
        number(&terminal.text(), "agent="),
        number(&terminal.text(), "command="),
    );
    kill_process(command, Signal::TERM).unwrap();
    terminal.ends();
    ends(agent);
    assert_eq!(lives.git(&["rev-parse", "main"]), main);
    assert_eq!(
        lives
            .git(&["log", "-1", "--format=%s", "cofferdam/t"])
            .trim(),
        "said stay"
    );
    assert!(left_in_worktree(&lives).exists());
    lives.cofferdam(&["merge", "t"]).expect_code(0);
    assert_eq!(lives.git(&["log", "-1", "--format=%s"]).trim(), "said stay");
}

/// Its files are as its branch has them, and its worktree goes: what is on no branch does not go with it.
#[test]
fn a_commit_on_no_branch_is_kept() {
    let lives = user();
    let mut terminal = at(&lives, &["--merge-to-head", "--name", "t"]);
    terminal.expect("you: ");
    terminal.press("amend\r");
    terminal.ends_with(3);
    let text = terminal.text();
    let subject = |name: &str| lives.git(&["log", "-1", "--format=%s", name]);
    assert_eq!(subject("main").trim(), "said amend", "{text}");
    let names = lives.git(&["for-each-ref", "--format=%(refname)", "refs/cofferdam/"]);
    let mut names = names
        .lines()
        .filter(|name| subject(name).trim() == "amended");
    let kept = names.next().expect(&text);
    assert!(text.contains("a detached HEAD"), "{text}");
    assert!(text.contains(kept), "{text}");
    let listed = lives.git(&["worktree", "list"]);
    assert_eq!(listed.lines().count(), 1, "{listed}");
}

/// After `kill -9` the next `gc` finds the branch, and the work that is in no commit.
#[test]
fn a_command_that_died() {
    let lives = user();
    for (options, branch) in [
        (&["--merge-to-head", "--name", "t"][..], "cofferdam/t"),
        (&["--head", "--name", "here"], "main"),
    ] {
        let mut terminal = at(&lives, options);
        terminal.expect("you: ");
        terminal.press("stay\r");
        terminal.expect("staying");
        let text = terminal.text();
        let (agent, command) = (number(&text, "agent="), number(&text, "command="));
        kill_process(command, Signal::KILL).unwrap();
        terminal.ends();
        // It does not listen to anybody.
        kill_process(agent, Signal::KILL).unwrap();
        ends(agent);
        let done = lives.cofferdam(&["gc"]).expect_code(0);
        let told = lives.git(&["log", "-1", "--format=%s", branch]);
        assert_eq!(told.trim(), "said stay", "{done}");
    }
    let left = left_in_worktree(&lives);
    assert!(left.exists());
    assert!(lives.repository().join("left").exists());
    lives.cofferdam(&["merge", "t"]).expect_code(0);
    let done = lives.cofferdam(&["delete", "--force", "t"]).expect_code(0);
    assert!(!left.exists(), "{done}");
    assert!(lives.all().is_empty());
}

/// What the configuration wants of commits before a merge is tried in a sandbox all the same.
#[test]
fn its_commits_are_checked_in_a_sandbox() {
    let lives = user();
    let mark = lives.home().join("of-this-machine");
    let check = format!(
        "test ! -e {} && grep -rqw good --include=s* .",
        mark.display()
    );
    let config = format!("gate: {{checks: [{{cmd: '{check}'}}]}}\n");
    for (path, text) in [
        (mark, ""),
        (lives.home().join(".cofferdam/config.yaml"), &*config),
    ] {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        cofferdam::fsx::write_with_mode(&path, text.as_bytes(), 0o600).unwrap();
    }
    for (word, code, merged) in [("good", 3, true), ("bad", 1, false)] {
        let mut terminal = at(&lives, &["--merge-to-head", "--name", word]);
        terminal.expect("you: ");
        terminal.press(&format!("{word}\r"));
        terminal.ends_with(code);
        let last = lives.git(&["log", "-1", "--format=%s"]);
        let text = terminal.text();
        assert_eq!(last.contains(word), merged, "{text}");
        let branch = format!("cofferdam/{word}");
        let kept = lives.git(&["branch", "--list", &branch]);
        assert!(merged || kept.contains(&branch), "{text}");
    }
}
