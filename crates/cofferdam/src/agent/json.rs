//! What the agents that print one JSON object for each line have in common.

use serde_json::Value;

use super::error::AgentError;
use super::event::AgentEvent;
use crate::text::printable_line;

/// So many characters of a tool's argument are kept.
const ARGUMENT: usize = 300;

/// The arguments that tell most about a call, best first.
const TELLING: &[&str] = &[
    "command",
    "file_path",
    "notebook_path",
    "path",
    "pattern",
    "query",
    "url",
    "description",
    "skill",
    "name",
    "prompt",
    "text",
];

/// The object on this line, if it is one.
pub(super) fn object(line: &[u8], truncated: bool) -> Option<Value> {
    let start = line.iter().position(|byte| !byte.is_ascii_whitespace())?;
    if truncated || line[start] != b'{' {
        return None;
    }
    serde_json::from_slice(&line[start..])
        .ok()
        .filter(Value::is_object)
}

pub(super) fn raw(line: &[u8]) -> Vec<AgentEvent> {
    vec![AgentEvent::Raw {
        line: String::from_utf8_lossy(line).into_owned(),
    }]
}

/// The end of a stream whose last word was this error.
pub(super) fn failure(error: Option<String>) -> Vec<AgentEvent> {
    let failed = error.map(|text| AgentEvent::Result {
        text,
        is_error: true,
    });
    failed.into_iter().collect()
}

/// The string at `key`, if there is one.
pub(super) fn text<'v>(value: &'v Value, key: &str) -> Option<&'v str> {
    value.get(key).and_then(Value::as_str)
}

/// Dollars as millionths; nothing where it is none or nothing: a program that knows no price says 0.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float is cut to what fits"
)]
pub(super) fn micro_usd(dollars: Option<&Value>) -> Option<u64> {
    let micro = (dollars?.as_f64()? * 1e6).round();
    (micro >= 1.0).then_some(micro as u64)
}

/// A count; what is missing, negative or no number is 0.
pub(super) fn count(value: &Value, key: &str) -> u64 {
    value.get(key).and_then(Value::as_u64).unwrap_or(0)
}

/// The most telling argument of a call, or all of them as JSON, bounded.
pub(super) fn arguments(input: &Value) -> String {
    if let Some(told) = TELLING.iter().find_map(|key| text(input, key)) {
        return bounded(told);
    }
    match input {
        Value::Null => String::new(),
        Value::String(text) => bounded(text),
        Value::Object(map) if map.is_empty() => String::new(),
        other => bounded(&other.to_string()),
    }
}

pub(super) fn bounded(text: &str) -> String {
    match text.char_indices().nth(ARGUMENT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The message of an error in the shapes that agents use: a string, an object that has one, or a
/// string that holds such an object as JSON.
pub(super) fn error_message(value: &Value) -> Option<String> {
    if let Some(told) = value.as_str() {
        let inner = object(told.as_bytes(), false).and_then(|value| error_message(&value));
        return Some(inner.unwrap_or_else(|| told.to_owned()));
    }
    [
        value.get("message"),
        value.pointer("/data/message"),
        value.get("error"),
    ]
    .into_iter()
    .flatten()
    .find_map(error_message)
}

/// A session id that can stand on a command line: it came out of a sandbox.
pub(super) fn session_id<'i>(agent: &str, id: &'i str) -> Result<&'i str, AgentError> {
    let fine = !id.is_empty()
        && id.len() <= 128
        && !id.starts_with('-')
        && id
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
    if fine {
        Ok(id)
    } else {
        Err(AgentError::BadSession {
            agent: agent.to_owned(),
            id: bounded(&printable_line(id)),
        })
    }
}
