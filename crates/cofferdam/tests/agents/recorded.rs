//! What the real programs printed (`scripts/record-agents`), as events.

use cofferdam::agent::{AgentEvent, UsageTold, completion};

use crate::world::{
    RECORDED_PROMPT, SIGNAL, agent, call, costing, events, raw, recorded, result, session, signals,
    text, usage,
};

const FIRST: &str = "I will look at the file first.";

const FINAL: &str =
    "The file greets the world. Nothing is left to do.\n<promise>COMPLETE</promise>";

const CALLED: &str = "cat greeting.txt; echo '<promise>COMPLETE</promise>'";

fn check_claude_work(name: &str, cost: u64) {
    let output = recorded(name);
    let lines: Vec<&str> = output.lines().collect();
    let tool_result = lines
        .iter()
        .find(|line| line.contains("tool_result"))
        .unwrap();
    let got = events("claude-code", RECORDED_PROMPT, &output);
    let want = vec![
        session(),
        text(FIRST),
        usage(100, 20, 300, 1),
        call("Bash", CALLED),
        usage(100, 20, 300, 1),
        raw(tool_result),
        text(FINAL),
        usage(200, 40, 600, 2),
        costing([200, 40, 600, 80], Some(cost)),
        result(FINAL, false),
    ];
    assert_eq!(got, want, "{name}");
    check_completed_by_the_last(&got);
}

/// The prompt and the tool's output hold the signal too; only the final message may count.
fn check_completed_by_the_last(events: &[AgentEvent]) {
    let signals = signals();
    let by: Vec<_> = events
        .iter()
        .map(|event| completion(event, RECORDED_PROMPT, &signals))
        .collect();
    let (last, before) = by.split_last().unwrap();
    assert_eq!(*last, Some(SIGNAL));
    assert!(before.iter().all(Option::is_none));
}

#[test]
fn claude_code_at_work() {
    check_claude_work("claude-work", 2130);
    // Of the whole conversation.
    check_claude_work("claude-resume", 4260);
}

#[test]
fn codex_at_work() {
    for name in ["codex-work", "codex-resume"] {
        let output = recorded(name);
        let lines: Vec<&str> = output.lines().collect();
        let line = |part: &str| raw(lines.iter().find(|line| line.contains(part)).unwrap());
        let got = events("codex", RECORDED_PROMPT, &output);
        let total = match got
            .iter()
            .find(|event| matches!(event, AgentEvent::Usage { .. }))
        {
            Some(total) => total.clone(),
            None => panic!("{name}: no usage"),
        };
        let want = vec![
            session(),
            line("Model metadata"),
            line("turn.started"),
            text(FIRST),
            call(
                "Bash",
                "/usr/bin/bash -lc \"cat greeting.txt; echo '<promise>COMPLETE</promise>'\"",
            ),
            line("aggregated_output\":\"hello"),
            text(FINAL),
            total.clone(),
            result(FINAL, false),
        ];
        assert_eq!(got, want, "{name}");
        check_completed_by_the_last(&got);
        if name == "codex-work" {
            assert_eq!(total, usage(200, 0, 600, 80));
        }
    }
}

/// What was said of all lines but those that say nothing; each line is told of.
fn told(agent: &str, name: &str) -> Vec<AgentEvent> {
    let output = recorded(name);
    let got = events(agent, RECORDED_PROMPT, &output);
    assert!(got.len() >= output.lines().count(), "{name}");
    let says = |event: &AgentEvent| !matches!(event, AgentEvent::Raw { .. });
    let got: Vec<AgentEvent> = got.into_iter().filter(says).collect();
    check_completed_by_the_last(&got);
    got
}

#[test]
fn opencode_at_work() {
    for name in ["opencode-work", "opencode-resume"] {
        let want = vec![
            AgentEvent::Session {
                id: "ses_0123456789abcdefghijABCDEF".to_owned(),
            },
            text(FIRST),
            call("bash", CALLED),
            usage(100, 0, 300, 40),
            text(FINAL),
            usage(200, 0, 600, 80),
            result(FINAL, false),
        ];
        assert_eq!(told("opencode", name), want, "{name}");
    }
}

#[test]
fn pi_at_work() {
    for name in ["pi-work", "pi-resume"] {
        let want = vec![
            session(),
            text(FIRST),
            usage(100, 0, 300, 40),
            call("bash", CALLED),
            text(FINAL),
            usage(200, 0, 600, 80),
            result(FINAL, false),
        ];
        assert_eq!(told("pi", name), want, "{name}");
    }
}

/// It says its session only at its end, and of tokens nothing.
#[test]
fn copilot_at_work() {
    for name in ["copilot-work", "copilot-resume"] {
        let want = vec![
            text(FIRST),
            call("bash", CALLED),
            text(FINAL),
            session(),
            result(FINAL, false),
        ];
        assert_eq!(told("copilot", name), want, "{name}");
    }
}

#[test]
fn gemini_at_work() {
    for name in ["gemini-work", "gemini-resume"] {
        let want = vec![
            session(),
            text(FIRST),
            call("run_shell_command", CALLED),
            text(FINAL),
            usage(200, 0, 600, 80),
            result(FINAL, false),
        ];
        assert_eq!(told("gemini", name), want, "{name}");
    }
}

#[test]
fn qwen_at_work() {
    for name in ["qwen-work", "qwen-resume"] {
        let want = vec![
            session(),
            text(FIRST),
            call("run_shell_command", CALLED),
            usage(100, 0, 300, 40),
            text(FINAL),
            usage(200, 0, 600, 80),
            result(FINAL, false),
        ];
        assert_eq!(told("qwen", name), want, "{name}");
    }
}

#[test]
fn errors_of_the_model_are_error_results() {
    let said = "the scripted model refuses";
    let key = "the scripted model wants another key";
    for (agent, name, why) in [
        ("claude-code", "claude-error", said),
        ("codex", "codex-error", said),
        ("opencode", "opencode-error", said),
        // Its own message is the service's alone.
        (
            "opencode",
            "opencode-key",
            "API error 401: the scripted model wants another key",
        ),
        ("pi", "pi-error", said),
        ("pi", "pi-key", key),
        ("copilot", "copilot-error", said),
        ("copilot", "copilot-key", "Authentication failed"),
        ("gemini", "gemini-error", said),
        ("gemini", "gemini-key", key),
        ("qwen", "qwen-error", said),
        ("qwen", "qwen-key", key),
    ] {
        let got = events(agent, RECORDED_PROMPT, &recorded(name));
        let results: Vec<_> = got
            .iter()
            .filter(|event| matches!(event, AgentEvent::Result { .. }))
            .collect();
        let [
            AgentEvent::Result {
                text,
                is_error: true,
            },
        ] = &results[..]
        else {
            panic!("{name}: {got:?}");
        };
        assert!(text.contains(why), "{name}: {text}");
    }
}

/// The models that these were recorded with have no price.
const UNPRICED: [&str; 2] = ["opencode", "pi"];

#[test]
fn what_an_agent_is_said_to_tell_it_tells() {
    for (name, file) in [
        ("claude-code", "claude"),
        ("codex", "codex"),
        ("opencode", "opencode"),
        ("pi", "pi"),
        ("copilot", "copilot"),
        ("gemini", "gemini"),
        ("qwen", "qwen"),
    ] {
        let events = events(name, RECORDED_PROMPT, &recorded(&format!("{file}-work")));
        let agent = agent(name, &[]);
        let ends = |event: &AgentEvent| matches!(event, AgentEvent::Result { .. });
        assert!(agent.tells_its_end() && events.iter().any(ends), "{name}");
        let used = events.iter().rev().find_map(|event| match event {
            AgentEvent::Usage { usage } => Some(*usage),
            _ => None,
        });
        let told = match used.filter(|used| used.tokens() > 0) {
            None => UsageTold::Nothing,
            Some(used) if used.cost_micro_usd.is_none() && !UNPRICED.contains(&name) => {
                UsageTold::Tokens
            }
            Some(_) => UsageTold::Cost,
        };
        assert_eq!(agent.usage_told(), Some(told), "{name}");
    }
    assert!(!agent("command", &["x"]).tells_its_end());
}
