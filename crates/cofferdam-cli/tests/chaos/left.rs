//! `kill -9` of the commands that bring out what a sandbox left in no commit: `apply`, `apply --undo`, `worktree` and `start`.
//! Afterwards the user's files are as they were or as they are to be, `list` shows what there is, the same command again
//! finishes, and nothing is lost.

use std::process::Command;

use cofferdam_lab::sample::Sample;

use crate::checker::{self, User};
use crate::environment::{Environment, Moment};
use crate::living::{NAME, end, start};

/// One of so many git calls is tried, unless all are wanted.
const SHARE: u64 = 4;
/// A changed file, a removed one, new ones in new directories, one with another mode. Nothing of it is the user's.
const LEAVES: &str = "echo three >> src/lib.txt; rm README.md; mkdir -p deep/er; echo u > deep/er/u; \
     printf '#!/bin/sh\\n' > run; chmod +x run; ln -s run link";

/// A sandbox that ended with work in no commit.
fn left() -> Environment {
    let environment = Environment::new();
    let options = [
        "--mode",
        "layer",
        "--merge-to-head",
        "--network",
        "none",
        "--name",
        NAME,
    ];
    let done = environment.start_run(&options, LEAVES).finish();
    assert_eq!(done.status, 0, "{}{}", done.stdout, done.stderr);
    environment
}

#[track_caller]
fn ok(environment: &Environment, arguments: &[&str], what: &str) -> String {
    let done = environment.cofferdam(arguments);
    assert_eq!(
        done.status, 0,
        "{what}: {arguments:?}: {}{}",
        done.stdout, done.stderr
    );
    done.stdout
}

/// `list` shows the sandbox, and `gc` leaves it and its work alone.
#[track_caller]
fn is_there(environment: &Environment, what: &str) {
    let listed = environment.list();
    let names: Vec<_> = listed.iter().map(|one| &one["name"]).collect();
    assert_eq!(names, [NAME], "{what}");
    checker::gc(environment, what);
    assert_eq!(environment.list().len(), 1, "{what}");
}

/// Nothing of it is left once its user lets go of it.
#[track_caller]
fn is_cleared(environment: &Environment, before: &User, what: &str) {
    let ids = checker::ids(environment);
    ok(environment, &["delete", "--force", NAME], what);
    assert_eq!(environment.list().len(), 0, "{what}");
    let said = checker::gc(environment, what);
    checker::assert_nothing_alive(environment, &ids, what);
    checker::assert_clean(environment, before, what, &said);
    assert!(environment.states().is_empty(), "{what}");
}

/// Kills the command at a share of its git calls, each time in an environment of its own; `check` is told what was done.
fn at_git_calls(
    arguments: &[&str],
    ready: impl Fn() -> Environment,
    check: impl Fn(&Environment, &str),
) {
    let counted = ready();
    counted.count_calls();
    let done = end(start(&counted, arguments), "counting");
    assert_eq!(done.0, Some(0), "{arguments:?}: {}", done.1);
    let calls = counted.calls();
    counted.killed_at();
    check(&counted, &format!("{arguments:?} without a kill"));
    let mut sample = Sample::new(&arguments.join(" "));
    let mut killed = 0;
    let share: Vec<_> = sample
        .of(1..=calls, SHARE.min(u64::from(calls)))
        .into_iter()
        .collect();
    let chosen = share.len();
    // The last ones may be made only where something takes long: then others are taken.
    for (number, call) in share.into_iter().chain(1..=calls).enumerate() {
        if number >= chosen && killed > 0 {
            break;
        }
        let moment = [Moment::Before, Moment::During, Moment::After];
        let moment = moment[usize::try_from(sample.below(3)).unwrap()];
        let environment = ready();
        environment.kill_at(call, moment);
        let done = end(start(&environment, arguments), "killing");
        let at = environment.killed_at().unwrap_or_default();
        let what = format!("{arguments:?} killed at git call {at} ({})", sample.again());
        if at.is_empty() {
            assert_eq!(done.0, Some(0), "{what}: {}", done.1);
        } else {
            assert_eq!(done.0, None, "{what}: {}", done.1);
            killed += 1;
        }
        git_has_ended(&environment);
        check(&environment, &what);
    }
    assert!(
        killed > 0,
        "of {calls} git calls of {arguments:?} none was hit"
    );
}

/// A git whose caller died goes on for a moment.
fn git_has_ended(environment: &Environment) {
    let place = environment.path("repo");
    crate::walled::eventually("git went on", || {
        let entries = std::fs::read_dir("/proc").unwrap().flatten();
        !entries.into_iter().any(|entry| {
            let is_git = std::fs::read_to_string(entry.path().join("comm"))
                .is_ok_and(|name| name.trim_end() == "git");
            is_git
                && std::fs::read_link(entry.path().join("cwd"))
                    .is_ok_and(|at| at.starts_with(&place))
        })
    });
}

/// The user's files before and after a whole `apply` of the same work.
fn both() -> (User, User) {
    let environment = left();
    let before = User::of(&environment);
    ok(&environment, &["apply", NAME], "as it should be");
    let after = User::of(&environment);
    assert_ne!(before, after);
    (before, after)
}

#[test]
fn apply_at_git_calls() {
    let (before, after) = both();
    let turn = std::cell::Cell::new(false);
    let cut_short = std::cell::Cell::new(0);
    at_git_calls(&["apply", NAME], left, |environment, what| {
        let now = User::of(environment);
        is_there(environment, what);
        // Nothing forgets one that did not come to its end.
        let listed = environment.cofferdam(&["list"]);
        let is_told = format!("{}{}", listed.stdout, listed.stderr).contains("was cut short");
        // Git that is killed among the files leaves some of them written.
        let is_half = is_told && now.is_between(&before, &after);
        assert!(
            now == before || now == after || is_half,
            "{what}: {}: {now:?}",
            listed.stdout
        );
        if is_told {
            let refused = environment.cofferdam(&["delete", NAME]);
            assert_eq!(refused.status, 1, "{what}: {}", refused.stderr);
            cut_short.set(cut_short.get() + 1);
        }
        // By turns: it is taken back first, where there is something to take back.
        if turn.replace(!turn.get()) && now != before {
            ok(environment, &["apply", "--undo", NAME], what);
            assert_eq!(User::of(environment), before, "{what}");
        }
        ok(environment, &["apply", NAME], what);
        assert_eq!(User::of(environment), after, "{what}");
        ok(environment, &["apply", "--undo", NAME], what);
        is_cleared(environment, &before, what);
    });
    // While files are written one git at least runs.
    assert!(cut_short.get() > 0);
}

#[test]
fn undo_at_git_calls() {
    let (before, after) = both();
    let applied = || {
        let environment = left();
        ok(&environment, &["apply", NAME], "before");
        environment
    };
    at_git_calls(&["apply", "--undo", NAME], applied, |environment, what| {
        let now = User::of(environment);
        // It goes by files, and has a journal.
        assert!(now.is_between(&before, &after), "{what}: {now:?}");
        is_there(environment, what);
        // Again: finished, or there is nothing left to take back.
        let again = environment.cofferdam(&["apply", "--undo", NAME]);
        assert!(
            again.status == 0 || now == before,
            "{what}: {}",
            again.stderr
        );
        assert_eq!(User::of(environment), before, "{what}: {}", again.stderr);
        ok(environment, &["apply", NAME], what);
        assert_eq!(User::of(environment), after, "{what}");
        ok(environment, &["apply", "--undo", NAME], what);
        is_cleared(environment, &before, what);
    });
}

#[test]
fn worktree_at_git_calls() {
    let before = User::of(&left());
    at_git_calls(&["worktree", NAME], left, |environment, what| {
        assert_eq!(User::of(environment), before, "{what}");
        is_there(environment, what);
        let mut done = environment.cofferdam(&["worktree", NAME]);
        // One that is not whole is never taken for whole: its user moves it away, as they are told.
        if done.status != 0 {
            assert!(
                done.stderr.contains("it was cut short"),
                "{what}: {}",
                done.stderr
            );
            let mut lines = done.stderr.lines();
            let moves = lines.find_map(|line| line.strip_prefix("hint: move it away: `"));
            let moves = moves.unwrap_or_else(|| panic!("{what}: {}", done.stderr));
            let moved = Command::new("sh")
                .args(["-c", moves.trim_end_matches('`')])
                .current_dir(environment.repo())
                .status();
            assert!(moved.unwrap().success(), "{what}: {moves}");
            done = environment.cofferdam(&["worktree", NAME]);
        }
        assert_eq!(done.status, 0, "{what}: {}", done.stderr);
        let place = std::path::Path::new(done.stdout.trim());
        assert!(
            place.join("deep/er/u").exists() && !place.join("README.md").exists(),
            "{what}"
        );
        ok(environment, &["delete", "--force", NAME], what);
        assert_eq!(User::of(environment), before, "{what}");
        assert_eq!(environment.list().len(), 0, "{what}");
        checker::gc(environment, what);
        assert!(environment.states().is_empty(), "{what}");
    });
}

#[test]
fn start_of_one_that_ended_at_git_calls() {
    let before = User::of(&left());
    at_git_calls(&["start", NAME], left, |environment, what| {
        assert_eq!(User::of(environment), before, "{what}");
        is_there(environment, what);
        ok(environment, &["start", NAME], what);
        let look = [
            "exec",
            NAME,
            "--",
            "sh",
            "-c",
            "cat deep/er/u; test ! -e README.md; readlink link",
        ];
        assert_eq!(ok(environment, &look, what), "u\nrun\n", "{what}");
        is_cleared(environment, &before, what);
    });
}
