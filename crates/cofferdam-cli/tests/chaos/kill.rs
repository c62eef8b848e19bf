//! `kill -9` of the command at every step.
//!
//! The steps are made exact by what the command itself starts: each call of git (before it, while
//! it goes on without its caller, after it), each hook, and the agent's own lines. Random delays
//! reach what lies in between.

use std::cell::Cell;
use std::time::Duration;

use cofferdam_lab::sample::Sample;
use cofferdam_lab::skip;
use cofferdam_lab::way::{Mode, Strategy, Way};
use rustix::process::{Signal, kill_process};

use crate::checker::{self, User, Work};
use crate::environment::{AGENT, Environment, Moment};
use crate::keeper::End;
use crate::trees;

/// What people get who say nothing.
const LAYER: Way = Way::new(Strategy::MergeToHead, Mode::Layer);

/// The options of a run in this way, whose sandbox has a name.
fn options(way: Way) -> Vec<&'static str> {
    [way.words(), &["--name", "one"]].concat()
}

/// How many git calls the whole run makes.
fn calls_of(way: Way) -> u32 {
    let environment = Environment::new();
    let before = User::of(&environment);
    environment.count_calls();
    let done = environment.start_run(&options(way), AGENT).finish();
    assert_eq!(done.status, 0, "{way}: {}{}", done.stdout, done.stderr);
    let calls = environment.calls();
    environment.killed_at();
    checker::assert_clean(&environment, &before, &way.to_string(), &done.stdout);
    assert_eq!(checker::subjects(&environment).len(), 3, "{way}");
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

pub(crate) fn moment(number: u64) -> Moment {
    match number {
        0 => Moment::Before,
        1 => Moment::During,
        _ => Moment::After,
    }
}

/// The git calls of a command at which it is killed.
#[derive(Debug, Default)]
struct Kills(Cell<u32>);

impl Kills {
    /// Those that were chosen. The last ones may be made only where something takes long: then others are taken, until one
    /// was met.
    fn points(&self, chosen: Vec<u32>, calls: u32) -> impl Iterator<Item = u32> {
        let count = chosen.len();
        let all = chosen.into_iter().chain(1..=calls).enumerate();
        let wanted = all.take_while(move |(number, _)| *number < count || self.0.get() == 0);
        wanted.map(|(_, call)| call)
    }

    /// The call at which the command died; `None`: it made fewer, and then it did all that it should.
    #[track_caller]
    fn at(&self, environment: &Environment, end: &End, what: &str) -> Option<String> {
        let Some(at) = environment.killed_at() else {
            assert_eq!(end.status, 0, "{what} without a kill: {}", end.stderr);
            return None;
        };
        assert_eq!(end.status, -9, "{what} killed at {at}: {}", end.stderr);
        self.0.set(self.0.get() + 1);
        Some(at)
    }

    #[track_caller]
    fn some(&self, what: &str) {
        assert!(
            self.0.get() > 0,
            "{what} was killed at none of its git calls"
        );
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

fn at_git_calls(way: Way) {
    let calls = calls_of(way);
    assert!(calls >= 6, "{way}: {calls} git calls");
    let mut sample = Sample::new(&way.to_string());
    let chosen = sample.of(1..=calls, SHARE);
    let kills = Kills::default();
    at_each(&sample.again(), kills.points(chosen, calls), |call| {
        // Each call in one of three ways.
        let moment = moment(sample.below(3));
        let environment = Environment::new();
        let before = User::of(&environment);
        environment.kill_at(call, moment);
        let end = environment.start_run(&options(way), AGENT).finish();
        let at = kills.at(&environment, &end, &way.to_string())?;
        let what = format!("{way} killed at git call {at}");
        check(&environment, &before, &what, &end.stdout);
        None
    });
    kills.some(&way.to_string());
}

// covers: S2-9
#[test]
fn at_git_calls_head() {
    at_git_calls(Way::HEAD);
}

// covers: S2-10
#[test]
fn at_git_calls_merge_to_head() {
    at_git_calls(LAYER);
}

#[test]
fn at_git_calls_merge_to_head_bind() {
    at_git_calls(Way::MERGE);
}

#[test]
fn at_git_calls_merge_to_head_copy() {
    at_git_calls(Way::new(Strategy::MergeToHead, Mode::Copy));
}

// covers: S2-11
#[test]
fn at_git_calls_branch() {
    at_git_calls(Way::new(Strategy::Branch, Mode::Layer));
}

#[test]
fn at_git_calls_branch_bind() {
    at_git_calls(Way::new(Strategy::Branch, Mode::Bind));
}

#[test]
fn at_git_calls_branch_copy() {
    at_git_calls(Way::new(Strategy::Branch, Mode::Copy));
}

/// Hooks on the host, which know their caller.
#[test]
fn at_the_hooks() {
    // Layers are refused with them.
    for way in Way::ALL.into_iter().filter(|way| way.mode != Mode::Layer) {
        for hook in ["--on-worktree-ready", "--on-host-ready"] {
            let environment = Environment::new();
            let before = User::of(&environment);
            let mut options = options(way);
            options.extend([hook, "kill -9 $PPID; sleep 1"]);
            let end = environment.start_run(&options, AGENT).finish();
            let what = format!("{way} killed by {hook}");
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
    for way in Way::ALL {
        let environment = Environment::new();
        let before = User::of(&environment);
        let mut options = options(way);
        // Control groups must go too.
        let limited = rustix::process::geteuid().is_root() && way == Way::HEAD;
        if limited {
            options.extend(["--memory", "512m"]);
        } else if way == Way::HEAD {
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
        let what = format!("{way} killed while the agent works");
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
        let way = Way::ALL[usize::try_from(sample.below(Way::ALL.len() as u64)).unwrap()];
        let delay = Duration::from_micros(sample.below(300_000));
        let environment = Environment::new();
        let before = User::of(&environment);
        let run = environment.start_run(&options(way), AGENT);
        let pid = run.pid();
        std::thread::sleep(delay);
        let _ = kill_process(pid, Signal::KILL);
        let end = run.finish();
        let what = format!("{way} killed after {delay:?}");
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
    let calls = calls_of(Way::MERGE);
    let mut tried = 0;
    for call in (calls.saturating_sub(6)..=calls).rev() {
        let environment = Environment::new();
        environment.kill_at(call, Moment::Before);
        environment.start_run(&options(Way::MERGE), AGENT).finish();
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
    for way in [Way::HEAD, Way::MERGE, LAYER] {
        let died = || {
            let environment = Environment::new();
            let before = User::of(&environment);
            let mut run = environment.start_run(&options(way), &format!("{AGENT}; sleep 600"));
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
        let mut sample = Sample::new(&format!("gc of {way}"));
        let chosen = sample.of(1..=calls, SHARE);
        let kills = Kills::default();
        let what = format!("gc of {way}");
        at_each(&sample.again(), kills.points(chosen, calls), |call| {
            let (environment, before) = died();
            let work = Work::of(&environment);
            environment.kill_at(call, moment(sample.below(3)));
            let end = environment.start(&["gc"]).finish();
            let at = kills.at(&environment, &end, &what)?;
            let what = format!("{what} killed at git call {at}");
            checker::assert_recovers(&environment, &before, &work, &what);
            assert_eq!(checker::subjects(&environment).len(), 3, "{what}");
            None
        });
        kills.some(&what);
    }
}

/// `gc` is killed while it writes the files of a commit to one layer again, beside a sandbox that stands on layers below:
/// that one reads all of its files, and so does the next one.
#[test]
fn gc_that_rewrites_a_full_stack() {
    const WHOLE: &str = "git ls-tree -r --object-only HEAD > /tmp/ids; \
        git ls-tree -r --name-only HEAD | git hash-object --stdin-paths | cmp - /tmp/ids";
    let ok = |environment: &Environment, arguments: &[&str], what: &str| {
        let done = environment.cofferdam(arguments);
        let (code, said) = (done.status, done.stderr);
        assert_eq!(code, 0, "{what}: {arguments:?}: {said}");
    };
    let create = |name| ["create", name, "--mode", "layer", "--network", "none"];
    let full = || {
        let environment = Environment::new();
        for number in 0..100 {
            environment.write(&format!("many/{number}"), format!("{number}\n"));
        }
        // As many layers as there may be; the last has no sandbox.
        for step in 1..=8 {
            environment.write("many/0", format!("{step}\n"));
            environment.git(&["add", "many"]);
            environment.git(&["commit", "-qm", "step", "--", "many"]);
            let made = create("one");
            let run = ["run", "--mode", "layer", "--branch", "side", "--", "true"];
            let arguments = if step == 7 { &made[..] } else { &run };
            ok(&environment, arguments, "a full stack");
        }
        environment
    };
    let whole = |environment: &Environment, what: &str| {
        checker::gc(environment, what);
        ok(environment, &["exec", "one", "--", "sh", "-c", WHOLE], what);
        ok(environment, &create("two"), what);
        ok(environment, &["exec", "two", "--", "sh", "-c", WHOLE], what);
        ok(environment, &["stop", "one"], what);
        ok(environment, &["start", "one"], what);
        ok(environment, &["exec", "one", "--", "sh", "-c", WHOLE], what);
        for name in ["one", "two"] {
            ok(environment, &["delete", "--force", name], what);
        }
        checker::assert_sound(environment, what);
        trees::assert_whole(environment, what);
    };
    let environment = full();
    environment.count_calls();
    let done = checker::gc(&environment, "as it should be");
    assert!(done.contains("written to one layer"), "{done}");
    let calls = environment.calls();
    whole(&environment, "as it should be");
    let mut sample = Sample::new("gc of a full stack");
    let again = sample.again();
    let chosen = sample.of(1..=calls, SHARE);
    let kills = Kills::default();
    at_each(&again, kills.points(chosen, calls), |call| {
        let environment = full();
        environment.kill_at(call, moment(sample.below(3)));
        let end = environment.start(&["gc"]).finish();
        let at = kills.at(&environment, &end, "gc of a full stack")?;
        let what = format!("gc of a full stack killed at git call {at}");
        whole(&environment, &what);
        None
    });
    kills.some("gc of a full stack");
    // Between its git calls: it writes, takes the old one away and gives the new one its name.
    at_each(&again, 0..2, |_| {
        let environment = full();
        let mut gc = environment.start(&["gc"]);
        gc.wait_until_said("to one layer");
        let delay = Duration::from_micros(sample.below(40_000));
        std::thread::sleep(delay);
        let _ = kill_process(gc.pid(), Signal::KILL);
        gc.finish();
        whole(
            &environment,
            &format!("gc of a full stack killed after {delay:?}"),
        );
        None
    });
}
