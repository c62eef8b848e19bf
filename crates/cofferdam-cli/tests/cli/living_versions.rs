//! A sandbox whose guest another version of Cofferdam brought along.

use std::io::Read;
use std::process::{Child, Command, Stdio};

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

impl Another {
    #[expect(
        clippy::disallowed_methods,
        reason = "a stand-in for a guest is no command of ours"
    )]
    fn at(lives: &Lives) -> Self {
        let states = lives.home().join(".cofferdam/state");
        let state = states.read_dir().unwrap().next().unwrap().unwrap().path();
        let root = rustix::process::geteuid().is_root();
        let mut child = Command::new("unshare")
            .args([if root { "-pf" } else { "-Urpf" }, "--kill-child"])
            .args(["perl", "-e", OTHER])
            .current_dir(state)
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
