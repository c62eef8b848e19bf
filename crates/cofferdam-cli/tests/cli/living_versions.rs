//! A sandbox whose guest or supervisor another version of Cofferdam brought along, or whose record it wrote.

use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::environment::commit_script;
use crate::lives::Lives;

/// The first process of a pid namespace, as a guest is; it greets with another version, and says nothing else.
const OTHER: &str = r#"use IO::Socket::UNIX; unlink "guest.sock";
my $listener = IO::Socket::UNIX->new(Local => "guest.sock", Listen => 5) or die $!;
$| = 1; print "ready\n"; my @kept;
while (my $one = $listener->accept) { syswrite $one, "cdam" . pack("V", 77); push @kept, $one; }"#;

/// Dies with its test.
struct Another(Child);

impl Drop for Another {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Of the only one that there is.
fn state(lives: &Lives) -> PathBuf {
    let states = lives.home().join(".cofferdam/state");
    states.read_dir().unwrap().next().unwrap().unwrap().path()
}

impl Another {
    fn at(lives: &Lives) -> Self {
        let root = rustix::process::geteuid().is_root();
        let apart = [if root { "-pf" } else { "-Urpf" }, "--kill-child"];
        let words = [&["unshare"], &apart[..], &["perl", "-e", OTHER]].concat();
        Self::start(lives, &words)
    }

    /// In the place of the sandbox's supervisor, which is dead.
    fn keeper(lives: &Lives, version: u8) -> Self {
        let script = OTHER_SUPERVISOR.replace("VERSION", &version.to_string());
        Self::start(lives, &["perl", "-e", &script])
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "a stand-in for a guest is no command of ours"
    )]
    fn start(lives: &Lives, words: &[&str]) -> Self {
        let mut child = Command::new(words[0])
            .args(&words[1..])
            .current_dir(state(lives))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut ready = [0; 6];
        let stdout = child.stdout.as_mut().unwrap();
        stdout.read_exact(&mut ready).unwrap();
        Self(child)
    }
}

#[test]
fn one_of_another_version_is_named_and_can_be_stopped() {
    let lives = Lives::with("box", &["--network", "none"]);
    lives.cofferdam(&["stop", "box"]).expect_code(0);
    let mut other = Another::at(&lives);
    let status = lives.cofferdam(&["status", "box"]).expect_code(0);
    assert!(
        status.stdout.contains("state:   other-version\n"),
        "{status}"
    );
    let again = "cofferdam stop box && cofferdam start box\n";
    assert!(status.stderr.ends_with(again), "{status}");
    let used = lives.exec("box", "true").expect_code(1);
    let why = "speaks version 77 of its protocol";
    assert!(used.stderr.contains(why), "{used}");
    assert!(used.stderr.ends_with("`cofferdam start box`\n"), "{used}");
    assert!(other.0.try_wait().unwrap().is_none());
    // That is all that it understands.
    lives.cofferdam(&["stop", "box"]).expect_code(0);
    other.0.wait().unwrap();
    assert_eq!(lives.state("box"), "stopped");
    lives.cofferdam(&["start", "box"]).expect_code(0);
    lives.exec("box", "true").expect_code(0);
}

/// Only who wrote it knows what it is. It is named by whoever is asked for it, and nobody does anything in its place.
#[test]
fn a_record_of_a_newer_version_is_named_and_left_as_it_is() {
    let lives = Lives::with("box", &["--network", "none"]);
    lives.exec("box", &commit_script(&["a"])).expect_code(0);
    let ours = lives.listed("box").unwrap()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let record = lives
        .home()
        .join(".cofferdam/state")
        .join(&ours)
        .join("record.json");
    let old = std::fs::read_to_string(&record).unwrap();
    let newer = old.replacen("\"version\": 2", "\"version\": 9, \"more\": [\"of it\"]", 1);
    assert_ne!(old, newer);
    cofferdam::fsx::write_private(&record, newer.as_bytes()).unwrap();
    let before = lives.references();
    let shown = record.display();
    let why = format!(
        "{shown} cannot be read as a sandbox record: it was written by a newer version (format 9)"
    );
    let list = lives.cofferdam(&["list"]).expect_code(0);
    assert!(list.stderr.contains(&format!("warning: {why}; ")), "{list}");
    for command in [
        &["delete", "box"][..],
        &["delete", "--force", "box"],
        &["delete", "--force", "--purge", &ours],
        &["create", "box"],
        &["create", "Box", "--branch", "other"],
        &["run", "--branch", "other", "--name", "box", "--", "true"],
        &["merge", "box"],
        &["exec", "box", "--", "true"],
        &["stop", "box"],
        &["start", "box"],
        &["collect", "box"],
        &["status", "box"],
        &["pause", "box"],
        &["resume", "box"],
        &["diff", "box"],
        &["diff", "--uncommitted", "box"],
        &["log", "box"],
        &["logs", "box"],
        &["apply", "box"],
        &["worktree", "box"],
        &["run", "--in", "box", "--", "true"],
    ] {
        let done = lives.cofferdam(command).expect_code(1);
        assert!(
            done.stderr.starts_with(&format!("error: {why}\nhint: ")),
            "{command:?}: {done}"
        );
        assert_eq!(
            std::fs::read_to_string(&record).unwrap(),
            newer,
            "{command:?}"
        );
    }
    // It may be at work, with the rules that it had.
    for command in [
        &["allow", "x.example.com"][..],
        &["revoke", "x.example.com"],
        &["net", "reload"],
    ] {
        let done = lives.cofferdam(command).expect_code(1);
        let said = format!("warning: its sandbox keeps the rules that it had: {why}");
        assert!(done.stderr.contains(&said), "{command:?}: {done}");
    }
    let gc = lives.cofferdam(&["gc"]).expect_code(1);
    assert!(gc.stderr.contains(&why), "{gc}");
    assert_eq!(std::fs::read_to_string(&record).unwrap(), newer);
    assert_eq!(lives.references(), before);
    // Another name is another sandbox.
    lives.create("other", &["--network", "none"]);
    lives.cofferdam(&["delete", "other"]).expect_code(0);
    // The control: what it was is all there, and runs.
    cofferdam::fsx::write_private(&record, old.as_bytes()).unwrap();
    assert_eq!(lives.state("box"), "active");
    lives.exec("box", "cat a.txt").expect_code(0);
    lives.cofferdam(&["merge", "box"]).expect_code(0);
    lives.cofferdam(&["delete", "box"]).expect_code(0);
    lives.expect_clean();
}

/// A supervisor as another version of Cofferdam has it: its status and its stop are the same for ever, the rest is its own. It
/// ends when it is told to stop.
const OTHER_SUPERVISOR: &str = r#"use IO::Socket::UNIX; unlink "supervisor.sock";
open my $lock, "+<", "lock" or die $!; flock $lock, 2 or die $!;
my $listener = IO::Socket::UNIX->new(Local => "supervisor.sock", Listen => 5) or die $!;
$| = 1; print "ready\n";
while (my $one = $listener->accept) {
    sysread $one, my $head, 4; sysread $one, my $body, unpack "V", $head;
    my $kind = unpack "x C", $body;
    my $said = pack("C*", $kind == 0 ? (VERSION, 0, 7, 200, 200) : $kind == 1 ? (VERSION, 1) : (VERSION, 2, 2, 110, 111));
    syswrite $one, pack("V", length $said) . $said;
    exit if $kind == 1;
}"#;

#[test]
fn a_supervisor_of_another_version_is_stopped_with_its_sandbox() {
    for version in [0, 99] {
        let lives = Lives::with("box", &[]);
        lives.exec("box", &commit_script(&["a"])).expect_code(0);
        let signed = std::fs::read_to_string(state(&lives).join("lock")).unwrap();
        let supervisor = signed.split(' ').next().unwrap().parse().unwrap();
        let supervisor = Pid::from_raw(supervisor).unwrap();
        kill_process(supervisor, Signal::KILL).unwrap();
        let mut other = Another::keeper(&lives, version);
        // What needs none of it goes on.
        assert_eq!(lives.state("box"), "active");
        lives.cofferdam(&["status", "box"]).expect_code(0);
        lives.exec("box", "true").expect_code(0);
        lives.cofferdam(&["collect", "box"]).expect_code(0);
        lives.cofferdam(&["pause", "box"]).expect_code(0);
        // Rules that may have been changed meanwhile are its matter, so nothing goes on.
        let done = lives.cofferdam(&["resume", "box"]).expect_code(1);
        assert_eq!(
            done.stderr,
            format!(
                "error: nobody keeps the place of sandbox `box`: the sandbox's supervisor is of another version of \
                 cofferdam (it speaks {version}, this one 1)\n\
                 hint: stop it with `cofferdam stop box`, then start it with `cofferdam start box`\n"
            )
        );
        assert_eq!(lives.state("box"), "paused");
        let done = lives.cofferdam(&["allow", "x.example.com"]).expect_code(1);
        let said = "sandbox box keeps the rules that it had: it was started by another version of cofferdam";
        assert!(done.stderr.contains(said), "{done}");
        assert!(other.0.try_wait().unwrap().is_none(), "it was ended");
        // It hears that it is to stop, and lets go of the lock: what comes next is of this version.
        lives.cofferdam(&["stop", "box"]).expect_code(0);
        assert!(other.0.wait().unwrap().success());
        lives.cofferdam(&["start", "box"]).expect_code(0);
        lives.cofferdam(&["pause", "box"]).expect_code(0);
        lives.cofferdam(&["resume", "box"]).expect_code(0);
        lives.exec("box", "cat a.txt").expect_code(0);
        lives
            .cofferdam(&["delete", "--force", "box"])
            .expect_code(0);
        lives.expect_clean();
    }
}
