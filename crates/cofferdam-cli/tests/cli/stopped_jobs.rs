//! A command that stands still, as by Ctrl-Z or `kill -STOP`: its program goes on, and it finds the terminal again.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::lives::{Lives, OnTerminal};

/// Goes on when there is a file, and makes another one when it is through.
const GOES_ON: &str = "until [ -e on ]; do sleep 0.02; done; echo thr\"\"ough; touch went";

fn stands_still(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap();
    stat.rsplit_once(") ").unwrap().1.starts_with('T')
}

#[track_caller]
fn becomes_raw(terminal: &OnTerminal) {
    let until = Instant::now() + Duration::from_secs(20);
    while !terminal.is_raw() {
        assert!(Instant::now() < until, "{}", terminal.text());
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_terminal_is_its_programs_again_when_the_command_goes_on() {
    let lives = Lives::with("box", &["--network", "none"]);
    let script = "trap 'stty size' WINCH; echo re''ady; while :; do sleep 0.05; done";
    let mut program = lives.on_a_terminal(&["exec", "-t", "-i", "box", "--", "sh", "-c", script]);
    program.expect("ready");
    assert!(program.is_raw());
    let command = Pid::from_child(&program.child);
    kill_process(command, Signal::STOP).unwrap();
    while !stands_still(command) {
        std::thread::sleep(Duration::from_millis(1));
    }
    program.is_the_shells();
    program.resize((23, 83));
    kill_process(command, Signal::CONT).unwrap();
    program.expect("23 83");
    becomes_raw(&program);
    kill_process(command, Signal::TERM).unwrap();
    program.ends_with(143);
}

#[test]
fn a_program_goes_on_while_its_command_stands_still() {
    let lives = Lives::with("box", &["--network", "none"]);
    let cofferdam = env!("CARGO_BIN_EXE_cofferdam");
    let mut shell = lives.program_on_a_terminal("sh", &["-i"]);
    shell.press(&format!(
        "'{cofferdam}' exec box -- sh -c 'echo beg\"\"un; {GOES_ON}'\r"
    ));
    shell.expect("begun");
    // Keys are the shell's and its jobs' here: this is Ctrl-Z.
    shell.press("\u{1a}");
    shell.expect("Stopped");
    lives
        .exec("box", "touch on; until [ -e went ]; do sleep 0.05; done")
        .expect_code(0);
    std::thread::sleep(Duration::from_millis(200));
    assert!(!shell.text().contains("through"), "{}", shell.text());
    shell.press("fg\r");
    shell.expect("through");
    shell.press("exit\r");
    shell.ends();
}
