//! Anthropic's Messages API, as far as Claude Code needs it.

use serde_json::{Value, json};

use super::pieces::pieces;
use super::request::Request;
use super::script::{Tool, Turn};

pub(super) const SHELLS: &[&str] = &["Bash"];

/// The whole message.
pub(super) fn message(request: &Request, turn: &Turn, number: usize) -> Value {
    let mut message = start(request, number);
    message["content"] = blocks(turn, number).into();
    message["stop_reason"] = stop(turn).into();
    message["usage"]["output_tokens"] = 40.into();
    message
}

/// The same in pieces.
pub(super) fn events(request: &Request, turn: &Turn, number: usize) -> Vec<Value> {
    let mut events = vec![
        json!({"type": "message_start", "message": start(request, number)}),
        json!({"type": "ping"}),
    ];
    for (index, block) in blocks(turn, number).into_iter().enumerate() {
        let (empty, deltas): (Value, Vec<Value>) = if block["type"] == "text" {
            let text = block["text"].as_str().unwrap_or_default();
            let deltas = pieces(text).into_iter();
            (
                json!({"type": "text", "text": ""}),
                deltas
                    .map(|piece| json!({"type": "text_delta", "text": piece}))
                    .collect(),
            )
        } else {
            let mut empty = block.clone();
            empty["input"] = json!({});
            let deltas = pieces(&block["input"].to_string()).into_iter();
            (
                empty,
                deltas
                    .map(|piece| json!({"type": "input_json_delta", "partial_json": piece}))
                    .collect(),
            )
        };
        events.push(json!({"type": "content_block_start", "index": index, "content_block": empty}));
        events.extend(
            deltas.into_iter().map(
                |delta| json!({"type": "content_block_delta", "index": index, "delta": delta}),
            ),
        );
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    events.push(json!({
        "type": "message_delta",
        "delta": {"stop_reason": stop(turn), "stop_sequence": null},
        "usage": {"output_tokens": 40},
    }));
    events.push(json!({"type": "message_stop"}));
    events
}

fn start(request: &Request, number: usize) -> Value {
    json!({
        "id": format!("msg_{number}"),
        "type": "message",
        "role": "assistant",
        "model": request.body.get("model"),
        "content": [],
        "stop_reason": null,
        "stop_sequence": null,
        "usage": {
            "input_tokens": 100,
            "cache_creation_input_tokens": 20,
            "cache_read_input_tokens": 300,
            "output_tokens": 1,
        },
    })
}

fn stop(turn: &Turn) -> &'static str {
    if turn.tool.is_some() {
        "tool_use"
    } else {
        "end_turn"
    }
}

fn blocks(turn: &Turn, number: usize) -> Vec<Value> {
    let mut blocks = Vec::new();
    if !turn.say.is_empty() || turn.tool.is_none() {
        blocks.push(json!({"type": "text", "text": turn.say}));
    }
    if let Some(tool) = &turn.tool {
        let (name, input) = match tool {
            Tool::Shell { command } => ("Bash", json!({"command": command})),
            Tool::Named { name, input } => (name.as_str(), input.clone()),
            Tool::Read { path } => ("Read", json!({"file_path": path})),
            Tool::Edit { path, old, new } => (
                "Edit",
                json!({"file_path": path, "old_string": old, "new_string": new}),
            ),
        };
        let id = format!("toolu_{number}");
        blocks.push(json!({"type": "tool_use", "id": id, "name": name, "input": input}));
    }
    blocks
}
