//! The examples for who uses the library, as they stand: each in a fresh repository.
#![expect(dead_code, reason = "their `main` takes what is typed")]

use std::time::Duration;

use cofferdam::session::living::Named;
use cofferdam::session::{Caller, SessionError};

use crate::bad_input::HEAD;
use crate::support::{Env, block_on};

#[path = "../../examples/interactive.rs"]
mod interactive;
#[path = "../../examples/own_agent.rs"]
mod own_agent;
#[path = "../../examples/own_provider.rs"]
mod own_provider;
#[path = "../../examples/plan.rs"]
mod plan;
#[path = "../../examples/run.rs"]
mod run;
#[path = "../../examples/session.rs"]
mod session;
#[path = "../../examples/worktree.rs"]
mod worktree;

fn caller(env: &Env) -> Caller {
    env.script(HEAD, "").caller
}

/// These subjects, and this text of the last of them.
fn expect(env: &Env, branch: &str, subjects: &[&str], notes: &str) {
    assert_eq!(env.subjects(branch), subjects, "{branch}");
    let found = env.git(&["show", &format!("{branch}:NOTES.md")]);
    assert_eq!(found, notes, "{branch}");
}

fn expect_clean(env: &Env) {
    assert_eq!(env.git(&["status", "--porcelain"]), "");
    env.assert_sound();
    env.assert_no_state();
}

#[test]
fn one_run() {
    let env = Env::new();
    block_on(run::run(caller(&env), &env.repo)).unwrap();
    let subjects = ["first", "note it down"];
    expect(&env, "main", &subjects, "Write this down.");
    assert_eq!(env.read("NOTES.md"), "Write this down.\n");
    expect_clean(&env);
}

#[test]
fn an_agent_of_ones_own() {
    let env = Env::new();
    let limit = Duration::from_mins(10);
    let note = block_on(own_agent::own_agent(caller(&env), &env.repo, limit)).unwrap();
    assert_eq!(note, own_agent::Note { words: 4 });
    let subjects = ["first", "note it down"];
    expect(&env, "main", &subjects, "Notes:\nWrite this down.");
    expect_clean(&env);
}

/// Its time is over before its program has started.
#[test]
fn an_agent_of_ones_own_is_cancelled() {
    let env = Env::new();
    block_on(own_agent::own_agent(
        caller(&env),
        &env.repo,
        Duration::ZERO,
    ))
    .unwrap_err();
    assert_eq!(env.subjects("main"), ["first"]);
    expect_clean(&env);
}

#[test]
fn a_provider_of_ones_own() {
    let env = Env::new();
    let log = env.dir.path().join("calls");
    block_on(own_provider::own_provider(caller(&env), &env.repo, &log)).unwrap();
    let subjects = ["first", "note it down"];
    expect(&env, "main", &subjects, "Write this down.");
    let log = std::fs::read_to_string(log).unwrap();
    let calls: Vec<&str> = log.lines().collect();
    assert!(log.starts_with("create in /workspace/"), "{log}");
    assert!(calls.contains(&"exec sh"), "{log}");
    assert_eq!(calls.last(), Some(&"close"), "{log}");
    expect_clean(&env);
}

#[test]
fn a_worktree_that_outlives_its_run() {
    let env = Env::new();
    block_on(worktree::worktree(caller(&env), &env.repo)).unwrap();
    let subjects = ["first", "note it down"];
    expect(&env, "example", &subjects, "Write this down.");
    assert_eq!(env.subjects("main"), ["first"]);
    let worktrees = env.git(&["worktree", "list"]);
    assert_eq!(worktrees.lines().count(), 1, "{worktrees}");
    env.assert_sound();
}

#[test]
fn a_sandbox_that_stays() {
    let env = Env::new();
    block_on(session::session(caller(&env), &env.repo)).unwrap();
    let subjects = ["first", "begin notes", "note it down"];
    expect(&env, "example", &subjects, "Notes\nWrite this down.");
    assert_eq!(env.subjects("main"), ["first"]);
    env.assert_sound();
    let caller = caller(&env);
    let found = block_on(Named::find(&caller, &env.repo, "example"));
    assert!(
        matches!(found, Err(SessionError::Ended { .. })),
        "{found:?}"
    );
}

#[test]
fn at_a_terminal_in_a_sandbox_and_without_one() {
    for on_host in [false, true] {
        let env = Env::new();
        block_on(interactive::interactive(caller(&env), &env.repo, on_host)).unwrap();
        let subjects = ["first", "noted"];
        expect(&env, "main", &subjects, "Write this down.");
        expect_clean(&env);
    }
}

/// What ended well is not done again.
#[test]
fn two_tasks_of_a_plan() {
    let env = Env::new();
    for _ in 0..2 {
        block_on(plan::plan(caller(&env), &env.repo)).unwrap();
        let subjects = ["first", "note it down"];
        expect(&env, "cofferdam/first", &subjects, "Write this down.");
        expect(&env, "cofferdam/second", &subjects, "Write that down.");
        assert_eq!(env.subjects("main"), ["first"]);
    }
    env.assert_sound();
}
