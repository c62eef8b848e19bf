use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};

use crate::environment::{TestEnvironment, finish};
use crate::gc::wait_for;

// covers: S4-G3 S4-FR4.1
#[test]
fn everything_held_and_nothing_is_left() {
    let environment = TestEnvironment::empty();
    for name in ["letter", "diary"] {
        let path = environment.home().join(name);
        cofferdam::fsx::write_private(&path, b"mine").unwrap();
    }
    let done = environment.cofferdam(&["demo"]).expect_code(0);
    // Files that could be seen, or the line says nothing.
    assert!(done.stdout.contains("0 of the 2 files in "), "{done}");
    assert_eq!(done.stdout.matches("held    ").count(), 8, "{done}");
    assert!(!done.stdout.contains("BROKEN"), "{done}");
    assert!(done.stdout.contains("landed: 3 commits on main"), "{done}");
    assert!(done.stdout.contains("next: "), "{done}");
    // One story on one stream, each part after the one before.
    let parts = [
        "$ cofferdam run --max-iterations 3 -- ./agent.sh\nmerge-to-head, mode layer (both the default)",
        "iteration 3 of 3",
        "landed: 3 commits on main",
        "What the agent also tried",
        "held    list your home directory",
        "All 8 held.",
    ];
    let at: Vec<_> = parts.iter().map(|part| done.stdout.find(part)).collect();
    assert!(at.iter().all(Option::is_some) && at.is_sorted(), "{done}");
    assert_eq!(done.stderr, "");
    // Nothing of it is there any more: no command that needs it is offered.
    for gone in ["cofferdam allow", "net log", "tail -f", "git log", "$ cd"] {
        assert!(!done.stdout.contains(gone), "{gone}\n{done}");
    }
    assert_eq!(environment.temporary().read_dir().unwrap().count(), 0);
    // It has its own place for everything.
    assert!(!environment.home().join(".cofferdam").exists());
}

#[test]
fn it_can_be_kept() {
    let environment = TestEnvironment::empty();
    let done = environment.cofferdam(&["demo", "--keep"]).expect_code(0);
    let kept = done
        .stdout
        .lines()
        .rev()
        .find_map(|line| line.strip_prefix("kept: "))
        .unwrap();
    let history = environment.git(&["-C", &format!("{kept}/sums"), "log", "--format=%s", "main"]);
    for task in ["add.sh", "sub.sh", "mul.sh"] {
        assert!(
            history.contains(&format!("{task}: two numbers, one result")),
            "{history}"
        );
    }
    // What it offers to look with, word by word.
    let commands: Vec<&str> = done
        .stdout
        .lines()
        .skip_while(|line| !line.starts_with("kept: "))
        .filter_map(|line| line.strip_prefix("  "))
        .collect();
    assert_eq!(commands.len(), 2, "{done}");
    let log = environment.shell(commands[0]).expect_code(0);
    assert!(log.stdout.contains("+++ b/mul.sh"), "{log}");
    let log = environment.shell(commands[1]).expect_code(0);
    assert!(log.stdout.contains("collector.example"), "{log}");
}

#[test]
fn a_signal_leaves_nothing_behind() {
    let environment = TestEnvironment::empty();
    let mut child = environment
        .command(&["demo"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for(child.stdout.as_mut().unwrap(), "iteration 1 of 3");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    finish(child).expect_code(130);
    assert_eq!(environment.temporary().read_dir().unwrap().count(), 0);
}
