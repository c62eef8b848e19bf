//! Conversations that go on, data that comes back, and bounds: with a program that is called like a real agent, keeps its conversations
//! as that does, and says what it is told to.

use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use cofferdam::agent::{self, AgentOptions};
use cofferdam::runs::{self, Status};
use cofferdam::session::{
    AgentFailure, Budget, ConversationError, EventSink, Output, PromptSource, Resume, RunErrorKind,
    Spent,
};
use cofferdam::{RunError, RunOptions, RunReport};

use crate::bad_input::{HEAD, whole};
use crate::support::Env;

const MAIN: &[&str] = &["refs/heads/main"];
pub(crate) const FIRST: &str = "01234567-89ab-cdef-0123-456789abcdef";
pub(crate) const FORK: &str = "fedcba98-7654-3210-fedc-ba9876543210";

/// It commits, and gives the answer whose number is the length of its conversation. One that begins with `!` is an error.
pub(crate) const CLAUDE: &str = r#"#!/bin/sh
prompt=$(cat)
id=FIRST from=
while [ $# -gt 0 ]; do
    case $1 in
        --resume) id=$2 from=$2; shift ;;
        --fork-session) id=FORK ;;
    esac
    shift
done
projects=~/.claude/projects/$(pwd | tr -c 'a-zA-Z0-9\n' -)
mkdir -p "$projects"
if [ "$from" ]; then
    [ -f "$projects/$from.jsonl" ] || { echo 'No conversation found' >&2; exit 1; }
    [ "$from" = "$id" ] || cp "$projects/$from.jsonl" "$projects/$id.jsonl"
fi
printf '%s\n' "$prompt" | tr '\n' ' ' >> "$projects/$id.jsonl"; echo >> "$projects/$id.jsonl"
n=$(wc -l < "$projects/$id.jsonl")
cp "$projects/$id.jsonl" conversation
git add -A; git commit -qm "work $n"
answer=$(cat "$(dirname "$0")/answer-$n") is_error=false
echo "{\"type\":\"system\",\"subtype\":\"init\",\"session_id\":\"$id\"}"
case $answer in
    earlier) echo '{"type":"assistant","message":{"content":[{"type":"text","text":"<plan>[1]</plan>"}]}}' ;;
    sleep) sleep 600 ;;
    large) head -c 70000000 /dev/zero >> "$projects/$id.jsonl" ;;
    link) ln -sf /etc/passwd "$projects/$id.jsonl" ;;
    pipe) rm "$projects/$id.jsonl"; mkfifo "$projects/$id.jsonl" ;;
    many) mkdir -p "$projects/$id/subagents"; (cd "$projects/$id/subagents"; seq 2000 | xargs touch) ;;
    !*) is_error=true answer=${answer#!} ;;
esac
echo "{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":$is_error,\"session_id\":\"$id\",\"result\":\"$answer\",\"total_cost_usd\":0.0$n,\"usage\":{\"input_tokens\":90,\"output_tokens\":10}}"
[ $is_error = false ] || exit 1
"#;

fn world(answers: &[&str]) -> (Env, RunOptions) {
    let env = Env::new();
    let bin = env.dir.path().join("user/.local/bin");
    std::fs::create_dir_all(&bin).unwrap();
    for (number, answer) in answers.iter().enumerate() {
        std::fs::write(bin.join(format!("answer-{}", number + 1)), answer).unwrap();
    }
    let program = bin.join("claude");
    std::fs::write(
        &program,
        CLAUDE.replace("FIRST", FIRST).replace("FORK", FORK),
    )
    .unwrap();
    std::fs::set_permissions(program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let options = task(&env, "the task");
    (env, options)
}

fn task(env: &Env, prompt: &str) -> RunOptions {
    let agent = agent::by_name("claude-code", AgentOptions::default()).unwrap();
    let mut options = env.options(HEAD, agent);
    let bin = env.dir.path().join("user/.local/bin");
    let path = format!("{}:/usr/bin:/bin", bin.display());
    let environment = &mut options.caller.environment;
    environment.insert("PATH".into(), path.into());
    let key = ("ANTHROPIC_API_KEY".into(), "the-users".into());
    options.session.environment.extend([key]);
    options.task.prompt = PromptSource::Inline(prompt.into());
    options
}

fn result(report: &RunReport) -> &str {
    let last = report.iterations.last().unwrap();
    last.result.as_deref().unwrap()
}

fn failure(result: Result<RunReport, RunError>) -> (RunError, AgentFailure) {
    let mut error = result.unwrap_err();
    let kind = std::mem::replace(&mut error.kind, RunErrorKind::Cancelled);
    match kind {
        RunErrorKind::Agent { failure, .. } => (error, failure),
        other => panic!("{other}"),
    }
}

/// In another sandbox, whose home has nothing of it; and as often as is wanted in copies.
// covers: S2-24
#[test]
fn a_conversation_goes_on_in_another_sandbox() {
    let (env, options) = world(&["first", "second", "third"]);
    let report = whole(&env, options, MAIN).unwrap();
    assert_eq!(result(&report), "first");
    assert_eq!(report.usage.cost_micro_usd, Some(10_000));
    let top = env.repo.canonicalize().unwrap();
    let (first, status) = runs::find(&env.home, &top, &report.name.to_string()).unwrap();
    assert_eq!((Some(first.id), status), (report.run, Status::Ended));
    assert_eq!(first.task, "the task");
    assert_eq!(first.iterations[0].kept, 1);
    let resume = Resume::of(&env.home, &first).unwrap();
    assert_eq!(resume.session, FIRST);

    let mut options = task(&env, "and more");
    options.task.resume = Some(resume.clone());
    let report = whole(&env, options, MAIN).unwrap();
    assert_eq!(result(&report), "second");
    assert_eq!(env.read("conversation"), "the task \nand more \n");
    // Its program counts the conversation from its beginning.
    assert_eq!(report.usage.cost_micro_usd, Some(10_000));
    let (second, _) = runs::find(&env.home, &top, &report.run.unwrap().to_string()).unwrap();
    assert_eq!((second.continues, second.fork), (Some(first.id), false));

    // And of the one before: what both had cost is not this one's.
    let mut options = task(&env, "once more");
    options.task.resume = Resume::of(&env.home, &second);
    let report = whole(&env, options, MAIN).unwrap();
    assert_eq!(result(&report), "third");
    assert_eq!(report.usage.cost_micro_usd, Some(10_000));

    // A copy of the first: the other is not in it.
    let mut options = task(&env, "or this");
    options.task.resume = Some(resume.clone());
    options.task.resume.as_mut().unwrap().fork = true;
    let report = whole(&env, options, MAIN).unwrap();
    assert_eq!(result(&report), "second");
    assert_eq!(env.read("conversation"), "the task \nor this \n");
    assert_eq!(report.iterations[0].session.as_deref(), Some(FORK));
    // Each iteration goes on.
    let mut options = task(&env, "go on");
    options.task.resume = Some(resume.clone());
    crate::support::iterations(&mut options, 2);
    let report = whole(&env, options, MAIN).unwrap();
    assert_eq!(result(&report), "third");

    // What was kept is gone: that is known before anything is made.
    let files = resume.files.clone().unwrap();
    std::fs::remove_dir_all(&files).unwrap();
    let before = env.refs();
    let mut options = task(&env, "too late");
    options.task.resume = Some(resume);
    let error = whole(&env, options, MAIN).unwrap_err();
    assert!(
        matches!(
            error.kind,
            RunErrorKind::Conversation(ConversationError::NotKept { .. })
        ),
        "{error}"
    );
    assert_eq!(env.refs(), before);
    let mut all = runs::list(&env.home, Some(&top)).unwrap();
    assert_eq!(all.len(), 5);
    assert!(all.iter().all(|(_, status)| *status == Status::Ended));
    for (run, _) in all.drain(..) {
        runs::remove(&env.home, run.id).unwrap();
    }
    env.assert_no_state();
}

/// A part of one is none: its run is as it is, and says so.
#[test]
fn a_conversation_that_is_no_files_within_bounds_is_not_kept() {
    for (answer, why) in [
        ("many", "it has more than 2000 files"),
        ("large", "it has more than 67108864 bytes"),
        ("link", "it is in no file of its own"),
        ("pipe", "it is in no file of its own"),
    ] {
        let (env, options) = world(&[answer]);
        let report = whole(&env, options, MAIN).unwrap();
        assert_eq!(result(&report), answer);
        let top = env.repo.canonicalize().unwrap();
        let (run, _) = runs::find(&env.home, &top, &report.run.unwrap().to_string()).unwrap();
        assert_eq!(run.iterations[0].kept, 0, "{answer}");
        assert!(
            !run.has_kept() && report.iterations[0].kept == 0,
            "{answer}"
        );
        let said = env.said();
        let is_told = said.contains("the agent's conversation was not kept: ");
        assert!(is_told && said.contains(why), "{answer}: {said}");
    }
}

/// It is asked again in the same conversation, and the commits of all answers stay.
#[test]
fn an_answer_that_does_not_fit_is_asked_for_again() {
    #[derive(serde::Deserialize, schemars::JsonSchema, Debug, PartialEq)]
    struct Plan {
        issues: Vec<String>,
    }
    let good = r#"Here: <plan>{\"issues\": [\"a\"]}</plan>"#;
    let (env, mut options) = world(&["<plan>{}</plan>", good]);
    options.task.output = Some(Output::of::<Plan>("plan").unwrap());
    let report = whole(&env, options, MAIN).unwrap();
    let plan: Plan = report.output_as().unwrap().unwrap();
    assert_eq!(plan.issues, ["a"]);
    assert_eq!(report.iterations.len(), 2);
    assert_eq!(env.subjects("main"), ["first", "work 1", "work 2"]);
    let asked = env.read("conversation");
    assert!(asked.contains("missing field `issues`"), "{asked}");

    let (env, mut options) = world(&["<plan>{}</plan>", good]);
    let strict = Output::of::<Plan>("plan").unwrap().with_retries(0);
    options.task.output = Some(strict);
    let error = whole(&env, options, MAIN).unwrap_err();
    let RunErrorKind::Output(wrong) = &error.kind else {
        panic!("{error}");
    };
    assert_eq!(wrong.raw.as_deref(), Some("{}"));
    assert_eq!(error.kept.commits.len(), 1);
    // It may have said it before its last message.
    let (env, mut options) = world(&["earlier"]);
    options.task.output = Some(Output::json("plan").unwrap().with_retries(0));
    let report = whole(&env, options, MAIN).unwrap();
    assert_eq!(result(&report), "earlier");
    assert_eq!(report.output, Some(serde_json::json!([1])));
    // In the words of tools and of the prompt it is not looked for.
    let (env, mut options) = world(&["nothing"]);
    options.task.prompt = PromptSource::Inline("<plan>[]</plan>".into());
    options.task.output = Some(Output::json("plan").unwrap().with_retries(0));
    let error = whole(&env, options, MAIN).unwrap_err().to_string();
    assert!(error.contains("there is no <plan>"), "{error}");
}

/// Once and twice more, where its conversation can go on; where it cannot that is said.
#[test]
fn who_cannot_be_asked_again_says_so() {
    let says = "it was not asked again, because it has no conversation that can go on";
    for (retries, starts) in [(2, 3), (1, 2), (0, 1)] {
        let wanted = || Output::json("plan").unwrap().with_retries(retries);
        let (env, mut options) = world(&["<plan>x</plan>"; 4]);
        options.task.output = Some(wanted());
        let error = whole(&env, options, MAIN).unwrap_err();
        assert_eq!(error.kept.iterations.len(), starts, "{error}");
        assert!(!error.to_string().contains(says), "{error}");

        let env = Env::new();
        let mut options = env.script(HEAD, "echo '<plan>x</plan>'");
        options.task.output = Some(wanted());
        let error = whole(&env, options, MAIN).unwrap_err();
        assert_eq!(error.kept.iterations.len(), 1, "{error}");
        assert_eq!(error.to_string().contains(says), retries > 0, "{error}");
    }
}

/// The agent is ended, and what it committed is home.
#[test]
fn what_passes_its_budget_ends() {
    for (budget, want) in [
        ((None, Some(99), None), Spent::Tokens(99)),
        ((None, None, Some(9_999)), Spent::Cost(9_999)),
        (
            (Some(Duration::from_millis(700)), None, None),
            Spent::Time(Duration::from_millis(700)),
        ),
    ] {
        let sleeps = budget.0.is_some();
        let (env, mut options) = world(&[if sleeps { "sleep" } else { "first" }, "second"]);
        crate::support::iterations(&mut options, 2);
        let mut bounds = Budget::default();
        (bounds.time, bounds.tokens, bounds.cost_micro_usd) = budget;
        options.task.budget = bounds;
        let (error, failure) = failure(whole(&env, options, MAIN));
        match failure {
            AgentFailure::Budget(spent) => assert_eq!(spent, want),
            other => panic!("{want}: {other}"),
        }
        assert_eq!(error.kept.iterations.len(), 1, "{want}");
        assert_eq!(error.kept.commits.len(), 1, "{want}");
    }
    // Of all iterations together, and what is not passed ends nothing.
    let (env, mut options) = world(&["first", "second"]);
    crate::support::iterations(&mut options, 2);
    options.task.budget.tokens = Some(200);
    assert_eq!(whole(&env, options, MAIN).unwrap().usage.tokens(), 200);
    let (env, mut options) = world(&["first", "second"]);
    crate::support::iterations(&mut options, 2);
    options.task.budget.tokens = Some(199);
    let (error, _) = failure(whole(&env, options, MAIN));
    assert_eq!(error.kept.iterations.len(), 2);
}

/// Without an order to wait it is an error of its own; with one the same conversation goes on.
#[test]
fn a_limit_of_the_models_is_told_or_waited_for() {
    let over = jiff::Timestamp::now().as_second() - 100;
    let limit = format!("!Claude AI usage limit reached|{over}");
    let (env, options) = world(&[&limit, "second"]);
    let (error, failed) = failure(whole(&env, options, MAIN));
    match failed {
        AgentFailure::Quota { detail, until } => {
            assert!(detail.contains("usage limit reached"), "{detail}");
            assert_eq!(until.unwrap().as_second(), over);
        }
        other => panic!("{other}"),
    }
    assert_eq!(error.kept.commits.len(), 1);

    let (env, mut options) = world(&[&limit, "second"]);
    options.task.wait_for_quota = Some(Duration::from_secs(60));
    let report = whole(&env, options, MAIN).unwrap();
    assert_eq!(result(&report), "second");
    assert_eq!(
        env.read("conversation"),
        "the task \nGo on where you were. \n"
    );
    assert!(env.said().contains("it goes on in"), "{}", env.said());
    // Longer than may be waited.
    let (env, mut options) = world(&["!API Error: 429 rate_limit_error", "second"]);
    options.task.wait_for_quota = Some(Duration::from_secs(59));
    let (_, failed) = failure(whole(&env, options, MAIN));
    assert!(
        matches!(failed, AgentFailure::Quota { until: None, .. }),
        "{failed}"
    );
}

/// A limit of the model's that is over: that is waited for five seconds, because clocks differ.
fn over() -> String {
    let second = jiff::Timestamp::now().as_second() - 100;
    format!("!Claude AI usage limit reached|{second}")
}

#[test]
fn who_waits_for_a_limit_is_cancelled_at_once() {
    let until = jiff::Timestamp::now().as_second() + 100;
    let limit = format!("!Claude AI usage limit reached|{until}");
    let (env, mut options) = world(&[&limit, "second"]);
    options.task.wait_for_quota = Some(Duration::from_hours(6));
    let cancel = options.caller.cancel.clone();
    options.caller.events = EventSink::new(move |event| {
        if format!("{event:?}").contains("it goes on in") {
            cancel.cancel();
        }
    });
    let began = Instant::now();
    let error = whole(&env, options, MAIN).unwrap_err();
    let took = began.elapsed();
    assert!(matches!(error.kind, RunErrorKind::Cancelled), "{error}");
    assert!(took < Duration::from_secs(60), "{took:?}");
    assert_eq!(error.kept.iterations.len(), 1);
    assert_eq!(error.kept.commits.len(), 1);
}

/// The wait alone is as long as the run may take.
#[test]
fn a_wait_for_a_limit_counts_for_no_bound() {
    let (env, mut options) = world(&[&over(), "second"]);
    options.task.wait_for_quota = Some(Duration::from_secs(60));
    options.task.budget.time = Some(Duration::from_secs(5));
    let report = whole(&env, options, MAIN).unwrap();
    assert_eq!(result(&report), "second");
    assert_eq!(env.said().matches("it goes on in").count(), 1);
}

/// Each wait is short enough, and both are too long.
#[test]
fn waits_for_limits_are_bounded_together() {
    let (env, mut options) = world(&[&over(), &over(), "third"]);
    options.task.wait_for_quota = Some(Duration::from_secs(9));
    let (error, failed) = failure(whole(&env, options, MAIN));
    assert!(matches!(failed, AgentFailure::Quota { .. }), "{failed}");
    assert_eq!(error.kept.iterations.len(), 2);
    assert_eq!(env.said().matches("it goes on in").count(), 1);
    // The control: they may take as long as both.
    let (env, mut options) = world(&[&over(), &over(), "third"]);
    options.task.wait_for_quota = Some(Duration::from_secs(10));
    let report = whole(&env, options, MAIN).unwrap();
    assert_eq!(result(&report), "third");
    assert_eq!(report.iterations.len(), 3);
}
