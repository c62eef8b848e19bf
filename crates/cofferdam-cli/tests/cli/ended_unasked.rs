//! A sandbox whose first process somebody kills: who asks is told, until it is started or stopped. In containers:
//! `engine_by_hand`.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::dev_ports::free;
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

const TOLD: &str = "\nstate:   stopped: cofferdam start one\nended:   unasked, ";

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
    let why = "sandbox `one` is stopped: no command stopped it, it ended at ";
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

/// Its supervisor stands still, so that the command can be killed when the programs are dead and nothing else is done.
#[test]
fn a_stop_that_dies_in_the_middle_is_nobody_elses_end() {
    let lives = Lives::with("one", &["--network", "none"]);
    let id = lives.status("one", "id");
    let state = lives.home().join(".cofferdam/state");
    let state = state.join(id.as_str().unwrap());
    let began = Instant::now();
    let moment = || {
        assert!(began.elapsed() < Duration::from_secs(90), "never");
        std::thread::sleep(Duration::from_millis(20));
    };
    loop {
        let lock = std::fs::read_to_string(state.join("lock")).unwrap();
        let keeper = lock.split(' ').next().unwrap().parse().unwrap();
        let keeper = Pid::from_raw(keeper).unwrap();
        kill_process(keeper, Signal::STOP).unwrap();
        let mut stop = lives.command(&["stop", "one"]).spawn().unwrap();
        while lives.state("one") != "stopped" {
            moment();
        }
        stop.kill().unwrap();
        stop.wait().unwrap();
        let _ = kill_process(keeper, Signal::CONT);
        let gone = format!("/proc/{}", keeper.as_raw_nonzero());
        while std::fs::exists(&gone).unwrap() {
            moment();
        }
        // The command kills one that does not answer: on a slow machine it was faster, and nothing was written.
        let is_written = std::fs::exists(state.join("ended")).unwrap();
        assert_eq!(lives.state("one"), "stopped");
        assert!(lives.status("one", "ended_unasked").is_null());
        lives.cofferdam(&["start", "one"]).expect_code(0);
        if is_written {
            break;
        }
    }
    // The control: the next end is nobody's of ours.
    kill_first(&lives);
    assert!(told(&lives).contains(TOLD));
}

/// Who carries a port into it hears it too, and of a stop that it was one.
#[test]
fn who_forwards_a_port_is_told_which_end_it_was() {
    for asked in [false, true] {
        let lives = Lives::with("one", &["--network", "none"]);
        let port = free().to_string();
        let mut forward = lives.on_a_terminal(&["forward", "one", &format!("{port}:80")]);
        forward.expect("until Ctrl-C");
        if asked {
            lives.cofferdam(&["stop", "one"]).expect_code(0);
        } else {
            kill_first(&lives);
        }
        forward.expect("sandbox `one` is stopped");
        forward.ends_with(1);
        let shown = forward.text();
        assert_eq!(shown.contains("no command stopped it"), !asked, "{shown}");
    }
}

/// What is at work in it meanwhile hears the same.
#[test]
fn who_waits_for_a_program_in_it_is_told_why() {
    let lives = Lives::with("one", &["--network", "none"]);
    let mut program =
        lives.on_a_terminal(&["exec", "one", "--", "sh", "-c", "echo re''ady; sleep 1000"]);
    program.expect("ready");
    kill_first(&lives);
    program.expect("sandbox `one` is stopped: no command stopped it, it ended at ");
    program.ends_with(1);
}
