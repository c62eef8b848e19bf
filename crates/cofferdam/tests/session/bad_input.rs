//! Repositories, agents and arguments as they should not be: a clear error or a correct result,
//! nothing lost, nothing left running, and no reference changed but the sandbox's own.

mod beside;
mod hostile;
mod paths;
mod refused;
mod repositories;
mod streams;
mod users;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};

use cofferdam::sandbox::BranchStrategy;
use cofferdam::session::Landing;
use cofferdam::{RunError, RunOptions, RunReport};
use cofferdam_lab::way::{Mode, Strategy, Way};

use crate::support::{Env, command, run};

pub(crate) const HEAD: BranchStrategy = BranchStrategy::Head;

/// Runs, and then looks whether only `may_move` and Cofferdam's own references moved, whether the
/// repository is sound, and whether processes or mounts of the run are left.
pub(crate) fn whole(
    env: &Env,
    mut options: RunOptions,
    may_move: &[&str],
) -> Result<RunReport, RunError> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let mark = format!("COFFERDAM_TEST_MARK=-{}-{number}-", std::process::id());
    let (key, value) = mark.split_once('=').unwrap();
    options.session.environment.insert(key.into(), value.into());
    let before = refs(env);
    let result = run(options);
    assert_eq!(processes_in(&mark), Vec::<String>::new(), "left running");
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let place = env.dir.path().file_name().unwrap().to_str().unwrap();
    assert!(!mounts.contains(place), "{mounts}");
    let after = refs(env);
    let names = before.keys().chain(after.keys());
    let own = |name: &str| {
        name.starts_with("refs/cofferdam/") || name.starts_with("refs/heads/cofferdam/")
    };
    for name in names.filter(|name| !own(name)) {
        let same = before.get(name) == after.get(name);
        assert!(same || may_move.contains(&name.as_str()), "{name} moved");
    }
    env.assert_sound();
    result
}

/// As [`whole`], and the run must succeed.
pub(crate) fn whole_ok(env: &Env, options: RunOptions, may_move: &[&str]) -> RunReport {
    whole(env, options, may_move).unwrap_or_else(|error| panic!("{error}\n{:#?}", error.kept))
}

fn refs(env: &Env) -> BTreeMap<String, String> {
    let lines = env.refs();
    let pairs = lines.lines().filter_map(|line| line.split_once(' '));
    pairs.map(|(name, id)| (name.into(), id.into())).collect()
}

/// Processes with this in their environment.
pub(crate) fn processes_in(mark: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(environment) = std::fs::read(entry.path().join("environ")) else {
            continue;
        };
        if String::from_utf8_lossy(&environment).contains(mark) {
            let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            found.push(String::from_utf8_lossy(&line).replace('\0', " "));
        }
    }
    found
}

/// A branch strategy by name.
pub(crate) fn branch(name: &str) -> BranchStrategy {
    BranchStrategy::Branch {
        branch: name.parse().unwrap(),
        base: None,
    }
}

/// What an agent does in any repository: it finds a clean tree, writes, and commits.
const WORK: &str = r#"
    git status --porcelain > /tmp/status; test ! -s /tmp/status || { cat /tmp/status >&2; exit 9; }
    git log --oneline > /dev/null || exit 8
    echo "$0" >> work.txt && git add work.txt && git commit -qm "work $0""#;

fn work(name: &str) -> std::sync::Arc<dyn cofferdam::agent::AgentProvider> {
    command(&["/bin/sh", "-c", WORK, name])
}

/// The same small job by every way of working: each must land. A branch of the caller's in the mode of this pass, or the
/// same would take twice as long.
pub(crate) fn exercise(env: &Env) {
    let wanted = |way: &Way| way.strategy != Strategy::Branch || way.mode == Mode::of_this_pass();
    let (mut main, mut feature) = (String::new(), String::new());
    for way in Way::ALL.into_iter().filter(wanted) {
        let target = way.strategy.lands_on();
        let line = format!("{way}\n");
        let mut options = env.in_way(way, "");
        options.task.agent = work(&way.to_string());
        let report = whole_ok(env, options, &[&format!("refs/heads/{target}")]);
        assert!(
            matches!(report.landing, Landing::Landed { .. }),
            "{way}: {}\n{}",
            report.landing,
            env.said()
        );
        assert_eq!(report.preserved_worktree, None, "{way}");
        if way.strategy == Strategy::Branch {
            feature = format!("{main}{line}");
        } else {
            main.push_str(&line);
        }
    }
    assert_eq!(env.git(&["show", "main:work.txt"]), main.trim_end());
    assert_eq!(env.read("work.txt"), main);
    let branch = env.git(&["show", "feature:work.txt"]);
    assert_eq!(branch, feature.trim_end());
    assert_eq!(env.git(&["status", "--porcelain"]), "");
    // The sandbox of `feature` stays in `list` as long as its branch.
    let left = std::fs::read_dir(env.home.state()).unwrap().count();
    assert_eq!(left, 1);
}
