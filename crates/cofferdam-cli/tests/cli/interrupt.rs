//! Ctrl-C and its relatives during a run.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use cofferdam_lab::way::{Strategy, Way};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::containers::{making, worlds};
use crate::environment::{TestEnvironment, finish};

/// Starts a run that commits and then waits for ever, and sends `signal` when it waits.
#[track_caller]
fn interrupted(options: &[&str], script: &str, signal: Signal, code: i32) -> TestEnvironment {
    interrupted_by(options, script, &[signal], code)
}

/// The same with several signals, one soon after the other.
#[track_caller]
fn interrupted_by(
    options: &[&str],
    script: &str,
    signals: &[Signal],
    code: i32,
) -> TestEnvironment {
    let environment = TestEnvironment::with_repository();
    stopped(&environment, options, script, signals, code);
    environment
}

/// The same in an environment that is there; what the command said.
#[track_caller]
fn stopped(
    environment: &TestEnvironment,
    options: &[&str],
    script: &str,
    signals: &[Signal],
    code: i32,
) -> String {
    let mut arguments = vec!["run"];
    arguments.extend_from_slice(options);
    arguments.extend_from_slice(&["--", "sh", "-c", script]);
    let (said, took) = signalled(environment.command(&arguments), signals, code);
    assert!(took < Duration::from_secs(20), "{said}");
    said
}

/// What a command of such a run says, and how long it takes from the first signal on.
#[track_caller]
fn signalled(mut command: Command, signals: &[Signal], code: i32) -> (String, Duration) {
    let mut child = command
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let stderr = child.stderr.take().unwrap();
    let (said, rest) = std::sync::mpsc::channel();
    // Reads on, so that the command never writes into a closed pipe.
    let reader = std::thread::spawn(move || {
        use std::io::BufRead;
        let mut all = String::new();
        for line in std::io::BufReader::new(stderr).lines() {
            let line = line.unwrap();
            if line.contains("waiting-now") {
                let _ = said.send(());
            }
            all.push_str(&line);
            all.push('\n');
        }
        all
    });
    rest.recv_timeout(Duration::from_mins(1))
        .expect("the agent never waited");
    let start = Instant::now();
    for &signal in signals {
        kill_process(Pid::from_child(&child), signal).unwrap();
        // Two at once may arrive as one.
        std::thread::sleep(Duration::from_millis(200));
    }
    let done = finish(child);
    let took = start.elapsed();
    let said = reader.join().unwrap();
    assert_eq!(done.status.code(), Some(code), "{said}");
    assert!(said.contains("stopping the agent"), "{said}");
    (said, took)
}

const COMMITS_AND_WAITS: &str =
    "echo a > a.txt; git add a.txt; git commit -qm a; echo waiting-now; sleep 600";

#[test]
fn commits_come_home_and_nothing_is_left() {
    let environment = interrupted(
        &["--branch", "feature"],
        COMMITS_AND_WAITS,
        Signal::INT,
        130,
    );
    assert_eq!(
        environment.git(&["log", "-1", "--format=%s", "feature"]),
        "a"
    );
    assert_eq!(environment.git(&["worktree", "list"]).lines().count(), 1);
}

#[test]
fn head_too_and_by_other_signals() {
    let environment = interrupted(&["--head"], COMMITS_AND_WAITS, Signal::TERM, 143);
    assert_eq!(environment.git(&["log", "-1", "--format=%s", "main"]), "a");
    assert_eq!(
        environment.git(&["status", "--porcelain", "--untracked-files=no"]),
        ""
    );
    environment.expect_clean();
    interrupted(&["--merge-to-head"], COMMITS_AND_WAITS, Signal::HUP, 129);
}

/// In a container, which is gone with its run. The agent that ignores it is ended there too.
#[test]
fn one_in_a_container_is_gone_and_its_commits_are_home() {
    let deaf = format!("trap '' INT TERM HUP; {COMMITS_AND_WAITS}");
    for world in worlds() {
        let environment = &world.environment;
        for (options, branch, script) in [
            (&["--branch", "feature"][..], "feature", COMMITS_AND_WAITS),
            (&["--head"], "main", deaf.as_str()),
        ] {
            let agent = ["--name", "one", "--", "sh", "-c", script];
            let words = making("run", world.engine, &[options, &agent].concat());
            let command = world.command(&words);
            let (said, _) = signalled(command, &[Signal::INT], 130);
            let what = format!("{} {options:?}: {said}", world.engine);
            assert!(
                said.contains(&format!("landed: 1 commit on {branch}")),
                "{what}"
            );
            let last = environment.git(&["log", "-1", "--format=%s", branch]);
            assert_eq!(last, "a", "{what}");
            // Before any other command of ours could take it away.
            let began = Instant::now();
            while !world.containers().is_empty() {
                assert!(began.elapsed() < Duration::from_secs(30), "{what}");
                std::thread::sleep(Duration::from_millis(50));
            }
            let listed = world.cofferdam(&["list", "--json"]).expect_code(0);
            let listed: Vec<Value> = serde_json::from_str(&listed.stdout).unwrap();
            let interrupted = listed.iter().any(|one| one["interrupted"] == true);
            assert!(!interrupted, "{what}{listed:?}");
            // It stays as long as its branch.
            if listed.iter().any(|one| one["name"] == "one") {
                world
                    .cofferdam(&["delete", "--force", "one"])
                    .expect_code(0);
            }
        }
        world.expect_clean();
    }
}

#[test]
fn an_agent_that_ignores_signals_is_ended_all_the_same() {
    let script = "trap '' INT TERM HUP; echo waiting-now; while :; do sleep 1; done";
    interrupted(&[], script, Signal::INT, 130).expect_clean();
}

#[test]
fn twice_leaves_at_once_and_loses_nothing() {
    let script = format!("trap '' INT TERM HUP; {COMMITS_AND_WAITS}");
    let options = ["--branch", "feature", "--name", "twice"];
    let environment = TestEnvironment::with_repository();
    let said = stopped(&environment, &options, &script, &[Signal::INT; 2], 130);
    assert!(said.contains("\nnext: cofferdam gc "), "{said}");
    environment.cofferdam(&["gc"]).expect_code(0);
    assert_eq!(
        environment.git(&["log", "-1", "--format=%s", "feature"]),
        "a"
    );
}

#[test]
fn three_times_is_the_end_of_it() {
    let script = format!("trap '' INT TERM HUP; {COMMITS_AND_WAITS}");
    let options = ["--branch", "feature", "--name", "thrice"];
    let environment = interrupted_by(&options, &script, &[Signal::INT; 3], 130);
    environment.cofferdam(&["gc"]).expect_code(0);
    assert_eq!(
        environment.git(&["log", "-1", "--format=%s", "feature"]),
        "a"
    );
}

/// What is said at the end is where the commits are, and its next step works as printed.
#[test]
fn the_summary_is_true_for_each_strategy_and_has_the_next_step() {
    let follow = |environment: &TestEnvironment, said: &str| {
        let next = said.lines().find_map(|line| line.strip_prefix("next: "));
        let next = next.unwrap_or_else(|| panic!("no next step: {said}"));
        let program = env!("CARGO_BIN_EXE_cofferdam");
        let line = format!("cofferdam() {{ '{program}' \"$@\"; }}; {next}");
        environment.shell(&line).expect_code(0);
    };
    for way in Way::ALL {
        let (options, branch) = (way.words(), way.strategy.lands_on());
        let environment = TestEnvironment::with_repository();
        let said = stopped(
            &environment,
            options,
            COMMITS_AND_WAITS,
            &[Signal::INT],
            130,
        );
        // A run that was stopped moves no target: its own branch waits for its user.
        let own = if way.strategy == Strategy::MergeToHead {
            let words = "stopped: the run was stopped\nkept: 1 commit on cofferdam/";
            assert!(said.contains(words), "{options:?}: {said}");
            assert_eq!(
                environment.git(&["log", "-1", "--format=%s", branch]),
                "start"
            );
            environment.git(&[
                "for-each-ref",
                "--format=%(refname)",
                "refs/heads/cofferdam/",
            ])
        } else {
            let words = format!(
                "stopped: the run was stopped\nlanded: 1 commit on {branch}, which is now at "
            );
            assert!(said.contains(&words), "{options:?}: {said}");
            assert!(!said.contains("kept: 1 commit"), "{said}");
            branch.to_owned()
        };
        // As at any other end, they are listed.
        let id = environment.git(&["rev-parse", "--short=10", &own]);
        let listed = said.lines().filter(|line| line.starts_with("  "));
        let mut commits = listed.filter_map(|line| line.trim().split_once(' '));
        assert!(
            commits.any(|(short, subject)| subject == "a" && id.starts_with(short)),
            "{said}"
        );
        follow(&environment, &said);
        let landed = environment.git(&["log", "-1", "--format=%s", branch]);
        assert_eq!(landed, "a", "{options:?}");
        assert!(environment.repository().join("a.txt").exists(), "{said}");
    }

    // Where the user's own commit is in the way, they are kept.
    let environment = TestEnvironment::with_repository();
    let mine = "echo mine > mine.txt; git add mine.txt; git commit -qm mine";
    let options = ["--head", "--name", "late", "--on-host-ready", mine];
    let said = stopped(
        &environment,
        &options,
        COMMITS_AND_WAITS,
        &[Signal::INT],
        130,
    );
    assert!(
        said.contains("\nkept: 1 commit on refs/cofferdam/"),
        "{said}"
    );
    assert!(said.contains("\nnext: cofferdam merge late\n"), "{said}");
    follow(&environment, &said);
    assert!(environment.repository().join("a.txt").exists());

    let environment = TestEnvironment::with_repository();
    let script = "echo waiting-now; sleep 600";
    let said = stopped(&environment, &[], script, &[Signal::INT], 130);
    assert!(
        said.contains("\nnothing: the agent made no commit\n"),
        "{said}"
    );
    assert!(!said.contains("\nnext: "), "{said}");
}
