//! Ctrl-C as a terminal sends it (to the whole group), once and twice, and other signals.

use std::time::{Duration, Instant};

use cofferdam_lab::sample::Sample;
use cofferdam_lab::way::Way;
use rustix::process::{Signal, kill_process_group};

use crate::checker::{self, User, Work};
use crate::environment::Environment;

const COMMITS_AND_WAITS: &str = "trap '' INT TERM HUP; mkdir -p agent; for n in 1 2 3; do \
     echo w$n > agent/$n.txt; git add agent/$n.txt; git commit -qm w$n; done; \
     (setsid sh -c 'trap \"\" TERM HUP INT; sleep 600' &) ; echo now-waiting; sleep 600";

/// Of the ways one of so many neighbours, unless all are wanted.
const SHARE: u64 = 2;

#[test]
fn once_brings_the_work_home() {
    let signals = [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)];
    let all = Way::ALL.into_iter().zip(signals.into_iter().cycle());
    let mut sample = Sample::new("interrupted once");
    for (way, (signal, code)) in sample.of(all, SHARE) {
        let environment = Environment::new();
        let before = User::of(&environment);
        let mut run = environment.start_run(way.words(), COMMITS_AND_WAITS);
        run.wait_until_said("now-waiting");
        let ids = checker::ids(&environment);
        let began = Instant::now();
        kill_process_group(run.pid(), signal).unwrap();
        let end = run.finish();
        let what = format!("{way}, {signal:?}, {}", sample.again());
        assert_eq!(end.status, code, "{what}: {}", end.stderr);
        assert!(
            began.elapsed() < Duration::from_secs(30),
            "{what}: {:?}",
            began.elapsed()
        );
        assert_eq!(checker::subjects(&environment).len(), 3, "{what}");
        checker::assert_clean(&environment, &before, &what, &end.stdout);
        checker::assert_nothing_alive(&environment, &ids, &what);
        // Nothing is left for `gc`.
        assert_eq!(
            checker::gc(&environment, &what),
            "nothing to clean up\n",
            "{what}"
        );
    }
}

#[test]
fn twice_leaves_at_once_and_gc_brings_the_work_home() {
    let pauses = [0, 1, 30, 150].into_iter().cycle();
    let mut sample = Sample::new("interrupted twice");
    for (way, pause) in sample.of(Way::ALL.into_iter().zip(pauses), SHARE) {
        let environment = Environment::new();
        let before = User::of(&environment);
        let mut run = environment.start_run(way.words(), COMMITS_AND_WAITS);
        run.wait_until_said("now-waiting");
        let pid = run.pid();
        kill_process_group(pid, Signal::INT).unwrap();
        std::thread::sleep(Duration::from_millis(pause));
        let what = format!("{way}, {pause} ms, {}", sample.again());
        // Two that follow each other at once may arrive as one.
        let began = Instant::now();
        while !run.has_ended() {
            let _ = kill_process_group(pid, Signal::INT);
            assert!(began.elapsed() < Duration::from_secs(30), "{what}");
            std::thread::sleep(Duration::from_millis(20));
        }
        let end = run.finish();
        assert_eq!(end.status, 130, "{what}: {}", end.stderr);
        // It waited for nothing: nobody has brought the work home.
        let listed = environment.list();
        assert_eq!(listed.len(), 1, "{what}: {listed:?}");
        assert_eq!(listed[0]["interrupted"], true, "{what}: {listed:?}");
        let work = Work::of(&environment);
        checker::assert_recovers(&environment, &before, &work, &what);
        assert_eq!(checker::subjects(&environment).len(), 3, "{what}");
    }
}

/// Without files: what an agent has written and not committed yet stays in the checkout, and a signal may come
/// between the two where the start was quick.
const COMMITS_ALONE: &str = "trap '' INT TERM HUP; \
     for n in 1 2 3; do git commit -q --allow-empty -m w$n; done; \
     (setsid sh -c 'trap \"\" TERM HUP INT; sleep 600' &) ; sleep 600";

/// Signals that come early, while things are being made.
#[test]
fn at_the_start() {
    let delays = [5, 20, 40, 60, 80, 100, 130, 160];
    // Each way twice, at two of these: 8 and 7 have no divisor in common.
    let ways = Way::ALL.into_iter().cycle();
    let all = ways
        .zip(delays.into_iter().cycle())
        .take(2 * Way::ALL.len());
    let mut sample = Sample::new("interrupted at the start");
    for (way, delay) in sample.of(all, SHARE) {
        let environment = Environment::new();
        let before = User::of(&environment);
        let run = environment.start_run(way.words(), COMMITS_ALONE);
        let pid = run.pid();
        std::thread::sleep(Duration::from_millis(delay));
        kill_process_group(pid, Signal::INT).unwrap();
        let end = run.finish();
        let what = format!("{way}, after {delay} ms, {}", sample.again());
        // Before it listens the signal has its plain effect.
        assert!(
            [130, -2].contains(&end.status),
            "{what}: {} {}",
            end.status,
            end.stderr
        );
        let work = Work::of(&environment);
        checker::assert_recovers(&environment, &before, &work, &what);
    }
}
