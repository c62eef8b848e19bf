//! `run --plan`: many tasks, each on a branch of its own. Here the agent is a shell, and a prompt is its script.

use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::dies::init_around_sleep;
use crate::environment::{Done, TestEnvironment, commit_script, finish};
use crate::lives::{Lives, OnTerminal};
use crate::mistakes::at_work_on;
use crate::run_events::all_fit;

/// A task whose agent commits one file of each name.
fn commits(name: &str, keys: &str) -> String {
    does(name, &commit_script(&[name]), keys)
}

/// A task's review, which commits too.
fn reviewed() -> String {
    let script = commit_script(&["reviewed"]).replace('\n', "\n        ");
    format!("    review:\n      prompt: |\n        {script}\n")
}

/// A task with this script.
fn does(name: &str, script: &str, keys: &str) -> String {
    let script = script.replace('\n', "\n      ");
    format!("  - name: {name}\n    prompt: |\n      {script}\n{keys}")
}

fn plan_of(environment: &TestEnvironment, tasks: &[String]) {
    environment.write("plan.yaml", &format!("tasks:\n{}", tasks.concat()));
}

const COMMAND: [&str; 6] = ["run", "--plan", "plan.yaml", "--", "sh", "-s"];

fn run(environment: &TestEnvironment, options: &[&str]) -> Done {
    let arguments = [&COMMAND[..3], options, &COMMAND[3..]].concat();
    environment.cofferdam(&arguments)
}

fn start(environment: &TestEnvironment, options: &[&str]) -> Child {
    let arguments = [&COMMAND[..3], options, &COMMAND[3..]].concat();
    let mut command = environment.command(&arguments);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// The line of a task in the summary.
fn row<'a>(done: &'a Done, task: &str) -> &'a str {
    let begin = format!("{task} ");
    let found = done.stdout.lines().find(|line| line.starts_with(&begin));
    found.unwrap_or_else(|| panic!("{task}: {done}"))
}

fn subjects(environment: &TestEnvironment, branch: &str) -> String {
    environment.git(&["log", "--format=%s", branch])
}

fn wait_until(what: &str, is: impl Fn() -> bool) {
    let began = Instant::now();
    while !is() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn has_branch(environment: &TestEnvironment, branch: &str) -> bool {
    let reference = format!("refs/heads/{branch}");
    !environment
        .git(&["for-each-ref", &reference])
        .trim()
        .is_empty()
}

#[test]
fn tasks_land_on_branches_of_their_own_and_what_the_summary_says_merges_them() {
    let environment = TestEnvironment::with_repository();
    let tasks = [
        commits("one", ""),
        commits("two", "    branch: work/two\n"),
        does("three", "true", ""),
    ];
    plan_of(&environment, &tasks);
    let done = run(&environment, &["--jobs", "3"]).expect_code(0);
    assert_eq!(environment.git(&["log", "--format=%s"]), "start");
    assert_eq!(subjects(&environment, "cofferdam/one"), "one\nstart");
    assert_eq!(subjects(&environment, "work/two"), "two\nstart");
    assert!(row(&done, "three").contains("0 commits"), "{done}");
    assert!(!row(&done, "three").contains("merge"), "{done}");
    assert!(done.stdout.ends_with("done: 3 of 3 tasks\n"), "{done}");
    for task in ["one", "two"] {
        let (_, next) = row(&done, task).split_once("cofferdam ").unwrap();
        let words: Vec<&str> = next.split_whitespace().collect();
        environment.cofferdam(&words).expect_code(0);
        assert_eq!(
            environment.read(&format!("{task}.txt")),
            format!("{task}\n")
        );
    }
}

/// Each waits until both are there.
#[test]
fn as_many_as_were_asked_for_are_at_work_at_once() {
    let environment = TestEnvironment::with_repository();
    let shared = environment.temporary().join("shared");
    cofferdam::fsx::private_dir(&shared).unwrap();
    let script = |mine: &str, other: &str| {
        format!(
            "touch /meet/{mine}\ni=0\nuntil [ -e /meet/{other} ] || [ $i -gt 30 ]; do sleep 0.1; i=$((i+1)); done\n\
             [ -e /meet/{other} ]"
        )
    };
    let tasks = [
        does("one", &script("one", "two"), ""),
        does("two", &script("two", "one"), ""),
    ];
    plan_of(&environment, &tasks);
    let mount = format!("{}:/meet:rw", shared.display());
    let clear = || {
        for name in ["one", "two"] {
            cofferdam::fsx::remove_file_if_exists(&shared.join(name)).unwrap();
        }
    };
    run(&environment, &["--jobs", "2", "--mount", &mount]).expect_code(0);
    clear();
    // The control: one at a time waits in vain.
    let options = ["--jobs", "1", "--again", "--mount", &mount];
    let done = run(&environment, &options).expect_code(1);
    assert!(row(&done, "one").contains("failed"), "{done}");
    assert!(row(&done, "two").contains("done"), "{done}");
}

#[test]
fn one_that_fails_ends_none_but_those_that_wait_for_it() {
    let environment = TestEnvironment::with_repository();
    let tasks = [
        does("bad", "exit 3", ""),
        commits("after-bad", "    after: [bad]\n"),
        commits("after-that", "    after: [after-bad]\n"),
        commits("good", ""),
        commits(
            "after-good",
            "    after: [good]\n    base: cofferdam/good\n",
        ),
    ];
    plan_of(&environment, &tasks);
    let done = run(&environment, &[]).expect_code(1);
    assert!(row(&done, "bad").contains("failed"), "{done}");
    assert!(
        row(&done, "after-bad").contains("skipped after bad"),
        "{done}"
    );
    assert!(
        row(&done, "after-that").contains("skipped after after-bad"),
        "{done}"
    );
    // Its turn came when the other had landed, and it began there.
    let both = subjects(&environment, "cofferdam/after-good");
    assert_eq!(both, "after-good\ngood\nstart");
    assert!(!has_branch(&environment, "cofferdam/after-bad"));
    assert!(
        done.stderr.contains("bad: failed: command, iteration 1: "),
        "{done}"
    );
    assert!(
        done.stderr
            .contains("after-bad: skipped, as bad did not end well"),
        "{done}"
    );
    let tail = "\n2 of 5 tasks are done; the same command runs what is left\n";
    assert!(done.stdout.ends_with(tail), "{done}");
    // Mended, only what had not ended well is run.
    let tasks = [&[does("bad", "true", "")], &tasks[1..]].concat();
    plan_of(&environment, &tasks);
    let done = run(&environment, &[]).expect_code(0);
    for (task, end) in [
        ("bad", "done  "),
        ("after-bad", "done  "),
        ("after-that", "done  "),
        ("good", "done before"),
        ("after-good", "done before"),
    ] {
        assert!(row(&done, task).contains(end), "{task}: {done}");
    }
    assert_eq!(subjects(&environment, "cofferdam/good"), "good\nstart");
    // And all once more, where that is asked for.
    let done = run(&environment, &["--again"]).expect_code(1);
    assert!(
        row(&done, "after-good").contains("skipped after good"),
        "{done}"
    );
    let tail = "tasks are done; the same command without `--again` runs what is left\n";
    assert!(done.stdout.ends_with(tail), "{done}");
    assert!(done.stderr.contains("nothing to commit"), "{done}");
}

/// `merge` is named with a sandbox that it finds, else git is, as long as there is something to merge.
#[test]
fn commits_whose_sandbox_is_gone_are_merged_by_git() {
    let environment = TestEnvironment::with_repository();
    plan_of(&environment, &[commits("one", "")]);
    let next = |step: &str| {
        let done = run(&environment, &[]).expect_code(0);
        let is = |words: &str| row(&done, "one").trim_end().ends_with(words);
        assert!(is(step), "{step}: {done}");
        if step == "cofferdam/one" {
            assert!(!row(&done, "one").contains("merge"), "{done}");
        }
    };
    next("cofferdam merge one");
    next("cofferdam merge one");
    let line = "mkdir ~/away && mv ~/.cofferdam/state/* ~/away";
    environment.shell(line).expect_code(0);
    next("git merge cofferdam/one");
    environment.git(&["merge", "-q", "cofferdam/one"]);
    next("cofferdam/one");
}

/// Process 1 of its sandbox is killed while the agent of another task is at work; a third one has not begun.
#[test]
fn one_whose_sandbox_dies_fails_alone() {
    let environment = TestEnvironment::with_repository();
    let shared = environment.temporary().join("shared");
    cofferdam::fsx::private_dir(&shared).unwrap();
    let seconds = format!("602.{}", std::process::id());
    let dies = format!(
        "test -e one.txt && exit 0\n{}exec sleep {seconds}",
        commit_script(&["one"])
    );
    let waits = format!(
        "touch /meet/two\nuntil [ -e /meet/go ]; do sleep 0.02; done\n{}",
        commit_script(&["two"])
    );
    let tasks = [
        does("one", &dies, ""),
        does("two", &waits, ""),
        commits("three", ""),
    ];
    plan_of(&environment, &tasks);
    let mount = format!("{}:/meet:rw", shared.display());
    let child = start(&environment, &["--jobs", "2", "--mount", &mount]);
    wait_until("both are at work", || {
        shared.join("two").exists() && init_around_sleep(&seconds).is_some()
    });
    kill_process(init_around_sleep(&seconds).unwrap(), Signal::KILL).unwrap();
    wait_until("the first one has failed", || {
        let runs = environment.cofferdam(&["runs", "--json"]).expect_code(0);
        let runs: Value = serde_json::from_str(&runs.stdout).unwrap();
        let mut runs = runs.as_array().unwrap().iter();
        runs.any(|run| run["name"] == "one" && run["outcome"] == "failed")
    });
    environment.write("../tmp/shared/go", "");
    let done = finish(child).expect_code(1);
    assert!(row(&done, "one").contains("failed"), "{done}");
    assert!(done.stderr.contains("the sandbox is gone"), "{done}");
    assert_eq!(subjects(&environment, "cofferdam/one"), "one\nstart");
    for task in ["two", "three"] {
        assert!(row(&done, task).contains("done    1 commit"), "{done}");
    }
    let done = run(&environment, &["--mount", &mount]).expect_code(0);
    assert!(row(&done, "one").contains("1 commit"), "{done}");
    assert_eq!(done.stdout.matches("done before").count(), 2, "{done}");
}

#[test]
fn one_whose_branch_is_at_work_is_refused_by_its_name() {
    let environment = TestEnvironment::with_repository();
    let mut running = at_work_on(&environment, "feature", "busy");
    let tasks = [commits("one", "    branch: feature\n"), commits("two", "")];
    plan_of(&environment, &tasks);
    let done = run(&environment, &[]).expect_code(1);
    let says = "one: failed: branch `feature` is in use by the running sandbox `busy`";
    assert!(done.stderr.contains(says), "{done}");
    assert!(done.stderr.contains("\nhint: wait for"), "{done}");
    assert!(row(&done, "one").contains("failed"), "{done}");
    assert!(row(&done, "two").contains("done    1 commit"), "{done}");
    assert_eq!(subjects(&environment, "feature"), "start");
    running.kill().unwrap();
    running.wait().unwrap();
}

/// The first one has ended, the second is killed with its command, the third was never begun.
#[test]
fn after_a_kill_the_same_command_does_only_the_rest() {
    let environment = TestEnvironment::with_repository();
    let waits = "[ ! -e two.txt ] || exit 0\n".to_owned() + &commit_script(&["two"]) + "sleep 1000";
    let tasks = [
        commits("one", ""),
        does("two", &waits, ""),
        commits("three", ""),
    ];
    plan_of(&environment, &tasks);
    let mut child = start(&environment, &["--jobs", "1", "--verbose"]);
    let log = environment.repository().join(".cofferdam/logs");
    wait_until("the second one is at work", || {
        let listed = environment.cofferdam(&["list", "--json"]).expect_code(0);
        has_branch(&environment, "cofferdam/one")
            && listed.stdout.contains("\"two\"")
            && log.is_dir()
    });
    // It has committed by now, or is about to; either way nothing is lost.
    std::thread::sleep(Duration::from_millis(700));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!has_branch(&environment, "cofferdam/three"));
    let done = run(&environment, &["--jobs", "1"]).expect_code(0);
    assert!(row(&done, "one").contains("done before"), "{done}");
    assert!(row(&done, "two").contains("1 commit"), "{done}");
    assert_eq!(subjects(&environment, "cofferdam/two"), "two\nstart");
    assert_eq!(subjects(&environment, "cofferdam/three"), "three\nstart");
    let done = run(&environment, &[]).expect_code(0);
    assert_eq!(done.stdout.matches("done before").count(), 3, "{done}");
}

#[test]
fn a_signal_ends_all_and_says_how_to_go_on() {
    let environment = TestEnvironment::with_repository();
    let shared = environment.temporary().join("shared");
    cofferdam::fsx::private_dir(&shared).unwrap();
    let waits = |name: &str| {
        let commit = commit_script(&[name]);
        format!("test -e {name}.txt && exit 0\n{commit}touch /meet/{name}; sleep 1000")
    };
    let tasks = [
        // Its turn is over before the second of the others begins.
        commits("zero", ""),
        does("one", &waits("one"), ""),
        does("two", &waits("two"), ""),
        commits("three", ""),
    ];
    plan_of(&environment, &tasks);
    let mount = format!("{}:/meet:rw", shared.display());
    let options = ["--jobs", "2", "--mount", &mount];
    let child = start(&environment, &[&options[..], &["--json"]].concat());
    let has_committed = |name: &str| shared.join(name).exists();
    wait_until("both have committed", || {
        has_committed("one") && has_committed("two")
    });
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let done = finish(child).expect_code(130);
    assert!(
        done.stderr
            .contains("the same command goes on where it was"),
        "{done}"
    );
    let last: Value = serde_json::from_str(done.stdout.lines().last().unwrap()).unwrap();
    assert_eq!(last["event"], "plan_finished", "{done}");
    let ends: Vec<&str> = last["tasks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|task| task["end"].as_str().unwrap())
        .collect();
    assert_eq!(ends, ["done", "failed", "failed", "not_started"], "{done}");
    // Their commits are home.
    for task in ["one", "two"] {
        let branch = format!("cofferdam/{task}");
        let home = subjects(&environment, &branch);
        assert_eq!(home, format!("{task}\nstart"), "{done}");
    }
    assert!(!has_branch(&environment, "cofferdam/three"), "{done}");
    let done = run(&environment, &options).expect_code(0);
    for (task, end) in [
        ("zero", "done before  1 commit"),
        ("one", "done         1 commit"),
        ("two", "done         1 commit"),
        ("three", "done         1 commit"),
    ] {
        assert!(row(&done, task).contains(end), "{done}");
    }
}

/// Scripts tell a limit that passes by itself from a failure.
#[test]
fn a_limit_of_the_models_has_an_exit_code_of_its_own() {
    let environment = TestEnvironment::with_repository();
    let limit = "echo '429 Too Many Requests' >&2; exit 1";
    for (other, code) in [("true", 75), ("exit 1", 1)] {
        let tasks = [
            does("limited", limit, ""),
            does("after", "true", "    after: [limited]\n"),
            does("other", other, ""),
        ];
        plan_of(&environment, &tasks);
        let done = run(&environment, &[]).expect_code(code);
        assert!(done.stderr.contains("a limit of the model's"), "{done}");
    }
}

#[test]
fn the_same_plan_twice_at_once_is_refused_at_once() {
    let environment = TestEnvironment::with_repository();
    plan_of(&environment, &[does("one", "sleep 1000", "")]);
    let mut child = start(&environment, &[]);
    wait_until("it is at work", || {
        environment
            .cofferdam(&["list", "--json"])
            .stdout
            .contains("\"one\"")
    });
    let began = Instant::now();
    let refused = run(&environment, &[]).expect_code(1);
    let took = began.elapsed();
    let says = "error: the same plan is being run by another process\n";
    assert!(refused.stderr.starts_with(says), "{refused}");
    assert!(took < Duration::from_secs(2), "{took:?}");
    // Another plan is another one.
    environment.write("other.yaml", &format!("tasks:\n{}", commits("else", "")));
    environment
        .cofferdam(&["run", "--plan", "other.yaml", "--", "sh", "-s"])
        .expect_code(0);
    kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
    child.wait().unwrap();
    // Its lock went with it.
    plan_of(&environment, &[does("one", "true", "")]);
    run(&environment, &[]).expect_code(0);
}

#[test]
fn a_review_runs_when_there_is_something_to_review() {
    let environment = TestEnvironment::with_repository();
    let review = reviewed();
    let tasks = [commits("one", &review), does("two", "true", &review)];
    plan_of(&environment, &tasks);
    let done = run(&environment, &["--jobs", "1"]).expect_code(0);
    assert_eq!(
        subjects(&environment, "cofferdam/one"),
        "reviewed\none\nstart"
    );
    assert!(
        row(&done, "one").contains("done, reviewed  2 commits"),
        "{done}"
    );
    assert!(!row(&done, "two").contains("reviewed"), "{done}");
    assert!(!done.stderr.contains("two: a review begins"), "{done}");
    let (_, next) = row(&done, "one").split_once("cofferdam merge ").unwrap();
    environment
        .cofferdam(&["merge", next.trim()])
        .expect_code(0);
    assert_eq!(
        environment.git(&["log", "--format=%s"]),
        "reviewed\none\nstart"
    );
    // One that failed is done anew, without what came before it.
    let fails = review.replace("set -e", "exit 1");
    plan_of(&environment, &[commits("three", &fails)]);
    let done = run(&environment, &[]).expect_code(1);
    assert!(row(&done, "three").contains("failed"), "{done}");
    assert_eq!(
        subjects(&environment, "cofferdam/three"),
        "three\nreviewed\none\nstart"
    );
}

/// Whoever comes after one that failed, or was stopped, may find nothing to do: what that one committed is the task's all the same.
#[test]
fn what_earlier_tries_committed_is_counted_reviewed_and_merged() {
    let environment = TestEnvironment::with_repository();
    let review = reviewed();
    let once = |name: &str| {
        format!(
            "test -e {name}.txt && exit 0\n{}exit 3",
            commit_script(&[name])
        )
    };
    let tasks = [
        does("one", &once("one"), &review),
        does("two", &once("two"), ""),
    ];
    plan_of(&environment, &tasks);
    let done = run(&environment, &[]).expect_code(1);
    assert!(!done.stderr.contains("review begins"), "{done}");
    let done = run(&environment, &[]).expect_code(0);
    assert!(
        row(&done, "one").contains("done, reviewed  2 commits"),
        "{done}"
    );
    assert!(
        row(&done, "two").contains("done            1 commit "),
        "{done}"
    );
    // And is still, when it was done before.
    let again = run(&environment, &[]).expect_code(0);
    for (task, count) in [("one", "2 commits"), ("two", "1 commit ")] {
        assert!(row(&again, task).contains(count), "{again}");
        let (_, next) = row(&again, task).split_once("cofferdam ").unwrap();
        let words: Vec<&str> = next.split_whitespace().collect();
        environment.cofferdam(&words).expect_code(0);
    }
    assert!(environment.repository().join("reviewed.txt").exists());
    assert!(environment.repository().join("two.txt").exists());
    // Anew is from where it is by now.
    let done = run(&environment, &["--again"]).expect_code(0);
    assert!(row(&done, "two").contains("0 commits"), "{done}");
}

#[test]
fn what_a_plan_may_not_say_is_refused_before_anything_begins() {
    let environment = TestEnvironment::with_repository();
    environment.git(&["branch", "other"]);
    for (keys, says) in [
        (
            "    hooks: {}\n",
            "plan.yaml:5:5: tasks[0].hooks: unknown field `hooks`",
        ),
        ("    branch: MAIN\n", "which is checked out"),
        ("    agent: nobody\n", "task `one`: "),
        (
            "    agent: codex\n    effort: x\n    model: [x]\n",
            "plan.yaml:7:12: tasks[0].model",
        ),
    ] {
        plan_of(&environment, &[does("one", "true", keys)]);
        let refused = run(&environment, &[]).expect_code(1);
        assert!(refused.stderr.contains(says), "{keys}: {refused}");
        environment.expect_nothing_made();
    }
    for options in [
        &["--prompt", "x"][..],
        &["--branch", "x"],
        &["--head"],
        &["--name", "x"],
        &["--keep"],
        &["--jobs", "0"],
    ] {
        run(&environment, options).expect_code(2);
    }
    environment
        .cofferdam(&["run", "--jobs", "2", "--", "true"])
        .expect_code(2);
    let refused = environment.cofferdam(&["run", "--plan", "none.yaml", "--", "true"]);
    assert!(refused.expect_code(1).stderr.contains("none.yaml"));
}

/// What has ended is told whole as soon as there is room, though nothing more happens on its line.
#[test]
fn the_table_fits_a_terminal_that_changes_its_size() {
    let lives = Lives::new();
    plan_of(&lives, &[commits("one", ""), does("two", "sleep 600", "")]);
    let command = lives.command(&["run", "--plan", "plan.yaml", "--", "sh", "-s"]);
    let mut terminal = OnTerminal::start(&command, (24, 20));
    wait_until("the first task ends", || {
        let runs = lives.cofferdam(&["runs", "--json"]).expect_code(0).stdout;
        let runs: serde_json::Value = serde_json::from_str(&runs).unwrap();
        let mut runs = runs.as_array().unwrap().iter();
        runs.any(|run| run["name"] == "one" && run["outcome"] == "ended")
    });
    assert!(
        !terminal.text().contains("done, 1 commit"),
        "{}",
        terminal.text()
    );
    terminal.resize((24, 100));
    terminal.expect("done, 1 commit");
    terminal.press("\x03");
    terminal.ends();
}

/// The command's own bound is one for every task, and a plan's has an end.
#[test]
fn iterations_of_a_task_are_bounded() {
    let environment = TestEnvironment::with_repository();
    let starts = |task: &str, options: &[&str]| {
        let script = "echo x >> tries; git add .; git commit -qm try";
        plan_of(
            &environment,
            &[does(task, script, "    max_iterations: 5\n")],
        );
        run(&environment, options).expect_code(0);
        let branch = format!("cofferdam/{task}");
        subjects(&environment, &branch).lines().count() - 1
    };
    assert_eq!(starts("one", &[]), 5);
    assert_eq!(starts("two", &["--max-iterations", "2"]), 2);
    assert_eq!(starts("three", &["--max-iterations", "9"]), 5);
    let many = [does("four", "true", "    max_iterations: 101\n")];
    plan_of(&environment, &many);
    let refused = run(&environment, &[]).expect_code(1);
    assert!(
        refused.stderr.contains("at most 100 iterations"),
        "{refused}"
    );
}

#[test]
fn json_names_the_task_of_each_event() {
    let environment = TestEnvironment::with_repository();
    plan_of(
        &environment,
        &[
            commits("one", ""),
            does("two", "exit 1", ""),
            commits("three", "    after: [two]\n"),
        ],
    );
    let done = run(&environment, &["--json"]).expect_code(1);
    let lines = all_fit(&done);
    let (last, events) = lines.split_last().unwrap();
    let of = |task: &str| -> Vec<&str> {
        let of = events.iter().filter(|line| line["task"] == task);
        of.map(|line| line["event"].as_str().unwrap()).collect()
    };
    assert!(
        events
            .iter()
            .all(|line| line["task"].is_string() && line["version"] == 1),
        "{done}"
    );
    assert_eq!(of("one").first(), Some(&"task_started"));
    assert!(of("one").contains(&"landed"));
    assert_eq!(of("one").last(), Some(&"finished"));
    assert_eq!(of("two").last(), Some(&"failed"));
    assert_eq!(of("three"), ["task_skipped"]);
    assert_eq!(last["tasks"][0]["next"], "cofferdam merge one");
    let again = all_fit(&run(&environment, &["--json"]).expect_code(1));
    assert_eq!(again[0]["event"], "task_done_before");
    assert_eq!(again.last().unwrap()["event"], "plan_finished");
}

/// A prompt file is a template; one on standard input is a plan as well, and what an agent gave back is one.
#[test]
fn a_plan_comes_from_an_agent_and_its_prompts_from_files() {
    let environment = TestEnvironment::with_repository();
    environment.write(
        "prompts/do.md",
        "echo {{NAME}} > {{NAME}}.txt; git add .; git commit -qm {{NAME}}\n",
    );
    let plan =
        r#"{"tasks": [{"name": "a", "prompt_file": "prompts/do.md", "args": {"NAME": "a"}}]}"#;
    environment.write("planned.json", plan);
    environment.git(&["add", "."]);
    environment.git(&["commit", "-qm", "plan"]);
    let options = [
        "run",
        "-q",
        "--output-tag",
        "plan",
        "--output-file",
        "plan.out",
        "--",
    ];
    let script = format!("echo '<plan>{plan}</plan>'");
    let planner = [&options[..], &["sh", "-c", &script]].concat();
    environment.cofferdam(&planner).expect_code(0);
    assert_eq!(environment.read("plan.out").trim(), plan);
    let line = format!(
        "{} run --plan - -- sh -s < plan.out",
        Path::new(env!("CARGO_BIN_EXE_cofferdam")).display()
    );
    environment.shell(&line).expect_code(0);
    assert_eq!(subjects(&environment, "cofferdam/a"), "a\nplan\nstart");
}
