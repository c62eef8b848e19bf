//! A sandbox whose first process somebody kills: who asks is told, until it is started or stopped. In containers:
//! `engine_by_hand`.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::lives::Lives;

/// Its supervisor writes it down just after the kernel has told it.
#[track_caller]
fn told(lives: &Lives) -> String {
    let began = Instant::now();
    while lives.status("one", "ended_unasked").is_null() {
        assert!(began.elapsed() < Duration::from_secs(30), "never told");
        std::thread::sleep(Duration::from_millis(20));
    }
    lives.cofferdam(&["status", "one"]).expect_code(0).stdout
}

#[track_caller]
fn kill_first(lives: &Lives) {
    let init = lives.status("one", "process").as_i64().unwrap();
    let init = Pid::from_raw(init.try_into().unwrap()).unwrap();
    kill_process(init, Signal::KILL).unwrap();
}

const TOLD: &str = "\nstate:   stopped: cofferdam start one\nended:   from outside, ";

#[test]
fn one_that_was_killed_says_so_until_it_is_started_or_stopped() {
    let lives = Lives::with("one", &["--network", "none"]);
    let kill = || {
        assert!(lives.status("one", "ended_unasked").is_null());
        kill_first(&lives);
        let told = told(&lives);
        assert!(told.contains(TOLD), "{told}");
        assert!(
            told.contains(" ago: its first process was killed\n"),
            "{told}"
        );
    };
    kill();
    let refused = lives.exec("one", "true").expect_code(1);
    let why = "sandbox `one` is stopped: it was ended from outside, at ";
    assert!(refused.stderr.contains(why), "{refused}");
    assert!(refused.stderr.contains("cofferdam start one"), "{refused}");
    // Who only looks takes nothing away.
    lives.cofferdam(&["diff", "one"]).expect_code(0);
    lives.cofferdam(&["collect", "one"]).expect_code(0);
    assert!(told(&lives).contains(TOLD));
    lives.cofferdam(&["start", "one"]).expect_code(0);
    assert!(lives.status("one", "ended_unasked").is_null());
    // One that was stopped ended as it was asked to.
    lives.cofferdam(&["stop", "one"]).expect_code(0);
    let plain = lives.cofferdam(&["status", "one"]).expect_code(0).stdout;
    assert!(
        plain.contains("\nstate:   stopped: cofferdam start one\nbranch:"),
        "{plain}"
    );
    lives.cofferdam(&["start", "one"]).expect_code(0);
    kill();
    lives.cofferdam(&["stop", "one"]).expect_code(0);
    assert!(lives.status("one", "ended_unasked").is_null());
}

/// What is at work in it meanwhile hears the same.
#[test]
fn who_waits_for_a_program_in_it_is_told_why() {
    let lives = Lives::with("one", &["--network", "none"]);
    let mut program =
        lives.on_a_terminal(&["exec", "one", "--", "sh", "-c", "echo re''ady; sleep 1000"]);
    program.expect("ready");
    kill_first(&lives);
    program.expect("sandbox `one` is stopped: it was ended from outside, at ");
    program.ends_with(1);
}
