//! Providers that fail, hang and lie: a run ends with their words, in its time, and nothing is left.

use std::time::{Duration, Instant};

use cofferdam::sandbox::{
    BindMount, BindMountProvider, BranchStrategy, CopyStrategy, Handle, Isolated,
};
use cofferdam_lab::sample::Sample;

use super::own::{Apart, Fault, Own};
use super::{WORK, agent};
use crate::bad_input::{HEAD, whole};
use crate::support::{Env, run};

/// Runs with a fault in a provider of both kinds; the errors have these words and nothing is left.
fn check(fault: Fault, words: &str) {
    check_both(fault, words, words);
}

fn check_both(fault: Fault, mounting: &str, apart: &str) {
    for isolated in [false, true] {
        if !isolated && matches!(fault, Fault::FailCopy | Fault::HangCopy) {
            continue;
        }
        let words = if isolated { apart } else { mounting };
        let env = Env::new();
        let own = Own::new(fault);
        let native = own.native.clone();
        let mut options = if isolated {
            env.with(
                Isolated::new(Apart(own), CopyStrategy::MergeToHead),
                agent(WORK),
            )
        } else {
            env.with(
                BindMount::new(own, BranchStrategy::MergeToHead),
                agent(WORK),
            )
        };
        options.session.timeouts.sandbox_start = Duration::from_millis(1500);
        options.session.timeouts.collect = Duration::from_secs(3);
        // Only there: a busy machine may take longer to end what does end.
        if fault == Fault::HangClose && !Sample::new("close").is_everything() {
            options.session.timeouts.close = Duration::from_millis(1500);
        }
        options.task.idle_timeout = Duration::from_secs(1);
        options.task.completion_grace = Duration::from_secs(1);
        let began = Instant::now();
        let result = whole(&env, options, &["refs/heads/main"]);
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "{fault:?}: {:?}",
            began.elapsed()
        );
        match result {
            Ok(_) => assert_eq!(words, "", "{fault:?}, isolated: {isolated}"),
            Err(error) => {
                if let (true, Some(id)) = (isolated, error.kept.id) {
                    // It stays for the work in it, which nobody wants here.
                    let state = env.home.sandbox(id);
                    let handle = Handle { id, state };
                    let ended = BindMountProvider::remove(&native, &handle);
                    crate::support::block_on(ended).unwrap();
                }
                let text = error.to_string();
                assert!(
                    !words.is_empty() && text.contains(words),
                    "{fault:?}, isolated: {isolated}: {text}"
                );
            }
        }
    }
}

#[test]
fn a_provider_that_cannot_create_is_an_error_with_its_words() {
    check(Fault::FailCreate, "no room today");
}

#[test]
fn a_provider_that_hangs_while_it_creates_is_given_up() {
    check(
        Fault::HangCreate,
        "starting the sandbox did not finish within 1.5 s",
    );
}

#[test]
fn a_provider_that_fails_or_hangs_while_it_copies_is_given_up() {
    check(Fault::FailCopy, "the wire was cut");
    check(Fault::HangCopy, "did not finish within");
}

#[test]
fn programs_that_do_not_start_are_given_up() {
    check(Fault::PanicExec, "it fell over");
    check_both(
        Fault::HangExec,
        "printed nothing for 1 s",
        "did not finish within 1.5 s",
    );
}

#[test]
fn programs_whose_end_is_not_told_are_given_up() {
    // It said that it is done, and that is what counts.
    check_both(Fault::HangWait, "", "did not finish within 1.5 s");
}

#[test]
fn a_provider_that_does_not_close_costs_time_and_nothing_else() {
    check(Fault::HangClose, "");
    check(Fault::FailClose, "");
}

// covers: S2-18
#[test]
fn streams_that_never_end_are_left_behind() {
    let env = Env::new();
    let own = BindMount::new(Own::new(Fault::HangRead), HEAD);
    run(env.with(own, agent("git commit -qm work --allow-empty"))).unwrap();
    assert_eq!(env.subjects("main"), ["first", "work"]);
}
