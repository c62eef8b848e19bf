//! What a program sent to the model, as it came.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// One request.
#[derive(Debug, Clone)]
pub struct Request {
    pub method: String,
    /// With its query.
    pub path: String,
    /// Names in lower case. Of several with one name, the last.
    pub headers: BTreeMap<String, String>,
    /// `Null` where it is no JSON.
    pub body: Value,
}

impl Request {
    /// The secret that came with it, without the word before it.
    pub fn key(&self) -> Option<&str> {
        let bearer = || {
            let value = self.headers.get("authorization")?;
            value.strip_prefix("Bearer ").or(Some(value))
        };
        let own = ["x-api-key", "x-goog-api-key"].into_iter();
        own.filter_map(|name| self.headers.get(name))
            .map(String::as_str)
            .next()
            .or_else(bearer)
    }

    /// The path without its query.
    pub fn route(&self) -> &str {
        self.path.split('?').next().unwrap_or_default()
    }

    /// The names of the tools that the program offers, those in namespaces and in messages too.
    pub fn tools(&self) -> Vec<&str> {
        self.offers().filter_map(name).collect()
    }

    /// The arguments that a tool of this name takes, as its JSON schema says it.
    pub fn arguments(&self, tool: &str) -> Option<&Map<String, Value>> {
        let offer = self.offers().find(|offer| name(offer) == Some(tool))?;
        let schema = ["parameters", "parametersJsonSchema"];
        let schema = schema.iter().find_map(|key| offer.get(key))?;
        schema.get("properties")?.as_object()
    }

    fn offers(&self) -> impl Iterator<Item = &Value> {
        let top = list(&self.body, "tools");
        let items = list(&self.body, "input").flat_map(|item| list(item, "tools"));
        top.chain(items).flat_map(|tool| {
            let own = tool.get("function").unwrap_or(tool);
            let more = list(tool, "tools").chain(list(tool, "functionDeclarations"));
            std::iter::once(own).chain(more)
        })
    }

    /// What tools gave so far in this conversation, oldest first.
    pub fn tool_results(&self) -> Vec<String> {
        let messages = list(&self.body, "messages").flat_map(|message| list(message, "content"));
        let anthropic = messages
            .filter(|block| text(block, "type") == Some("tool_result"))
            .filter_map(|block| block.get("content"));
        let openai = list(&self.body, "input")
            .filter(|item| {
                matches!(
                    text(item, "type"),
                    Some("function_call_output" | "custom_tool_call_output")
                )
            })
            .filter_map(|item| item.get("output"));
        let chat = list(&self.body, "messages")
            .filter(|message| text(message, "role") == Some("tool"))
            .filter_map(|message| message.get("content"));
        let google = list(&self.body, "contents")
            .flat_map(|content| list(content, "parts"))
            .filter_map(|part| part.pointer("/functionResponse/response"))
            .map(|response| response.get("output").unwrap_or(response));
        anthropic
            .chain(openai)
            .chain(chat)
            .chain(google)
            .map(words)
            .collect()
    }
}

/// A string, or the texts of a list of parts.
fn words(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts
            .iter()
            .filter_map(|part| text(part, "text"))
            .collect::<Vec<_>>()
            .join("\n"),
        other => other.to_string(),
    }
}

fn name(tool: &Value) -> Option<&str> {
    text(tool, "name").or_else(|| text(tool, "type"))
}

fn list<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    value
        .get(name)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

fn text<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    value.get(name).and_then(Value::as_str)
}
