//! What a sandbox with layers changes is written by one mount alone: two at once would each have a view of their own.

use std::collections::BTreeSet;
use std::time::Duration;

use cofferdam_lab::sample::Sample;

use crate::checker::User;
use crate::environment::Environment;
use crate::living::{NONE, arguments, check, end, kill, processes, ready_with, start};

/// A sandbox with layers that is stopped.
fn stopped() -> Environment {
    ready_with("start", &[&NONE[..], &["--mode", "layer"]].concat(), None)
}

#[test]
fn two_starts_mount_it_once() {
    for round in 0..3 {
        let environment = stopped();
        let before = User::of(&environment);
        let both = [0, 1].map(|_| start(&environment, &arguments("start")));
        let ends = both.map(|child| end(child, "start"));
        let what = format!("round {round}: {ends:?}");
        assert!(ends.iter().any(|(code, _)| *code == Some(0)), "{what}");
        for (code, said) in &ends {
            assert!(*code == Some(0) || said.contains("running"), "{what}");
        }
        assert_eq!(overlays(&environment).len(), 1, "{what}");
        check(&environment, &before, true, &what);
    }
}

/// Whoever starts it dies at any time, and the next one does not wait for what is left of that.
#[test]
fn a_start_after_a_killed_one_mounts_it_once() {
    let mut sample = Sample::new("starts that are killed");
    for _ in sample.of(0..16, 4) {
        let environment = stopped();
        let before = User::of(&environment);
        assert_eq!(overlays(&environment).len(), 0);
        let first = start(&environment, &arguments("start"));
        let delay = Duration::from_micros(sample.below(60_000));
        std::thread::sleep(delay);
        kill(&first);
        let (code, said) = end(start(&environment, &arguments("start")), "start");
        let what = format!("killed after {delay:?}: {said}");
        assert_eq!(overlays(&environment).len(), 1, "{what}");
        assert!(code == Some(0) || said.contains("running"), "{what}");
        end(first, "the killed start");
        // Nor is one that runs mounted again.
        let (code, said) = end(start(&environment, &arguments("start")), "start");
        assert!(said.contains("running already"), "{code:?}: {said}");
        assert_eq!(overlays(&environment).len(), 1, "{what}");
        check(&environment, &before, true, &what);
    }
}

/// The count can be another one: two sandboxes have two.
#[test]
fn two_mounts_are_seen() {
    let environment = stopped();
    let done = environment.cofferdam(&arguments("start"));
    assert_eq!(done.status, 0, "{}", done.stderr);
    let other = [&["create", "two", "--mode", "layer"], &NONE[..]].concat();
    for (arguments, count) in [(&other[..], 2), (&["delete", "--force", "two"], 1)] {
        let done = environment.cofferdam(arguments);
        assert_eq!(done.status, 0, "{}", done.stderr);
        assert_eq!(overlays(&environment).len(), count, "{arguments:?}");
    }
    let done = environment.cofferdam(&arguments("delete"));
    assert_eq!(done.status, 0, "{}", done.stderr);
}

/// The file systems of layers that processes of this environment's sandbox see.
fn overlays(environment: &Environment) -> BTreeSet<String> {
    let seen = processes(environment).into_iter().filter_map(|pid| {
        let path = format!("/proc/{pid}/mountinfo");
        std::fs::read_to_string(path).ok()
    });
    let seen: Vec<String> = seen.collect();
    let lines = seen.iter().flat_map(|text| text.lines());
    lines
        .filter(|line| line.contains(" - overlay ") && line.contains("upperdir=u/upper"))
        // What a killed command of anybody's left on this machine is seen by all, and is no sandbox's workspace.
        .filter(|line| {
            line.split(' ')
                .nth(4)
                .is_some_and(|at| at.starts_with("/workspace/"))
        })
        .filter_map(|line| line.split(' ').nth(2).map(str::to_owned))
        .collect()
}
