//! What somebody does next after a command on a sandbox was killed: it works, or its message says what to do. Nothing has cleared up by
//! then.

use std::time::Duration;

use cofferdam_lab::sample::Sample;

use crate::living::{ALL, NAME, arguments, check, killed, one_of};

/// Merging is left out: `check` wants its user's branch as it was.
const NEXT: [&str; 10] = [
    "exec", "collect", "start", "resume", "pause", "stop", "status", "diff", "log", "delete",
];

#[test]
fn the_next_command_works_or_says_what_to_do() {
    let mut sample = Sample::new("living, the next command");
    let mut hit = 0;
    for _ in sample.of(0..24, 4) {
        let command = one_of(&mut sample, &ALL);
        let next = one_of(&mut sample, &NEXT);
        let delay = Duration::from_micros(sample.below(60_000));
        let Some((environment, before, delay)) = killed(command, delay, &sample) else {
            continue;
        };
        hit += 1;
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
