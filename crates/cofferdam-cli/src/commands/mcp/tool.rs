//! What a tool is: its name and what it does to things, what it takes, what it tells.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use rmcp::handler::server::tool::{schema_for_input, schema_for_output};
use rmcp::model::{CallToolResult, ContentBlock, JsonObject, Tool, ToolAnnotations};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::failure::{AGAIN, Failure};
use super::server::{Asked, Server};

/// What calling it does to what is in a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    Reads,
    Adds,
    /// It may change and remove what is there.
    Changes,
}

/// One tool: what it takes.
pub(super) trait Call: DeserializeOwned + JsonSchema + Send + 'static {
    const NAME: &'static str;
    const TITLE: &'static str;
    const DESCRIPTION: &'static str;
    const EFFECT: Effect;
    /// What it tells: as data, and as text for the model.
    type Told: Serialize + JsonSchema + fmt::Display + Send + 'static;

    fn call(
        self,
        server: Server,
        asked: Asked,
    ) -> impl Future<Output = Result<Self::Told, Failure>> + Send;
}

type Answer = Pin<Box<dyn Future<Output = Result<CallToolResult, Failure>> + Send>>;

/// A tool among others.
pub(super) struct Entry {
    pub(super) tool: Tool,
    pub(super) call: fn(Server, JsonObject, Asked) -> Answer,
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.tool.name)
    }
}

pub(super) fn entry<C: Call>() -> Entry {
    let read_only = C::EFFECT == Effect::Reads;
    let annotations = ToolAnnotations::from_raw(
        Some(C::TITLE.to_owned()),
        Some(read_only),
        Some(C::EFFECT == Effect::Changes),
        Some(read_only),
        // What programs inside reach is what the rules of the sandbox allow.
        Some(false),
    );
    let schema = schema_for_input::<C>().unwrap_or_else(|_| Arc::default());
    let tool = Tool::new(C::NAME, C::DESCRIPTION, plain(&schema))
        .with_title(C::TITLE)
        .with_raw_output_schema(plain(&schema_for_output::<C::Told>()))
        .with_annotations(annotations);
    Entry {
        tool,
        call: |server, arguments, asked| {
            Box::pin(async move {
                let arguments = Value::Object(arguments);
                let call: C = serde_path_to_error::deserialize(arguments).map_err(|error| {
                    let path = error.path().to_string();
                    Failure::new(
                        format!("{}: {}", C::NAME, wrong(&path, &error.inner().to_string())),
                        "Call it again as its input schema says.",
                    )
                })?;
                let told = call.call(server, asked).await?;
                let data = serde_json::to_value(&told)
                    .map_err(|error| Failure::new(format!("{}: {error}", C::NAME), AGAIN))?;
                let mut result =
                    CallToolResult::success(vec![ContentBlock::text(told.to_string())]);
                result.structured_content = Some(data);
                Ok(result)
            })
        },
    }
}

/// What is wrong with the argument at `path`, in the words of the schema.
fn wrong(path: &str, error: &str) -> String {
    let kinds = ["invalid type: ", "invalid value: "];
    let rest = kinds.iter().find_map(|kind| error.strip_prefix(kind));
    let Some((given, wanted)) = rest.and_then(|rest| rest.split_once(", expected ")) else {
        return error.to_owned();
    };
    let wanted = match wanted {
        "u64" | "u32" | "usize" => "a number, 0 or more",
        "a boolean" => "true or false",
        "a string" => "a text",
        "a sequence" => "a list",
        "a map" => "an object",
        other => other,
    };
    let given = given.strip_prefix("string ").unwrap_or(given);
    format!("`{path}` is to be {wanted}, and is {given}")
}

/// Without formats that no client knows, such as `uint64`: one that checks schemas warns its user of each. That such a number is
/// not below 0 stays in it.
fn plain(schema: &JsonObject) -> Arc<JsonObject> {
    let mut schema = schema.clone();
    forget_formats(&mut schema);
    Arc::new(schema)
}

fn forget_formats(schema: &mut JsonObject) {
    schema.retain(|key, value| {
        let format = value.as_str().filter(|_| key == "format");
        format.is_none_or(|format| !format.starts_with("uint"))
    });
    schema.values_mut().for_each(forget_formats_in);
}

fn forget_formats_in(value: &mut Value) {
    match value {
        Value::Object(schema) => forget_formats(schema),
        Value::Array(all) => all.iter_mut().for_each(forget_formats_in),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_with_an_argument_is_told_with_its_name() {
        for (error, told) in [
            (
                "invalid type: string \"2\", expected usize",
                "`a` is to be a number, 0 or more, and is \"2\"",
            ),
            (
                "invalid value: integer `-1`, expected u64",
                "`a` is to be a number, 0 or more, and is integer `-1`",
            ),
            (
                "invalid type: null, expected a string",
                "`a` is to be a text, and is null",
            ),
            ("missing field `sandbox`", "missing field `sandbox`"),
        ] {
            assert_eq!(wrong("a", error), told);
        }
    }
}
