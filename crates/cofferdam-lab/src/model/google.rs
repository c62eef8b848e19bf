//! Google's Gemini API, as far as Gemini CLI needs it. What is asked for is in the path, not in the body.

use serde_json::{Value, json};

use super::chat::called;
use super::pieces::pieces;
use super::request::Request;
use super::script::Turn;

pub(super) const STREAM: &str = "streamGenerateContent";
pub(super) const WHOLE: &str = "generateContent";

/// What the last part of a path asks a model for: `models/NAME:generateContent`.
pub(super) fn asked(route: &str) -> Option<&str> {
    route
        .rsplit('/')
        .next()?
        .split_once(':')
        .map(|(_, asked)| asked)
}

/// The whole response.
pub(super) fn response(request: &Request, turn: &Turn, number: usize) -> Value {
    let mut parts = vec![json!({"text": turn.say})];
    parts.extend(call(request, turn, number));
    piece(&parts, true)
}

/// The same in pieces.
pub(super) fn events(request: &Request, turn: &Turn, number: usize) -> Vec<Value> {
    let words = pieces(&turn.say).into_iter();
    let mut events: Vec<Value> = words
        .map(|words| piece(&[json!({"text": words})], false))
        .collect();
    events.push(piece(call(request, turn, number).as_slice(), true));
    events
}

fn call(request: &Request, turn: &Turn, number: usize) -> Option<Value> {
    let (name, arguments) = called(request, turn.tool.as_ref()?);
    let before = request.body["contents"].as_array().map_or(0, Vec::len);
    let id = format!("call_{number}_{before}");
    Some(json!({"functionCall": {"id": id, "name": name, "args": arguments}}))
}

fn piece(parts: &[Value], last: bool) -> Value {
    let mut piece = json!({
        "candidates": [{"index": 0, "content": {"role": "model", "parts": parts}}],
        "usageMetadata": {
            "promptTokenCount": 400,
            "cachedContentTokenCount": 300,
            "candidatesTokenCount": 40,
            "totalTokenCount": 440,
        },
    });
    if last {
        piece["candidates"][0]["finishReason"] = "STOP".into();
    }
    piece
}
