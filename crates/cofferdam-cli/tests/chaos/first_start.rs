//! `kill -9` of the first start of a dev sandbox: the next one clears up what there is of it, and works. Nobody calls `gc` before.

use cofferdam_lab::sample::Sample;

use crate::checker::{self, User};
use crate::environment::{Environment, Moment};
use crate::living::{NONE, end, start};

/// One of so many git calls is tried, unless all are wanted.
const SHARE: u64 = 8;

/// It works, and goes without leaving anything.
#[track_caller]
fn works(environment: &Environment, words: &[&str], name: &str, before: &User, what: &str) {
    let done = environment.cofferdam(words);
    assert_eq!(done.status, 0, "{what}: {}", done.stderr);
    let listed = environment.list();
    let [one] = &listed[..] else {
        panic!("{what}: {listed:?}");
    };
    assert_eq!(one["name"], name, "{what}: {one}");
    assert_eq!(one["state"], "active", "{what}: {one}");
    let ids = checker::ids(environment);
    let used = environment.cofferdam(&["exec", name, "--", "true"]);
    assert_eq!(used.status, 0, "{what}: {}", used.stderr);
    let deleted = environment.cofferdam(&["delete", "--force", name]);
    assert_eq!(deleted.status, 0, "{what}: {}", deleted.stderr);
    let said = checker::gc(environment, what);
    checker::assert_nothing_alive(environment, &ids, what);
    checker::assert_clean(environment, before, what, &said);
    let left = environment.states();
    assert!(left.is_empty(), "{what}: {left:?}");
}

fn at_git_calls(branch: &[&str], name: &str) {
    let words = [&["start"], &NONE[..], branch].concat();
    let counted = Environment::new();
    let before = User::of(&counted);
    counted.count_calls();
    let done = end(start(&counted, &words), "start");
    assert_eq!(done.0, Some(0), "{}", done.1);
    let calls = counted.calls();
    counted.killed_at();
    assert!(calls > 0, "a first start calls no git");
    works(&counted, &words, name, &before, "nothing was killed");

    let mut sample = Sample::new(&format!("git calls of a first start of {name}"));
    let share = sample.of(1..=calls, SHARE.min(u64::from(calls)));
    let chosen = share.len();
    let mut killed = 0;
    // The last ones may be made only where something takes long: then others are taken.
    for (number, call) in share.into_iter().chain(1..=calls).enumerate() {
        if number >= chosen && killed > 0 {
            break;
        }
        let moment = [Moment::Before, Moment::During, Moment::After]
            [usize::try_from(sample.below(3)).unwrap()];
        let environment = Environment::new();
        let before = User::of(&environment);
        environment.kill_at(call, moment);
        let child = start(&environment, &words);
        let own = child.id();
        let done = end(child, "start");
        let at = environment.killed_at();
        let what = format!("a first start of {name}, {at:?} ({})", sample.again());
        if at.is_some() {
            killed += 1;
            if environment.killed_process() == Some(own) {
                assert_eq!(done.0, None, "{what}: {}", done.1);
            } else {
                // Who watches the checkout died.
                let told = done.0 == Some(1) && done.1.contains("hint: ");
                assert!(done.0 == Some(0) || told, "{what}: {done:?}");
            }
        }
        works(&environment, &words, name, &before, &what);
    }
    assert!(
        killed > 0,
        "of {calls} git calls of a first start none was hit"
    );
}

#[test]
fn in_the_checkout() {
    at_git_calls(&[], "dev");
}

#[test]
fn on_a_branch_of_the_shelf() {
    at_git_calls(&["--branch", "two"], "dev-two");
}
