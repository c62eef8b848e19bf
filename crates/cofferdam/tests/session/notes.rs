//! What the gate noticed and let pass reaches whoever asked for the work.

use cofferdam::sandbox::BranchStrategy;
use cofferdam::session::{NetworkOptions, Session};

use crate::living::{caller, delete, options, sh};
use crate::support::{Env, block_on, run_ok};

/// Two names that are one on other machines.
const NAMES: &str = "echo a > read; echo b > READ; git add -A; git commit -qm names";

#[track_caller]
fn assert_told(notes: &[String]) {
    let told = |note: &String| note.contains("read") && note.contains("READ");
    assert!(notes.len() == 1 && notes.iter().all(told), "{notes:?}");
}

#[test]
fn a_report_has_what_the_gate_noticed() {
    let env = Env::new();
    let strategy = || BranchStrategy::Branch {
        branch: "topic".parse().unwrap(),
        base: None,
    };
    let report = run_ok(env.script(strategy(), NAMES));
    assert_told(&report.notes);
    assert_eq!(env.subjects("topic"), ["first", "names"]);
    // The control: nothing was noticed of what is new now.
    let more = "echo c > more; git add -A; git commit -qm more";
    let report = run_ok(env.script(strategy(), more));
    assert_eq!(report.notes, <[String; 0]>::default());
}

#[test]
fn collecting_has_what_the_gate_noticed() {
    let env = Env::new();
    block_on(async {
        let mut made = options(&env, "one");
        made.network = NetworkOptions::None;
        let session = Session::create(&caller(&env), &made).await.unwrap();
        sh(&session, NAMES).await;
        assert_told(&session.collect().await.unwrap().notes);
        let again = session.collect().await.unwrap();
        assert_eq!(again.notes, <[String; 0]>::default());
        drop(session);
        delete(&env, "one").await;
    });
    env.assert_no_state();
}
