//! Conversations with agents in sandboxes of somebody's own that have files of their own: out of one, and into the next.

use std::os::unix::fs::PermissionsExt;

use cofferdam::agent::{self, AgentOptions};
use cofferdam::runs::{self, RunRecord, Status};
use cofferdam::sandbox::{CopyStrategy, Isolated};
use cofferdam::session::{ConversationError, PromptSource, Resume, RunErrorKind};
use cofferdam::{RunOptions, RunReport};

use super::own::{Apart, Fault, Own};
use crate::bad_input::{whole, whole_ok};
use crate::orchestrate::{CLAUDE, FIRST, FORK};
use crate::support::{Env, iterations};

const MAIN: &[&str] = &["refs/heads/main"];

/// A repository that has the agent's program in it, as those sandboxes show nothing of this machine.
fn world() -> Env {
    let env = Env::new();
    let program = CLAUDE.replace("FIRST", FIRST).replace("FORK", FORK);
    env.write("bin/claude", &program);
    let executable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(env.repo.join("bin/claude"), executable).unwrap();
    for (number, answer) in [(1, "first"), (2, "second"), (3, "third")] {
        env.write(&format!("bin/answer-{number}"), answer);
    }
    env.commit_all("an agent");
    env
}

/// In a sandbox of its own, of which nobody knows anything afterwards.
fn task(env: &Env, own: &Own, prompt: &str) -> RunOptions {
    let agent = agent::by_name("claude-code", AgentOptions::default()).unwrap();
    let sandbox = Isolated::new(Apart(own.clone()), CopyStrategy::MergeToHead);
    let mut options = env.with(sandbox, agent);
    let inside = &mut options.session.environment;
    inside.insert("ANTHROPIC_API_KEY".into(), "the-users".into());
    let path = "/workspace/repo/bin:/usr/local/bin:/usr/bin:/bin";
    inside.insert("PATH".into(), path.into());
    options.task.prompt = PromptSource::Inline(prompt.into());
    options
}

/// As whoever goes on with it later finds it.
fn written(env: &Env, report: &RunReport) -> RunRecord {
    let top = env.repo.canonicalize().unwrap();
    let id = report.run.unwrap().to_string();
    let (run, status) = runs::find(&env.home, &top, &id).unwrap();
    assert_eq!(status, Status::Ended);
    run
}

fn result(report: &RunReport) -> &str {
    let last = report.iterations.last().unwrap();
    last.result.as_deref().unwrap()
}

/// How often its files were looked at and changed.
fn asked(own: &Own) -> (bool, bool) {
    let diary = own.diary.lock().unwrap();
    let has = |what: &str| diary.iter().any(|line| line == what);
    (has("browse"), has("deliver"))
}

#[test]
fn one_goes_on_in_another_isolated_sandbox() {
    let env = world();
    let own = Own::new(Fault::None);
    let report = whole_ok(&env, task(&env, &own, "the task"), MAIN);
    assert_eq!(result(&report), "first");
    let (looked, _) = asked(&own);
    assert!(looked, "nobody has looked at its files");
    let first = written(&env, &report);
    assert_eq!(first.iterations[0].kept, 1);
    let resume = Resume::of(&env.home, &first).unwrap();
    assert_eq!(resume.session, FIRST);
    assert!(resume.files.as_ref().unwrap().is_dir());

    let own = Own::new(Fault::None);
    let mut options = task(&env, &own, "and more");
    options.task.resume = Some(resume.clone());
    let report = whole_ok(&env, options, MAIN);
    assert_eq!(result(&report), "second");
    assert_eq!(asked(&own), (true, true));
    assert_eq!(env.read("conversation"), "the task \nand more \n");
    let second = written(&env, &report);
    assert_eq!((second.continues, second.fork), (Some(first.id), false));

    // A copy of the first: the other is not in it.
    let mut options = task(&env, &Own::new(Fault::None), "or this");
    options.task.resume = Some(resume.clone());
    options.task.resume.as_mut().unwrap().fork = true;
    let report = whole_ok(&env, options, MAIN);
    assert_eq!(result(&report), "second");
    assert_eq!(env.read("conversation"), "the task \nor this \n");
    assert_eq!(report.iterations[0].session.as_deref(), Some(FORK));
    assert!(written(&env, &report).fork);

    // After each iteration.
    let mut options = task(&env, &Own::new(Fault::None), "go on");
    options.task.resume = Some(resume);
    iterations(&mut options, 2);
    let report = whole_ok(&env, options, MAIN);
    assert_eq!(result(&report), "third");
    let kept: Vec<_> = report.iterations.iter().map(|one| one.kept).collect();
    assert_eq!(kept, [1, 1]);
    env.assert_no_state();
}

/// The run is as it is, and says so; one that is to go on needs what it cannot be given.
#[test]
fn one_of_a_sandbox_whose_files_nobody_reaches_is_not_kept() {
    let env = world();
    let report = whole_ok(&env, task(&env, &Own::new(Fault::None), "the task"), MAIN);
    let resume = Resume::of(&env.home, &written(&env, &report)).unwrap();

    let report = whole_ok(&env, task(&env, &Own::new(Fault::NoFiles), "another"), MAIN);
    assert_eq!(result(&report), "first");
    let run = written(&env, &report);
    assert!(!run.has_kept() && report.iterations[0].kept == 0);
    let told = "the agent's conversation was not kept: the conversation could not be taken out of the sandbox: ";
    assert!(env.said().contains(told), "{}", env.said());
    let none = Resume::of(&env.home, &run).unwrap();
    assert!(none.files.is_none() && !none.kept);

    let before = env.refs();
    let mut options = task(&env, &Own::new(Fault::NoFiles), "and more");
    options.task.resume = Some(resume);
    let error = whole(&env, options, &[]).unwrap_err();
    assert!(
        matches!(
            &error.kind,
            RunErrorKind::Conversation(ConversationError::NotGiven(why)) if why.starts_with("the island cannot")
        ),
        "{error}"
    );
    assert!(error.kept.iterations.is_empty());
    assert_eq!(env.refs(), before);
    env.assert_no_state();
}
