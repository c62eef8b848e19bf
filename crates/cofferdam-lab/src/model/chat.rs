//! OpenAI's Chat Completions API, as far as OpenCode, Pi, Copilot and Qwen Code need it.

use serde_json::{Map, Value, json};

use super::pieces::pieces;
use super::request::Request;
use super::script::{Tool, Turn};

pub(super) const SHELLS: &[&str] = &["bash", "run_shell_command"];
const READS: &[&str] = &["read", "view", "read_file"];
const EDITS: &[&str] = &["edit", "replace"];

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
    let (name, arguments) = called(request, tool);
    // One that no earlier answer in this conversation had, of another server either.
    let before = request.body["messages"].as_array().map_or(0, Vec::len);
    json!({
        "id": format!("call_{number}_{before}"),
        "type": "function",
        "function": {"name": name, "arguments": arguments.to_string()},
    })
}

/// The same for every program that calls its shell by one of [`SHELLS`], and reads and edits by tools of its own.
pub(super) fn called<'t>(request: &Request, tool: &'t Tool) -> (&'t str, Value) {
    match tool {
        Tool::Shell { command } => shell(request, command),
        Tool::Read { path } => own(request, READS, path, ["", ""])
            .unwrap_or_else(|| shell(request, &format!("cat {path}"))),
        Tool::Edit { path, old, new } => own(request, EDITS, path, [old, new])
            .unwrap_or_else(|| shell(request, &format!("sed -i 's|^{old}$|{new}|' {path}"))),
        Tool::Named { name, input } => (name, input.clone()),
    }
}

fn shell(request: &Request, command: &str) -> (&'static str, Value) {
    let offered = request.tools();
    let known = SHELLS.iter().find(|shell| offered.contains(shell));
    let name = known.copied().unwrap_or(SHELLS[0]);
    let mut arguments = json!({"command": command, "description": "Runs a command"});
    if name != SHELLS[0] {
        arguments["is_background"] = false.into();
    }
    (name, arguments)
}

/// The first of `tools` that the program offers, with each argument by the name that it has there.
fn own(
    request: &Request,
    tools: &'static [&str],
    path: &str,
    [old, new]: [&str; 2],
) -> Option<(&'static str, Value)> {
    let offered = tools
        .iter()
        .find_map(|&name| Some((name, request.arguments(name)?)));
    let (name, takes) = offered?;
    let mut arguments = Map::new();
    for argument in takes.keys() {
        let value = match argument.as_str() {
            "path" | "filePath" | "file_path" => path.into(),
            "oldString" | "old_string" | "old_str" | "oldText" => old.into(),
            "newString" | "new_string" | "new_str" | "newText" => new.into(),
            "edits" => json!([{"oldText": old, "newText": new}]),
            "instruction" => "Changes a line".into(),
            _ => continue,
        };
        arguments.insert(argument.clone(), value);
    }
    Some((name, arguments.into()))
}
