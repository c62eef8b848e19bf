//! The gateway is killed or stopped while sandboxes are at work, and so is the command.

use std::process::Stdio;
use std::time::{Duration, Instant};

use cofferdam_lab::sample::Sample;
use rustix::process::{Pid, Signal, kill_process};

use super::world::{LIMIT, Origin, Running, closed, gateway, is_gateway, script, until};
use crate::environment::finish;

/// No command waits longer for a gateway that says nothing.
const PATIENCE: Duration = Duration::from_secs(40);

const WORKS_LATER: &str =
    "ask $HOST $PORT || exit 10\ntouch ready\nuntil_file go || exit 9\nuntil_ok ask $HOST $PORT";

/// Stopped, until it is dropped.
struct Stopped(Pid);

impl Stopped {
    fn new(process: Pid) -> Self {
        kill_process(process, Signal::STOP).unwrap();
        Self(process)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = kill_process(self.0, Signal::CONT);
    }
}

#[test]
fn a_gateway_that_is_killed_is_replaced() {
    let environment = closed();
    let origin = Origin::new();
    let mut run = Running::start(
        &environment,
        "one",
        &["--head", "--allow", &origin.rule()],
        &script(&origin, WORKS_LATER),
    );
    run.wait_for("ready");
    let first = gateway(&environment);
    kill_process(first, Signal::KILL).unwrap();
    run.tell("go");
    run.finish().expect_code(0);
    assert_ne!(gateway(&environment), first);
    assert_eq!(origin.greeted(), 2);
}

// covers: S1-91
#[test]
fn a_gateway_that_is_stopped_keeps_nobody_waiting() {
    let environment = closed();
    let origin = Origin::new();
    let mut one = Running::start(
        &environment,
        "one",
        &["--head", "--allow", &origin.rule()],
        &script(&origin, "touch ready; until_file go"),
    );
    one.wait_for("ready");
    let process = gateway(&environment);
    let stopped = Stopped::new(process);
    let start = Instant::now();
    let says = format!("kill -CONT {}", process.as_raw_nonzero());
    // All at once: each waits for its bound.
    let begin = |command: &[&str]| {
        let mut command = environment.command(command);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    let (allow, reload) = (begin(&["allow", "a.test"]), begin(&["net", "reload"]));
    let doctor = begin(&["doctor"]);
    // A decision may ask a name server: its bound is four times that of the others.
    let test = Sample::new("stopped gateway")
        .is_everything()
        .then(|| begin(&["net", "test", "host.cofferdam.internal", "9"]));
    let [allow, reload, doctor] = [allow, reload, doctor].map(finish);
    for done in [&allow, &reload] {
        assert!(done.stderr.contains("putting the rules in force"), "{done}");
    }
    for done in [allow, reload].into_iter().chain(test.map(finish)) {
        let done = done.expect_code(1);
        assert!(
            done.stderr.contains("did not answer within") && done.stderr.contains(&says),
            "{done}"
        );
    }
    assert!(doctor.stdout.contains(&says), "{doctor}");
    // What needs no gateway does not ask it.
    environment.cofferdam(&["net", "log", "one"]).expect_code(0);
    environment.cofferdam(&["net", "rules"]).expect_code(0);
    one.tell("go");
    one.finish().expect_code(0);
    assert!(start.elapsed() < PATIENCE, "{:?}", start.elapsed());
    drop(stopped);

    let done = environment.cofferdam(&["net", "rules"]).expect_code(0);
    assert!(done.stdout.contains("a.test"), "{done}");
    let body = "ask $HOST $PORT || exit 10";
    Running::start(
        &environment,
        "two",
        &["--allow", &origin.rule()],
        &script(&origin, body),
    )
    .finish()
    .expect_code(0);
    assert_eq!(gateway(&environment), process);
}

/// The gateway goes when nobody has needed it for a while: here, when its home is removed.
#[test]
fn a_command_that_is_killed_takes_its_sandbox_along() {
    let environment = closed();
    let origin = Origin::new();
    let body = r#"
exec 3<>"/dev/tcp/$HOST/$PORT" || exit 10
while sleep 0.05; do echo >>alive; done"#;
    let mut run = Running::start(
        &environment,
        "one",
        &["--head", "--allow", &origin.rule()],
        &script(&origin, body),
    );
    run.wait_for("alive");
    let process = gateway(&environment);
    let count = || {
        let doctor = environment.cofferdam(&["doctor"]).stdout;
        doctor.contains(&format!(
            "process {}, 0 sandboxes",
            process.as_raw_nonzero()
        ))
    };
    assert!(!count());
    run.kill(Signal::KILL);
    until("the registration is gone", LIMIT, count);
    let beat = || environment.read("alive");
    until("the agent is dead", LIMIT, || {
        let before = beat();
        std::thread::sleep(Duration::from_millis(300));
        before == beat()
    });
    let listed = environment.cofferdam(&["list"]).expect_code(0);
    assert!(listed.stdout.contains("interrupted"), "{listed}");
    environment.cofferdam(&["net", "log", "one"]).expect_code(0);
    environment.cofferdam(&["gc"]).expect_code(0);
    assert!(is_gateway(process));
    std::fs::remove_dir_all(super::world::state(&environment)).unwrap();
    until("the gateway is gone", LIMIT, || !is_gateway(process));
}
