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
    assert!(done.stderr.contains("iteration 3 of 3"), "{done}");
    assert_eq!(environment.temporary().read_dir().unwrap().count(), 0);
    // It has its own place for everything.
    assert!(!environment.home().join(".cofferdam").exists());
}

#[test]
fn it_can_be_kept() {
    let environment = TestEnvironment::empty();
    let done = environment.cofferdam(&["demo", "--keep"]).expect_code(0);
    let kept = done
        .stderr
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
}

#[test]
fn a_signal_leaves_nothing_behind() {
    let environment = TestEnvironment::empty();
    let mut child = environment
        .command(&["demo"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for(child.stderr.as_mut().unwrap(), "iteration 1 of 3");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    finish(child).expect_code(130);
    assert_eq!(environment.temporary().read_dir().unwrap().count(), 0);
}
