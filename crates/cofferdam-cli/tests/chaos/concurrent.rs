//! Commands at the same time.

use rustix::process::{Signal, kill_process};

use crate::checker::{self, User, Work};
use crate::environment::{AGENT, Environment};

/// Two `gc` at once: the work comes home once, neither fails.
#[test]
fn two_gc_at_once() {
    for round in 0..3 {
        let environment = Environment::new();
        let before = User::of(&environment);
        for (number, options) in [
            &["--merge-to-head"][..],
            &["--mode", "bind", "--branch", "feature"],
            // The last: a run that lands in the checkout would finish it at its start.
            &["--head"],
        ]
        .iter()
        .enumerate()
        {
            // Each starts from what is checked out, and none has landed yet.
            let script = AGENT.replace("agent/", &format!("agent/{number}-"));
            let mut run = environment.start_run(options, &format!("{script}; sleep 600"));
            run.wait_until_said("all-committed");
            kill_process(run.pid(), Signal::KILL).unwrap();
            run.finish();
        }
        let work = Work::of(&environment);
        let (one, two) = (environment.start(&["gc"]), environment.start(&["gc"]));
        let (one, two) = (one.finish(), two.finish());
        let what = format!("round {round}: {one:?} {two:?}");
        assert_eq!((one.status, two.status), (0, 0), "{what}");
        let recovered = format!("{}{}", one.stdout, two.stdout)
            .matches("recovered: ")
            .count();
        assert_eq!(recovered, 3, "{what}");
        work.assert_kept(&environment, &what);
        checker::assert_clean(&environment, &before, &what, "");
    }
}

/// One name, two runs: one of them is refused before it has made anything, with every strategy.
#[test]
fn one_name_twice() {
    for options in [
        &["--head"][..],
        &["--mode", "bind", "--merge-to-head"],
        &["--mode", "copy", "--branch", "feature"],
        &["--mode", "layer", "--branch", "feature"],
    ] {
        {
            let environment = Environment::new();
            let before = User::of(&environment);
            let mut options = options.to_vec();
            options.extend(["--name", "same"]);
            // Longer than the other needs to start, also on a busy machine.
            let script = format!("{AGENT}; sleep 5");
            let runs = [0, 1].map(|_| environment.start_run(&options, &script));
            let ends = runs.map(crate::keeper::Kept::finish);
            let what = format!("{options:?}: {ends:?}");
            let won = ends.iter().filter(|end| end.status == 0).count();
            assert_eq!(won, 1, "{what}");
            let lost = ends.iter().find(|end| end.status != 0).unwrap();
            assert!(lost.stderr.contains("same"), "{what}");
            assert!(!lost.stdout.contains("all-committed"), "{what}");
            assert_eq!(checker::subjects(&environment).len(), 3, "{what}");
            checker::gc(&environment, &what);
            checker::assert_clean(&environment, &before, &what, "");
        }
    }
}

/// A sandbox that works is neither deleted, merged nor collected by others, and goes on.
#[test]
fn a_running_sandbox_is_left_alone() {
    for options in [&["--head"][..], &["--mode", "bind"]] {
        let environment = Environment::new();
        let before = User::of(&environment);
        let mut options = options.to_vec();
        options.extend(["--name", "busy"]);
        let wait = "echo now-waiting; while ! [ -e agent/go ]; do sleep 0.02; done; rm agent/go; ";
        let mut run = environment.start_run(&options, &format!("mkdir agent; {wait}{AGENT}"));
        run.wait_until_said("now-waiting");
        for arguments in [&["delete", "busy"][..], &["merge", "busy"]] {
            let done = environment.cofferdam(arguments);
            assert_ne!(done.status, 0, "{arguments:?}");
            assert!(
                done.stderr.contains("running"),
                "{arguments:?}: {}",
                done.stderr
            );
        }
        assert_eq!(
            checker::gc(&environment, "beside a run"),
            "nothing to clean up\n"
        );
        let listed = environment.list();
        assert_eq!((&listed[0]["state"], listed.len()), (&"active".into(), 1));
        let workdir = listed[0]["workdir"].as_str().unwrap();
        std::fs::write(format!("{workdir}/agent/go"), "").unwrap();
        let end = run.finish();
        assert_eq!(end.status, 0, "{}", end.stderr);
        assert_eq!(checker::subjects(&environment).len(), 3);
        checker::assert_clean(&environment, &before, "beside others", "");
    }
}

/// Many runs on branches of their own, and `gc` and `list` all the time.
#[test]
fn many_at_once() {
    let environment = Environment::new();
    let before = User::of(&environment);
    let names: Vec<String> = (0..4)
        .map(|number| format!("cofferdam/many-{number}"))
        .collect();
    let runs: Vec<_> = names
        .iter()
        .map(|name| environment.start_run(&["--branch", name], AGENT))
        .collect();
    let mut others = Vec::new();
    for _ in 0..4 {
        others.push(environment.start(&["gc"]));
        environment.list();
    }
    for run in runs {
        let end = run.finish();
        assert_eq!(end.status, 0, "{}", end.stderr);
    }
    for other in others {
        let end = other.finish();
        assert_eq!(
            (end.status, end.stdout.as_str()),
            (0, "nothing to clean up\n"),
            "{}",
            end.stderr
        );
    }
    for name in names {
        let subjects = environment.git(&["log", "--format=%s", &format!("main..{name}")]);
        assert_eq!(subjects, "w3\nw2\nw1");
    }
    checker::assert_clean(&environment, &before, "many", "");
}
