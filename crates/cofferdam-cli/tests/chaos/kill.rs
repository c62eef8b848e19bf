//! `kill -9` of the command at every step.
//!
//! The steps are made exact by what the command itself starts: each call of git (before it, while
//! it goes on without its caller, after it), each hook, and the agent's own lines. Random delays
//! reach what lies in between.

use std::time::Duration;

use cofferdam_lab::sample::Sample;
use cofferdam_lab::skip;
use rustix::process::{Signal, kill_process};

use crate::checker::{self, User, Work};
use crate::environment::{AGENT, Environment, Moment};

struct Setup {
    name: &'static str,
    options: &'static [&'static str],
}

const HEAD: Setup = Setup {
    name: "head",
    options: &["--head"],
};
const MERGE: Setup = Setup {
    name: "merge-to-head",
    options: &["--mode", "bind", "--merge-to-head", "--name", "one"],
};
const BRANCH: Setup = Setup {
    name: "branch",
    options: &["--mode", "bind", "--branch", "feature"],
};
const COPY: Setup = Setup {
    name: "copy",
    options: &["--mode", "copy", "--merge-to-head", "--name", "one"],
};

const LAYER: Setup = Setup {
    name: "layer",
    options: &["--mode", "layer", "--merge-to-head", "--name", "one"],
};

/// How many git calls the whole run makes.
fn calls_of(setup: &Setup) -> u32 {
    let environment = Environment::new();
    let before = User::of(&environment);
    environment.count_calls();
    let done = environment.start_run(setup.options, AGENT).finish();
    assert_eq!(
        done.status, 0,
        "{}: {}{}",
        setup.name, done.stdout, done.stderr
    );
    let calls = environment.calls();
    environment.killed_at();
    checker::assert_clean(&environment, &before, setup.name, &done.stdout);
    assert_eq!(checker::subjects(&environment).len(), 3, "{}", setup.name);
    calls
}

/// One of so many neighbouring points is tried, unless all are wanted.
const SHARE: u64 = 4;

/// Tries every point before it fails, and then names all that did not hold, and how to try them again.
fn at_each<T>(
    again: &str,
    points: impl IntoIterator<Item = T>,
    mut test: impl FnMut(T) -> Option<String>,
) {
    let mut failed = Vec::new();
    for point in points {
        let tried = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| test(point)));
        match tried {
            Ok(None) => {}
            Ok(Some(what)) => failed.push(what),
            Err(panic) => failed.push(
                panic
                    .downcast_ref::<String>()
                    .cloned()
                    .unwrap_or_else(|| "a panic without words".to_owned()),
            ),
        }
    }
    assert!(
        failed.is_empty(),
        "{} points failed ({again}):\n\n{}",
        failed.len(),
        failed.join("\n\n")
    );
}

fn moment(number: u64) -> Moment {
    match number {
        0 => Moment::Before,
        1 => Moment::During,
        _ => Moment::After,
    }
}

/// What must hold after the command's death.
#[track_caller]
fn check(environment: &Environment, before: &User, what: &str, stdout: &str) {
    let work = Work::of(environment);
    checker::assert_recovers(environment, before, &work, what);
    if stdout.contains("all-committed") || stdout.contains("iteration_finished") {
        let subjects = checker::subjects(environment);
        assert_eq!(subjects.len(), 3, "{what}: only {subjects:?} came home");
    }
}

fn at_git_calls(setup: &Setup) {
    let calls = calls_of(setup);
    assert!(calls >= 6, "{}: {calls} git calls", setup.name);
    let mut sample = Sample::new(setup.name);
    let chosen = sample.of(1..=calls, SHARE);
    at_each(&sample.again(), chosen, |call| {
        // Each call in one of three ways.
        let moment = moment(sample.below(3));
        let environment = Environment::new();
        let before = User::of(&environment);
        environment.kill_at(call, moment);
        let end = environment.start_run(setup.options, AGENT).finish();
        let at = environment.killed_at()?;
        let what = format!("{} killed at git call {at}", setup.name);
        assert_eq!(end.status, -9, "{what}: {}", end.stderr);
        check(&environment, &before, &what, &end.stdout);
        None
    });
}

// covers: S2-9
#[test]
fn at_git_calls_head() {
    at_git_calls(&HEAD);
}

// covers: S2-10
#[test]
fn at_git_calls_merge_to_head() {
    at_git_calls(&MERGE);
}

// covers: S2-11
#[test]
fn at_git_calls_branch() {
    at_git_calls(&BRANCH);
}

#[test]
fn at_git_calls_copy() {
    at_git_calls(&COPY);
}

#[test]
fn at_git_calls_layer() {
    at_git_calls(&LAYER);
}

/// Hooks on the host, which know their caller.
#[test]
fn at_the_hooks() {
    for setup in [&HEAD, &MERGE, &COPY] {
        for hook in ["--on-worktree-ready", "--on-host-ready"] {
            let environment = Environment::new();
            let before = User::of(&environment);
            let mut options = setup.options.to_vec();
            options.extend([hook, "kill -9 $PPID; sleep 1"]);
            let end = environment.start_run(&options, AGENT).finish();
            let what = format!("{} killed by {hook}", setup.name);
            assert_eq!(end.status, -9, "{what}: {}", end.stderr);
            check(&environment, &before, &what, &end.stdout);
        }
    }
}

/// A hook on the host that never ends: it dies with its caller.
#[test]
fn during_a_hook() {
    for hook in ["--on-worktree-ready", "--on-host-ready"] {
        let environment = Environment::new();
        let before = User::of(&environment);
        let options = ["--merge-to-head", hook, "sleep 600 | cat"];
        let mut run = environment.start_run(&options, AGENT);
        run.wait_until_said("hook_started");
        std::thread::sleep(Duration::from_millis(50));
        kill_process(run.pid(), Signal::KILL).unwrap();
        let end = run.finish();
        check(&environment, &before, hook, &end.stdout);
    }
}

/// While the agent works: its commits so far come home, its tree dies.
#[test]
fn while_the_agent_works() {
    let script = "mkdir -p agent; for n in 1 2 3; do echo w$n > agent/$n.txt; git add agent/$n.txt; \
         git commit -qm w$n; done; (setsid sh -c 'trap \"\" TERM HUP INT; sleep 600' &) ; \
         echo now-waiting; trap '' TERM HUP INT; sleep 600";
    for setup in [&HEAD, &MERGE, &BRANCH, &COPY, &LAYER] {
        let environment = Environment::new();
        let before = User::of(&environment);
        let mut options = setup.options.to_vec();
        // Control groups must go too.
        let limited = rustix::process::geteuid().is_root() && setup.name == "head";
        if limited {
            options.extend(["--memory", "512m"]);
        } else if setup.name == "head" {
            skip!("that control groups go too: only root has them");
        }
        let mut run = environment.start_run(&options, script);
        run.wait_until_said("now-waiting");
        let ids = checker::ids(&environment);
        if limited {
            let id = ids.first().unwrap();
            assert!(
                !checker::control_groups(id).is_empty(),
                "nothing limits {id}"
            );
        }
        kill_process(run.pid(), Signal::KILL).unwrap();
        let end = run.finish();
        assert_eq!(end.status, -9);
        let what = format!("{} killed while the agent works", setup.name);
        check(&environment, &before, &what, &end.stdout);
        assert_eq!(checker::subjects(&environment).len(), 3, "{what}");
    }
}

/// At times that nobody chose.
#[test]
fn at_random_times() {
    let mut sample = Sample::new("random times");
    let chosen = sample.of(0..16, 2);
    at_each(&sample.again(), chosen, |_| {
        let setups = [&HEAD, &MERGE, &BRANCH, &COPY, &LAYER];
        let setup = setups[usize::try_from(sample.below(5)).unwrap()];
        let delay = Duration::from_micros(sample.below(300_000));
        let environment = Environment::new();
        let before = User::of(&environment);
        let run = environment.start_run(setup.options, AGENT);
        let pid = run.pid();
        std::thread::sleep(delay);
        let _ = kill_process(pid, Signal::KILL);
        let end = run.finish();
        let what = format!("{} killed after {delay:?}", setup.name);
        check(&environment, &before, &what, &end.stdout);
        None
    });
}

/// What the user commits to the sandbox's own branch before `gc` comes is theirs.
#[test]
fn a_branch_that_the_user_went_on_with() {
    let environment = Environment::new();
    let before = User::of(&environment);
    // The landing is done, the branch still there: `update-ref` is the last git call but few.
    let calls = calls_of(&MERGE);
    let mut tried = 0;
    for call in (calls.saturating_sub(6)..=calls).rev() {
        let environment = Environment::new();
        environment.kill_at(call, Moment::Before);
        environment.start_run(MERGE.options, AGENT).finish();
        environment.killed_at();
        let Ok(tip) = environment.try_git(&["rev-parse", "--verify", "-q", "cofferdam/one"]) else {
            continue;
        };
        let more = environment.git(&[
            "commit-tree",
            "-p",
            &tip,
            "-m",
            "user",
            &format!("{tip}^{{tree}}"),
        ]);
        environment.git(&["update-ref", "refs/heads/cofferdam/one", &more]);
        let done = environment.cofferdam(&["gc"]);
        let what = format!("at git call {call}: {}{}", done.stdout, done.stderr);
        assert_eq!(
            environment.git(&["rev-parse", "cofferdam/one"]),
            more,
            "{what}"
        );
        assert_eq!(User::of(&environment), before, "{what}");
        tried += 1;
    }
    assert!(tried > 0);
}

/// `gc` is killed at each of its own git calls, and repeated.
#[test]
fn gc_itself() {
    for setup in [&HEAD, &MERGE] {
        let died = || {
            let environment = Environment::new();
            let before = User::of(&environment);
            let mut run = environment.start_run(setup.options, &format!("{AGENT}; sleep 600"));
            run.wait_until_said("all-committed");
            kill_process(run.pid(), Signal::KILL).unwrap();
            run.finish();
            (environment, before)
        };
        let (environment, _) = died();
        environment.count_calls();
        checker::gc(&environment, "as it should be");
        let calls = environment.calls();
        assert!(calls > 5, "gc makes {calls} git calls");
        let mut sample = Sample::new(&format!("gc of {}", setup.name));
        let chosen = sample.of(1..=calls, SHARE);
        at_each(&sample.again(), chosen, |call| {
            let (environment, before) = died();
            let work = Work::of(&environment);
            environment.kill_at(call, moment(sample.below(3)));
            let end = environment.start(&["gc"]).finish();
            let at = environment.killed_at()?;
            let what = format!("gc of {} killed at git call {}", setup.name, at);
            assert_eq!(end.status, -9, "{what}");
            checker::assert_recovers(&environment, &before, &work, &what);
            assert_eq!(checker::subjects(&environment).len(), 3, "{what}");
            None
        });
    }
}
