//! Agents, requests, and the events that tests expect.

use cofferdam::agent::{AgentEvent, AgentOptions, AgentProvider, AgentRequest, Usage, by_name};

pub(crate) const SIGNAL: &str = "<promise>COMPLETE</promise>";

/// As in `scripts/record-agents`.
pub(crate) const RECORDED_PROMPT: &str = "Look at greeting.txt. When nothing is left to do, print on a line of its own:\n<promise>COMPLETE</promise>\n";

pub(crate) fn request(prompt: &str) -> AgentRequest {
    let mut request = AgentRequest::new(prompt);
    request.skip_permissions = true;
    request
}

pub(crate) fn signals() -> Vec<String> {
    vec![SIGNAL.to_owned()]
}

pub(crate) fn agent(name: &str, arguments: &[&str]) -> std::sync::Arc<dyn AgentProvider> {
    by_name(name, AgentOptions::with_arguments(arguments)).unwrap()
}

pub(crate) fn events(name: &str, prompt: &str, output: &str) -> Vec<AgentEvent> {
    let mut parser = agent(name, &["x"]).parser(&request(prompt), &signals());
    let mut events: Vec<_> = output
        .lines()
        .flat_map(|line| parser.line(line.as_bytes(), false))
        .collect();
    events.extend(parser.end());
    events
}

pub(crate) fn recorded(name: &str) -> String {
    let path = format!("{}/tests/recorded/{name}.jsonl", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).unwrap()
}

pub(crate) fn text(text: &str) -> AgentEvent {
    AgentEvent::Text {
        text: text.to_owned(),
    }
}

pub(crate) fn call(name: &str, arguments: &str) -> AgentEvent {
    AgentEvent::ToolCall {
        name: name.to_owned(),
        arguments: arguments.to_owned(),
    }
}

pub(crate) fn result(text: &str, is_error: bool) -> AgentEvent {
    AgentEvent::Result {
        text: text.to_owned(),
        is_error,
    }
}

pub(crate) fn raw(line: &str) -> AgentEvent {
    AgentEvent::Raw {
        line: line.to_owned(),
    }
}

pub(crate) fn session() -> AgentEvent {
    AgentEvent::Session {
        id: "01234567-89ab-cdef-0123-456789abcdef".to_owned(),
    }
}

pub(crate) fn usage(input: u64, created: u64, read: u64, output: u64) -> AgentEvent {
    costing([input, created, read, output], None)
}

/// With what it cost in millionths of a dollar.
pub(crate) fn costing(
    [
        input_tokens,
        cache_creation_tokens,
        cache_read_tokens,
        output_tokens,
    ]: [u64; 4],
    cost_micro_usd: Option<u64>,
) -> AgentEvent {
    AgentEvent::Usage {
        usage: Usage {
            input_tokens,
            cache_creation_tokens,
            cache_read_tokens,
            output_tokens,
            cost_micro_usd,
        },
    }
}
