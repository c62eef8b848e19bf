//! A sandbox whose guest stands still: every command on it ends, says so, and leads on.

use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};

use crate::environment::finish;
use crate::lives::Lives;

#[test]
fn no_command_waits_for_a_guest_that_stands_still() {
    let lives = Lives::with("box", &["--network", "none"]);
    lives
        .exec("box", "echo x > made; git add made; git commit -qm made")
        .expect_code(0);
    let status = lives.cofferdam(&["status", "box", "--json"]).expect_code(0);
    let status: serde_json::Value = serde_json::from_str(&status.stdout).unwrap();
    let guest = i32::try_from(status["process"].as_i64().unwrap()).unwrap();
    let guest = Pid::from_raw(guest).unwrap();
    kill_process(guest, Signal::STOP).unwrap();
    // At once: each waits for it as long as it may.
    let commands = [
        &["exec", "box", "--", "true"][..],
        &["diff", "box"],
        &["resume", "box"],
        &["delete", "box"],
        &["run", "--in", "box", "--", "true"],
    ];
    let begun = commands.map(|words| {
        let mut command = lives.command(words);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        (words, command.spawn().unwrap())
    });
    for (words, child) in begun {
        let done = finish(child).expect_code(1);
        assert!(done.stderr.contains("hint: "), "{words:?}: {done}");
    }
    assert_eq!(lives.state("box"), "silent");
    // By force it goes all the same, and its commit is kept.
    let done = lives
        .cofferdam(&["delete", "--force", "box"])
        .expect_code(0);
    assert!(done.stderr.contains("refs/cofferdam/trash/box"), "{done}");
    let kept = lives.git(&["log", "-1", "--format=%s", "refs/cofferdam/trash/box"]);
    assert_eq!(kept, "made");
    lives.expect_clean();
}
