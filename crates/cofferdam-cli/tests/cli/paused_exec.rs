//! Ctrl-C where its program cannot hear it, because the sandbox is paused.

use std::time::Duration;

use crate::lives::Lives;

const PAUSED: &str = "box is paused; it goes on with: cofferdam resume box";

/// One press is told, however slowly the next one comes.
#[test]
fn who_presses_it_once_is_told() {
    let lives = Lives::with("box", &["--network", "none"]);
    let waits = "echo re''ady; while :; do sleep 0.05; done";
    // Where the command hears the keys itself, the second one kills.
    for (options, presses, code) in [
        (&["exec", "box"][..], "\u{3}\u{3}", 137),
        (&["exec", "-t", "-i", "box"], "\u{3}\u{3}\u{3}", 130),
    ] {
        let words = [options, &["--", "sh", "-c", waits]].concat();
        let mut program = lives.on_a_terminal(&words);
        program.expect("ready");
        lives.cofferdam(&["pause", "box"]).expect_code(0);
        program.press("\u{3}");
        program.expect(PAUSED);
        // Presses that are too far apart on a busy machine do not count together.
        while program.child.try_wait().unwrap().is_none() {
            program.press(presses);
            std::thread::sleep(Duration::from_secs(3));
        }
        program.ends_with(code);
        lives.cofferdam(&["resume", "box"]).expect_code(0);
    }
    lives.exec("box", "true").expect_code(0);
}

/// Where it goes on, what was pressed is the program's.
#[test]
fn what_was_pressed_is_the_programs_when_it_goes_on() {
    let lives = Lives::with("box", &["--network", "none"]);
    let waits = "trap 'echo hea''rd; exit 7' INT; echo re''ady; while :; do sleep 0.05; done";
    let mut program = lives.on_a_terminal(&["exec", "box", "--", "sh", "-c", waits]);
    program.expect("ready");
    lives.cofferdam(&["pause", "box"]).expect_code(0);
    program.press("\u{3}");
    program.expect(PAUSED);
    lives.cofferdam(&["resume", "box"]).expect_code(0);
    program.expect("heard");
    program.ends_with(7);
}
