//! What somebody does next after a command on a sandbox was killed: it works, or its message says what to do. Nothing has cleared up by
//! then.

use std::time::Duration;

use cofferdam_lab::sample::Sample;

use crate::checker::User;
use crate::living::{ALL, NAME, arguments, check, end, kill, ready, start};

/// Merging is left out: `check` wants its user's branch as it was.
const NEXT: [&str; 10] = [
    "exec", "collect", "start", "resume", "pause", "stop", "status", "diff", "log", "delete",
];

#[test]
fn the_next_command_works_or_says_what_to_do() {
    let mut sample = Sample::new("living, the next command");
    let mut hit = 0;
    for _ in sample.of(0..24, 4) {
        let command = ALL[usize::try_from(sample.below(ALL.len() as u64)).unwrap()];
        let next = NEXT[usize::try_from(sample.below(NEXT.len() as u64)).unwrap()];
        // Sooner and sooner, until it is killed before its end.
        let mut delay = Duration::from_micros(sample.below(60_000));
        let (environment, before, done) = loop {
            let environment = ready(command);
            let before = User::of(&environment);
            let child = start(&environment, &arguments(command));
            std::thread::sleep(delay);
            kill(&child);
            let done = end(child, command);
            if done.0.is_none() || delay.is_zero() {
                break (environment, before, done);
            }
            let what = format!("{command} ended within {delay:?} ({})", sample.again());
            check(&environment, &before, command != "create", &what);
            delay /= 4;
        };
        hit += i32::from(done.0.is_none());
        let what = format!(
            "{next} after {command} was killed after {delay:?} ({})",
            sample.again()
        );
        let then = environment.cofferdam(&arguments(next));
        let leads_on = then.status == 1 && then.stderr.contains("hint: ");
        assert!(
            then.status == 0 || leads_on,
            "{what}: {} {}",
            then.status,
            then.stderr
        );
        // One that is there is found by its name.
        let there = environment.list().iter().any(|one| one["name"] == NAME);
        assert!(
            !there || !then.stderr.contains("not found"),
            "{what}: {}",
            then.stderr
        );
        check(&environment, &before, command != "create", &what);
    }
    assert!(hit > 0, "nothing was killed before its end");
}
