//! Which commands on sandboxes that stay ask git: it takes longer than a program's start.

use std::path::Path;
use std::process::Stdio;

use cofferdam_lab::skip;
use rustix::fs::{Gid, Uid};

use crate::environment::{Done, finish};
use crate::lives::Lives;

/// A user whose git says what it was asked, and knows no answer.
struct Asked<'a> {
    lives: &'a Lives,
    path: String,
}

impl<'a> Asked<'a> {
    fn new(lives: &'a Lives) -> Self {
        let log = lives.temporary().join("asked");
        let text = format!("#!/bin/sh\necho \"$*\" >> '{}'\nexit 128\n", log.display());
        let bin = lives.has_program("git", &text);
        let path = format!("{}:/usr/bin:/bin", bin.display());
        Self { lives, path }
    }

    #[track_caller]
    fn cofferdam_in(&self, directory: &Path, words: &[&str]) -> Done {
        let mut command = self.lives.command(words);
        command.env("PATH", &self.path).current_dir(directory);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        finish(command.spawn().unwrap())
    }

    fn cofferdam(&self, words: &[&str]) -> Done {
        self.cofferdam_in(&self.lives.repository(), words)
    }

    /// What it was asked since the last time.
    fn since(&self) -> String {
        let log = self.lives.temporary().join("asked");
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        let _ = std::fs::remove_file(&log);
        text
    }
}

#[test]
fn a_program_is_started_without_git() {
    let lives = Lives::with("box", &["--network", "none"]);
    let asked = Asked::new(&lives);
    for words in [
        &["exec", "box", "--", "true"][..],
        &["exec", "--detach", "box", "--", "sleep", "100"],
        &["pause", "box"],
        &["resume", "box"],
        &["logs", "box"],
    ] {
        asked.cofferdam(words).expect_code(0);
        assert_eq!(asked.since(), "", "{words:?}");
    }
    // From wherever in the repository.
    lives.git(&["worktree", "add", "-q", "../linked"]);
    let linked = lives.repository().join("../linked");
    let below = lives.repository().join("below");
    std::fs::create_dir(&below).unwrap();
    for directory in [&linked, &below] {
        let done = asked.cofferdam_in(directory, &["exec", "box", "--", "pwd"]);
        // Where the sandbox has its files, whoever asks from where.
        assert!(done.expect_code(0).stdout.ends_with("/repository\n"));
        assert_eq!(asked.since(), "", "{directory:?}");
    }
    // Who looks at commits asks; and who names what is not there is told whether there is a repository.
    for words in [&["diff", "box"][..], &["exec", "other", "--", "true"]] {
        asked.cofferdam(words).expect_code(1);
        assert_ne!(asked.since(), "", "{words:?}");
    }
    lives.git(&["worktree", "remove", "--force", "../linked"]);
}

/// Git says who may use a checkout of somebody else's: its configuration would count.
#[test]
fn a_checkout_of_somebody_else_is_asked_of_git() {
    if !rustix::process::geteuid().is_root() {
        return skip!("only root gives files away");
    }
    let lives = Lives::with("box", &["--network", "none"]);
    let other = (Some(Uid::from_raw(4321)), Some(Gid::from_raw(4321)));
    let own = (Some(Uid::ROOT), Some(Gid::ROOT));
    for path in [lives.repository(), lives.repository().join(".git")] {
        rustix::fs::chown(&path, other.0, other.1).unwrap();
        let refused = lives.exec("box", "true").expect_code(1);
        assert!(refused.stderr.contains("another user"), "{refused}");
        rustix::fs::chown(&path, own.0, own.1).unwrap();
        lives.exec("box", "true").expect_code(0);
    }
}

/// Where the files of a repository are its configuration says, which git reads.
#[test]
fn a_checkout_whose_files_are_elsewhere_is_asked_of_git() {
    let lives = Lives::new();
    let (top, below) = (lives.repository(), lives.repository().join("src"));
    lives.write("src/main.txt", "x\n");
    lives.git(&["add", "src/main.txt"]);
    lives.git(&["commit", "-q", "-m", "src"]);
    lives.write(".cofferdam/.env", "WHERE=top\n");
    lives.write("src/.cofferdam/.env", "WHERE=below\n");
    lives.git(&["config", "core.worktree", "../.."]);
    std::fs::rename(top.join(".git"), below.join(".git")).unwrap();
    let in_it = |words: &[&str]| {
        let mut command = lives.command(words);
        command.current_dir(&below);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        finish(command.spawn().unwrap()).expect_code(0)
    };
    in_it(&["create", "box", "--network", "none", "--mode", "copy"]);
    let says = in_it(&["exec", "box", "--", "sh", "-c", "echo $WHERE"]);
    assert_eq!(says.stdout, "top\n");
    in_it(&["delete", "box"]);
}
