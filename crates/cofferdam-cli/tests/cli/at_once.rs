//! Runs that begin at the same moment: on one branch one of them works, in one checkout all do.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::environment::{TestEnvironment, finish};
use crate::lives::Lives;

const AT_ONCE: usize = 6;

fn start(environment: &TestEnvironment, words: &[&str]) -> Child {
    let mut command = environment.command(words);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// Waits until all but one have ended; the one that works last in the list, with its number.
fn all_but_one(mut runs: Vec<(usize, Child)>) -> (Vec<(usize, Child)>, (usize, Child)) {
    let began = Instant::now();
    let mut ended = Vec::new();
    while runs.len() > 1 {
        assert!(began.elapsed() < Duration::from_secs(60), "several work");
        let is_over = |(_, run): &mut (usize, Child)| run.try_wait().unwrap().is_some();
        match runs.iter_mut().position(is_over) {
            Some(at) => ended.push(runs.remove(at)),
            None => std::thread::sleep(Duration::from_millis(10)),
        }
    }
    (ended, runs.pop().unwrap())
}

fn one_has_the_branch(mode: &str, is_there: bool) {
    let environment = TestEnvironment::with_repository();
    if is_there {
        environment.git(&["branch", "work"]);
    }
    let runs = (0..AT_ONCE).map(|number| {
        let name = format!("w{number}");
        let how = [
            "run",
            "--branch",
            "work",
            "--mode",
            mode,
            "--network",
            "none",
        ];
        let what = ["--name", &name, "--", "sleep", "600"];
        (number, start(&environment, &[&how[..], &what].concat()))
    });
    let (refused, (worker, run)) = all_but_one(runs.collect());
    for (_, refused) in refused {
        let done = finish(refused).expect_code(1);
        let says = format!("branch `work` is in use by the running sandbox `w{worker}`");
        assert!(done.stderr.contains(&says), "{mode}: {done}");
        assert!(done.stderr.contains("\nhint: "), "{mode}: {done}");
    }
    let listed = environment.cofferdam(&["list", "--json"]).expect_code(0);
    let listed: serde_json::Value = serde_json::from_str(&listed.stdout).unwrap();
    assert_eq!(listed.as_array().unwrap().len(), 1, "{mode}: {listed}");
    kill_process(Pid::from_child(&run), Signal::INT).unwrap();
    finish(run).expect_code(130);
    // Then it is free.
    let how = ["--branch", "work", "--mode", mode];
    environment.run(&how, "true").expect_code(0);
}

#[test]
fn a_branch_that_is_new_has_one_of_those_that_begin_at_once() {
    for mode in ["layer", "bind", "copy"] {
        one_has_the_branch(mode, false);
    }
}

#[test]
fn a_branch_that_is_there_has_one_of_those_that_begin_at_once() {
    for mode in ["layer", "bind", "copy"] {
        one_has_the_branch(mode, true);
    }
}

#[test]
fn so_it_is_with_sandboxes_that_stay() {
    let lives = Lives::new();
    let made = (0..AT_ONCE).map(|number| {
        let name = format!("w{number}");
        let words = ["create", &name, "--branch", "work", "--network", "none"];
        start(&lives, &words)
    });
    let made: Vec<Child> = made.collect();
    let done: Vec<_> = made.into_iter().map(finish).collect();
    let worked = done.iter().filter(|done| done.status.success());
    assert_eq!(worked.count(), 1);
    for done in done.iter().filter(|done| !done.status.success()) {
        assert!(done.stderr.contains("branch `work` is in use by"), "{done}");
    }
}

/// With `--head` both work in the checkout, and see what the other one writes. The commits of who ends first land; those of the other
/// one are kept beside the branch, which moved meanwhile, and `merge` brings them home.
#[test]
fn two_work_in_one_checkout() {
    let environment = TestEnvironment::with_repository();
    let runs = ["one", "two"].map(|name| {
        let script = format!(
            "touch {name}.begun; until [ -e one.begun ] && [ -e two.begun ]; do sleep 0.02; done; \
             echo {name} > {name}; git add {name}; git commit -qm {name}; \
             touch {name}.done; until [ -e one.done ] && [ -e two.done ] && [ -e {name}.go ]; do sleep 0.02; done"
        );
        start(&environment, &["run", "--head", "--name", name, "--", "sh", "-c", &script])
    });
    let [one, two] = runs;
    environment.write("one.go", "");
    let one = finish(one).expect_code(0);
    assert_eq!(
        environment.git(&["log", "-1", "--format=%s"]),
        "one",
        "{one}"
    );
    environment.write("two.go", "");
    let two = finish(two).expect_code(1);
    assert!(
        two.stdout.contains("the branch has new commits of its own"),
        "{two}"
    );
    assert!(two.stdout.contains("next: cofferdam merge two"), "{two}");
    assert_eq!(environment.git(&["log", "-1", "--format=%s"]), "one");
    environment.cofferdam(&["merge", "two"]).expect_code(0);
    let subjects = environment.git(&["log", "--format=%s"]);
    for subject in ["one", "two"] {
        assert!(subjects.lines().any(|line| line == subject), "{subjects}");
    }
}
