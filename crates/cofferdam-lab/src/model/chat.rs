//! OpenAI's Chat Completions API, as far as OpenCode, Pi, Copilot and Qwen Code need it.

use serde_json::{Value, json};

use super::pieces::pieces;
use super::request::Request;
use super::script::{Tool, Turn};

pub(super) const SHELLS: &[&str] = &["bash", "run_shell_command"];

/// The whole completion.
pub(super) fn completion(request: &Request, turn: &Turn, number: usize) -> Value {
    let mut message = json!({"role": "assistant", "content": turn.say});
    if let Some(tool) = &turn.tool {
        message["tool_calls"] = json!([call(request, tool, number)]);
    }
    let mut completion = head(request, number, "chat.completion");
    completion["choices"] = json!([{"index": 0, "message": message, "finish_reason": stop(turn)}]);
    completion["usage"] = usage();
    completion
}

/// The same in pieces. The last is no object, but the word that ends such a stream.
pub(super) fn events(request: &Request, turn: &Turn, number: usize) -> Vec<Value> {
    let chunk = |delta: Value, stop: Option<&str>| {
        let mut chunk = head(request, number, "chat.completion.chunk");
        chunk["choices"] = json!([{"index": 0, "delta": delta, "finish_reason": stop}]);
        chunk
    };
    let mut events = vec![chunk(json!({"role": "assistant", "content": ""}), None)];
    for piece in pieces(&turn.say) {
        events.push(chunk(json!({"content": piece}), None));
    }
    if let Some(tool) = &turn.tool {
        let mut call = call(request, tool, number);
        call["index"] = 0.into();
        let arguments = call["function"]["arguments"].take();
        call["function"]["arguments"] = "".into();
        events.push(chunk(json!({"tool_calls": [call]}), None));
        for piece in pieces(arguments.as_str().unwrap_or_default()) {
            let more = json!([{"index": 0, "function": {"arguments": piece}}]);
            events.push(chunk(json!({"tool_calls": more}), None));
        }
    }
    events.push(chunk(json!({}), Some(stop(turn))));
    let mut last = head(request, number, "chat.completion.chunk");
    last["choices"] = json!([]);
    last["usage"] = usage();
    events.push(last);
    events.push("[DONE]".into());
    events
}

fn head(request: &Request, number: usize, object: &str) -> Value {
    json!({
        "id": format!("chatcmpl_{number}"),
        "object": object,
        "created": 0,
        "model": request.body.get("model"),
    })
}

fn usage() -> Value {
    json!({
        "prompt_tokens": 400,
        "prompt_tokens_details": {"cached_tokens": 300},
        "completion_tokens": 40,
        "total_tokens": 440,
    })
}

fn stop(turn: &Turn) -> &'static str {
    if turn.tool.is_some() {
        "tool_calls"
    } else {
        "stop"
    }
}

/// A call of the shell that this program offers, or of the tool that the script names.
fn call(request: &Request, tool: &Tool, number: usize) -> Value {
    let (name, arguments) = shell(&request.tools(), tool);
    // One that no earlier answer in this conversation had, of another server either.
    let before = request.body["messages"].as_array().map_or(0, Vec::len);
    json!({
        "id": format!("call_{number}_{before}"),
        "type": "function",
        "function": {"name": name, "arguments": arguments.to_string()},
    })
}

/// The same for every program that calls its shell by one of [`SHELLS`].
pub(super) fn shell<'t>(offered: &[&str], tool: &'t Tool) -> (&'t str, Value) {
    let command = match tool {
        Tool::Shell { command } => command.clone(),
        Tool::Read { path } => format!("cat {path}"),
        Tool::Edit { path, old, new } => format!("sed -i 's|^{old}$|{new}|' {path}"),
        Tool::Named { name, input } => return (name, input.clone()),
    };
    let known = SHELLS.iter().find(|shell| offered.contains(shell));
    let name = known.copied().unwrap_or(SHELLS[0]);
    let mut arguments = json!({"command": command, "description": "Runs a command"});
    if name != SHELLS[0] {
        arguments["is_background"] = false.into();
    }
    (name, arguments)
}
