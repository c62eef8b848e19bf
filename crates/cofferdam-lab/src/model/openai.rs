//! OpenAI's Responses API, as far as Codex needs it.

use serde_json::{Value, json};

use super::pieces::pieces;
use super::request::Request;
use super::script::{Tool, Turn};

pub(super) const SHELLS: &[&str] = &[SCRIPT, "exec_command", "shell_command", "shell"];
/// A tool that runs JavaScript, in which the other tools are functions. Newer models have this one only.
const SCRIPT: &str = "exec";
/// Takes text, as `SCRIPT` does, not JSON.
const PATCH: &str = "apply_patch";

/// The whole response.
pub(super) fn response(request: &Request, turn: &Turn, number: usize) -> Value {
    let mut response = head(request, number, "completed");
    response["output"] = items(request, turn, number).into();
    response["usage"] = json!({
        "input_tokens": 400,
        "input_tokens_details": {"cached_tokens": 300},
        "output_tokens": 40,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 440,
    });
    response
}

/// The same in pieces.
pub(super) fn events(request: &Request, turn: &Turn, number: usize) -> Vec<Value> {
    let running = head(request, number, "in_progress");
    let mut events = vec![
        json!({"type": "response.created", "response": running}),
        json!({"type": "response.in_progress", "response": running}),
    ];
    for (index, item) in items(request, turn, number).into_iter().enumerate() {
        let id = item["id"].clone();
        let mut empty = item.clone();
        empty["status"] = "in_progress".into();
        // Where the text of this kind of item is, and how its pieces are called.
        let (text, kind) = match item["type"].as_str() {
            Some("function_call") => {
                empty["arguments"] = "".into();
                (&item["arguments"], "function_call_arguments")
            }
            Some("custom_tool_call") => {
                empty["input"] = "".into();
                (&item["input"], "custom_tool_call_input")
            }
            _ => {
                empty["content"] = json!([]);
                (&item["content"][0]["text"], "output_text")
            }
        };
        events.push(
            json!({"type": "response.output_item.added", "output_index": index, "item": empty}),
        );
        for piece in pieces(text.as_str().unwrap_or_default()) {
            events.push(json!({
                "type": format!("response.{kind}.delta"),
                "item_id": id,
                "output_index": index,
                "content_index": 0,
                "delta": piece,
            }));
        }
        events.push(
            json!({"type": "response.output_item.done", "output_index": index, "item": item}),
        );
    }
    let done = response(request, turn, number);
    events.push(json!({"type": "response.completed", "response": done}));
    for (number, event) in events.iter_mut().enumerate() {
        event["sequence_number"] = number.into();
    }
    events
}

fn head(request: &Request, number: usize, status: &str) -> Value {
    json!({
        "id": format!("resp_{number}"),
        "object": "response",
        "created_at": 0,
        "status": status,
        "model": request.body.get("model"),
        "output": [],
        "error": null,
    })
}

fn items(request: &Request, turn: &Turn, number: usize) -> Vec<Value> {
    let mut items = Vec::new();
    if !turn.say.is_empty() || turn.tool.is_none() {
        items.push(json!({
            "type": "message",
            "id": format!("msg_{number}"),
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": turn.say, "annotations": []}],
        }));
    }
    if let Some(tool) = &turn.tool {
        items.push(call(&request.tools(), tool, number));
    }
    items
}

/// A call of whichever tool this version of the program offers.
fn call(offered: &[&str], tool: &Tool, number: usize) -> Value {
    let scripted = offered.contains(&SCRIPT);
    let command = match tool {
        Tool::Shell { command } => command.clone(),
        Tool::Read { path } => format!("cat {path}"),
        Tool::Named { name, input } if scripted => {
            let script = format!(
                "text(JSON.stringify(await tools[{}]({input})))",
                Value::from(&**name)
            );
            return custom(SCRIPT, &script, number);
        }
        Tool::Named { name, input } => return function(name, input, number),
        Tool::Edit { path, old, new } => {
            let patch = format!(
                "*** Begin Patch\n*** Update File: {path}\n@@\n-{old}\n+{new}\n*** End Patch\n"
            );
            if scripted {
                let script = format!("text(await tools.{PATCH}({}))", Value::from(patch));
                return custom(SCRIPT, &script, number);
            }
            if offered.contains(&PATCH) {
                return custom(PATCH, &patch, number);
            }
            format!("{PATCH} <<'PATCH'\n{patch}PATCH\n")
        }
    };
    if scripted {
        let arguments = json!({"cmd": command});
        let script = format!("text((await tools.exec_command({arguments})).output)");
        return custom(SCRIPT, &script, number);
    }
    let (name, arguments) = match SHELLS.iter().find(|shell| offered.contains(shell)) {
        Some(&"shell_command") => ("shell_command", json!({"command": command})),
        Some(&"shell") => ("shell", json!({"command": ["sh", "-c", command]})),
        _ => ("exec_command", json!({"cmd": command})),
    };
    function(name, &arguments, number)
}

fn function(name: &str, arguments: &Value, number: usize) -> Value {
    json!({
        "type": "function_call",
        "id": format!("fc_{number}"),
        "call_id": format!("call_{number}"),
        "status": "completed",
        "name": name,
        "arguments": arguments.to_string(),
    })
}

fn custom(name: &str, input: &str, number: usize) -> Value {
    json!({
        "type": "custom_tool_call",
        "id": format!("ctc_{number}"),
        "call_id": format!("call_{number}"),
        "status": "completed",
        "name": name,
        "input": input,
    })
}
