//! What the gate noticed and let pass is said to whoever asked for the work.

use crate::lives::Lives;

const NAMES: &str = "echo a > read; echo b > READ; git add -A; git commit -qm names";
const SAID: &str = "are one name on some file systems";

#[test]
fn a_run_and_a_collecting_say_what_the_gate_noticed() {
    let lives = Lives::with("box", &["--network", "none"]);
    let run = ["run", "--network", "none", "--", "sh", "-c", NAMES];
    let run = lives.cofferdam(&run).expect_code(0);
    assert!(run.stderr.contains(SAID), "{run}");
    lives.exec("box", NAMES).expect_code(0);
    let collected = lives.cofferdam(&["collect", "box"]).expect_code(0);
    assert!(collected.stderr.contains(SAID), "{collected}");
    // The control: that is not said of nothing new.
    let again = lives.cofferdam(&["collect", "box"]).expect_code(0);
    assert!(!again.stderr.contains(SAID), "{again}");
}
