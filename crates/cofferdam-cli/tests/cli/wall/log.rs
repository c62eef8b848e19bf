//! `cofferdam net log` and `net test` while a sandbox is at work, and after it.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::world::{Origin, Running, closed, script, write_config};
use crate::environment::{TestEnvironment, finish};

const WAITS: &str = "ask nowhere.test 443 && exit 10\ntouch ready\nuntil_file go || exit 9\nask $HOST $PORT || exit 11";

fn following(environment: &TestEnvironment) -> Child {
    environment
        .command(&["net", "log", "one", "--follow"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn following_ends_with_the_sandbox() {
    let environment = closed();
    let origin = Origin::new();
    let mut run = Running::start(
        &environment,
        "one",
        &["--head", "--allow", &origin.rule()],
        &script(&origin, WAITS),
    );
    run.wait_for("ready");
    let follower = following(&environment);
    run.tell("go");
    run.finish().expect_code(0);
    let done = finish(follower).expect_code(0);
    let at = |what: &str| {
        let found = done.stdout.find(what);
        found.unwrap_or_else(|| panic!("no `{what}`: {done}"))
    };
    let refused = at("nowhere.test");
    let opened = at(&origin.rule());
    assert!(
        refused < opened && opened < at("0 sent, 6 received"),
        "{done}"
    );
}

#[test]
fn following_ends_with_ctrl_c() {
    let environment = closed();
    let origin = Origin::new();
    let mut run = Running::start(
        &environment,
        "one",
        &["--head", "--allow", &origin.rule()],
        &script(&origin, WAITS),
    );
    run.wait_for("ready");
    let mut follower = following(&environment);
    // It is at it when the first line is there.
    let mut lines = BufReader::new(follower.stdout.take().unwrap());
    let mut first = String::new();
    lines.read_line(&mut first).unwrap();
    assert!(
        first.contains("refused") && first.contains("nowhere.test"),
        "{first}"
    );
    kill_process(Pid::from_child(&follower), Signal::INT).unwrap();
    finish(follower).expect_code(130);
    // The run does not care.
    run.tell("go");
    run.finish().expect_code(0);
}

#[test]
fn a_decision_is_explained() {
    let environment = closed();
    let origin = Origin::new();
    let port = origin.port.to_string();
    let explain = || environment.cofferdam(&["net", "test", "host.cofferdam.internal", &port]);
    let done = explain().expect_code(1);
    let command = format!("cofferdam allow {}", origin.rule());
    assert!(
        done.stdout.starts_with("refused: ") && done.stdout.contains(&command),
        "{done}"
    );
    // What is the sandbox itself inside: the command is that of the machine's service.
    for host in ["localhost", "127.0.0.1"] {
        let done = environment.cofferdam(&["net", "test", host, &port]);
        let done = done.expect_code(1);
        assert!(done.stdout.contains(&command), "{done}");
    }
    environment
        .cofferdam(&["allow", &origin.rule()])
        .expect_code(0);
    let done = explain().expect_code(0);
    assert!(
        done.stdout.starts_with("allowed: ") && done.stdout.contains("/.cofferdam/allowed/"),
        "{done}"
    );
    // Not where the rule of that repository does not count.
    let mut elsewhere = environment.command(&["net", "test", "host.cofferdam.internal", &port]);
    elsewhere
        .current_dir(environment.home())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    finish(elsewhere.spawn().unwrap()).expect_code(1);
    assert_eq!(origin.greeted(), 0);
    let done = environment
        .cofferdam(&["net", "test", "--sandbox", "nobody", "a.test", "443"])
        .expect_code(1);
    assert!(done.stderr.contains("cofferdam list"), "{done}");
}

/// Neither the built-in list steps in, nor are the other sources lost.
#[test]
fn with_a_malformed_config_the_other_rules_count() {
    let environment = closed();
    let origin = Origin::new();
    environment
        .cofferdam(&["allow", &origin.rule()])
        .expect_code(0);
    write_config(&environment, "firewall:\n  alow: []\n");
    let done = environment
        .cofferdam(&["net", "test", "api.anthropic.com", "443"])
        .expect_code(1);
    assert!(done.stderr.contains("config.yaml:2:"), "{done}");
    let body = "look_up api.anthropic.com && exit 10\nask $HOST $PORT || exit 11";
    let done = Running::start(&environment, "one", &[], &script(&origin, body))
        .finish()
        .expect_code(0);
    assert!(done.stderr.contains("config.yaml:2:"), "{done}");
    assert_eq!(origin.greeted(), 1);
}
