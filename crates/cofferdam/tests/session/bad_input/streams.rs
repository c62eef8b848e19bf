//! What agents do with their streams.

use std::time::{Duration, Instant};

use cofferdam::session::{PromptSource, RunErrorKind};
use cofferdam_lab::sample::Sample;
use cofferdam_lab::way::Way;

use super::{HEAD, whole, whole_ok};
use crate::support::Env;

const MAIN: &[&str] = &["refs/heads/main"];

/// Highest resident size of this process in KiB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmHWM"))
        .unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn a_line_of_a_gigabyte_does_not_grow_the_host() {
    const INNER: &str = "COFFERDAM_TEST_GIGABYTE";
    if std::env::var_os(INNER).is_none() {
        // Measured in a process of its own: other tests allocate too.
        let name = "bad_input::streams::a_line_of_a_gigabyte_does_not_grow_the_host";
        let done = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env(INNER, "1")
            .output()
            .unwrap();
        assert!(
            done.status.success(),
            "{}",
            String::from_utf8_lossy(&done.stderr)
        );
        return;
    }
    // Shorter ones grow as much.
    let is_whole = Sample::new("a long line").is_everything();
    let length = if is_whole { 1_000_000_000 } else { 200_000_000 };
    let script = format!(
        "head -c {length} /dev/zero | tr '\\0' x; echo; git commit -qm work --allow-empty; echo '<promise>COMPLETE</promise>'"
    );
    for way in Way::EACH_MODE {
        let env = Env::new();
        let (before, began) = (peak(), Instant::now());
        let report = whole_ok(&env, env.in_way(way, &script), MAIN);
        let (grown, took) = (peak() - before, began.elapsed());
        println!("{way}, {length} bytes: {grown} KiB more, {took:?}");
        assert!(
            report.completion.is_some(),
            "{way}: a line after the long one counts"
        );
        assert_eq!(env.subjects("main"), ["first", "work"], "{way}");
        assert!(grown < 64 << 10, "{way}: {grown} KiB");
    }
}

#[test]
fn binary_output_and_nuls_are_only_output() {
    let script = "head -c 3000000 /dev/urandom; head -c 1000000 /dev/urandom >&2; printf 'a\\0b\\377\\r\\n\\033]0;x\\007\\n'; git commit -qm work --allow-empty; printf '\\n<promise>COMPLETE</promise>'";
    for way in Way::EACH_MODE {
        let env = Env::new();
        let report = whole_ok(&env, env.in_way(way, script), MAIN);
        assert!(report.completion.is_some(), "{way}");
        assert_eq!(env.subjects("main"), ["first", "work"], "{way}");
    }
}

#[test]
fn streams_that_are_not_used() {
    let env = Env::new();
    let closes = "exec <&- >&- 2>&-; sleep 0.5; git commit -qm closed --allow-empty";
    let mut options = env.script(HEAD, closes);
    options.task.prompt = PromptSource::Inline("x".repeat(8 << 20));
    whole_ok(&env, options, MAIN);
    assert_eq!(env.subjects("main"), ["first", "closed"]);
    // Closed streams are silence, and that has its limit.
    let mut options = env.script(HEAD, "exec <&- >&- 2>&-; sleep 1000");
    options.task.idle_timeout = Duration::from_millis(500);
    let error = whole(&env, options, MAIN).unwrap_err();
    assert!(error.to_string().contains("printed nothing"), "{error}");
}

#[test]
fn a_daemon_that_keeps_the_streams_does_not_keep_the_run() {
    let env = Env::new();
    let script = "git commit -qm work --allow-empty; (setsid sh -c 'while :; do echo noise; echo noise >&2; sleep 0.01; done' &)";
    let began = Instant::now();
    whole_ok(&env, env.script(HEAD, script), MAIN);
    assert!(
        began.elapsed() < Duration::from_secs(15),
        "{:?}",
        began.elapsed()
    );
}

#[test]
fn an_agent_that_ignores_every_signal_is_ended() {
    let env = Env::new();
    let script = "trap '' TERM INT HUP QUIT; git commit -qm work --allow-empty; (trap '' TERM; setsid sleep 1000 &); while :; do sleep 1000; done";
    let mut options = env.script(HEAD, script);
    options.task.idle_timeout = Duration::from_secs(1);
    let began = Instant::now();
    let error = whole(&env, options, MAIN).unwrap_err();
    assert!(matches!(error.kind, RunErrorKind::Agent { .. }), "{error}");
    assert!(
        began.elapsed() < Duration::from_secs(20),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(env.subjects("main"), ["first", "work"]);
}

#[test]
fn a_fork_bomb_stays_inside() {
    let env = Env::new();
    let mut options = env.script(
        HEAD,
        "git commit -qm work --allow-empty; f() { f | f & }; f; sleep 1; exit 0",
    );
    options.session.limits.processes = Some(200);
    let began = Instant::now();
    let result = whole(&env, options, MAIN);
    drop(result);
    assert!(
        began.elapsed() < Duration::from_secs(30),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(env.subjects("main"), ["first", "work"]);
}
