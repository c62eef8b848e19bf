//! Cursor's command line: `cursor-agent --print --output-format stream-json`, the prompt on standard input.
//!
//! **Not tried with the real program**: no registry of packages has it (what npm has under the name `cursor-agent` is
//! somebody else's), so this follows its documentation, <https://cursor.com/docs/cli/reference/output-format> and
//! <https://cursor.com/docs/cli/reference/parameters>, and its tests read what is written there. Where it keeps its
//! sessions is not known here.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::sync::Arc;

use serde_json::Value;

use super::access::{self, Access};
use super::error::AgentError;
use super::event::{AgentEvent, UsageTold};
use super::json::{self, text};
use super::provider::{
    AgentCommand, AgentKind, AgentOptions, AgentProgram, AgentProvider, StreamParser,
};
use super::request::AgentRequest;

const NAME: &str = "cursor";
const PROGRAM: &str = "cursor-agent";

const KEYS: &[&str] = &["CURSOR_API_KEY"];

pub(super) const KIND: AgentKind = AgentKind {
    name: NAME,
    about: "Cursor's command line (`cursor-agent`), by its documentation alone: not tried with the program itself",
    install: "curl https://cursor.com/install -fsS | bash",
    npm: None,
    tried: false,
    not_needed: &[],
    build: |options| Ok(Arc::new(Cursor::new(options)?)),
};

/// Cursor's command line; see the module.
#[derive(Debug, Clone)]
pub struct Cursor {
    options: AgentOptions,
}

impl Cursor {
    /// An error where an effort is asked for: its program takes none.
    pub fn new(options: AgentOptions) -> Result<Self, AgentError> {
        options.without_effort(NAME)?;
        Ok(Self { options })
    }

    fn arguments(
        &self,
        first: &[&str],
        request: &AgentRequest,
    ) -> Result<Vec<OsString>, AgentError> {
        let mut arguments: Vec<OsString> = vec![PROGRAM.into()];
        arguments.extend(first.iter().map(OsString::from));
        if request.skip_permissions {
            arguments.push("--force".into());
        }
        if let Some(model) = &self.options.model {
            arguments.extend(["--model".into(), model.into()]);
        }
        if let Some(id) = request.session_itself(NAME)? {
            arguments.extend(["--resume".into(), id.into()]);
        }
        arguments.extend(self.options.arguments.iter().cloned());
        Ok(arguments)
    }
}

impl AgentProvider for Cursor {
    fn name(&self) -> &str {
        NAME
    }

    fn options(&self) -> AgentOptions {
        self.options.clone()
    }

    fn environment(&self) -> &[&str] {
        KEYS
    }

    fn program(&self) -> Option<AgentProgram<'_>> {
        Some(AgentProgram {
            name: OsStr::new(PROGRAM),
            directories: &[".local/share/cursor-agent/versions"],
        })
    }

    fn access(&self, environment: &BTreeMap<OsString, OsString>, _logged_in: bool) -> Access {
        access::any_of(KEYS, environment)
    }

    fn usage_told(&self) -> Option<UsageTold> {
        Some(UsageTold::Nothing)
    }

    fn tells_its_end(&self) -> bool {
        true
    }

    fn command(&self, request: &AgentRequest) -> Result<AgentCommand, AgentError> {
        let prompt = request.prompt(NAME)?;
        let mut print = vec!["--print", "--output-format", "stream-json"];
        if request.skip_permissions {
            // Without a terminal nobody can answer whether it may trust the directory.
            print.push("--trust");
        }
        Ok(AgentCommand {
            arguments: self.arguments(&print, request)?,
            stdin: Some(prompt.as_bytes().to_vec()),
            environment: BTreeMap::new(),
        })
    }

    fn interactive(&self, request: &AgentRequest) -> Result<AgentCommand, AgentError> {
        let mut arguments = self.arguments(&[], request)?;
        if let Some(prompt) = request.argument(NAME)? {
            arguments.extend(["--".into(), prompt.into()]);
        }
        Ok(AgentCommand {
            arguments,
            stdin: None,
            environment: BTreeMap::new(),
        })
    }

    fn parser(&self, _request: &AgentRequest, _signals: &[String]) -> Box<dyn StreamParser> {
        Box::new(Parser::default())
    }
}

#[derive(Debug, Default)]
struct Parser {
    session: Option<String>,
}

impl StreamParser for Parser {
    fn line(&mut self, line: &[u8], truncated: bool) -> Vec<AgentEvent> {
        let Some(value) = json::object(line, truncated) else {
            return json::raw(line);
        };
        let mut events = Vec::new();
        let kind = (text(&value, "type"), text(&value, "subtype"));
        if let (Some("system" | "result"), _) = kind
            && let Some(id) = text(&value, "session_id")
            && self.session.as_deref() != Some(id)
            && json::session_id(NAME, id).is_ok()
        {
            self.session = Some(id.to_owned());
            events.push(AgentEvent::Session { id: id.to_owned() });
        }
        match kind {
            (Some("assistant"), _) => {
                let blocks = value.pointer("/message/content").and_then(Value::as_array);
                let said = blocks
                    .into_iter()
                    .flatten()
                    .filter_map(|block| text(block, "text"));
                let said = said.filter(|said| !said.is_empty());
                events.extend(said.map(|said| AgentEvent::Text {
                    text: said.trim_end_matches('\n').to_owned(),
                }));
            }
            (Some("tool_call"), Some("started")) => {
                events.extend(value.get("tool_call").and_then(call));
            }
            (Some("result"), subtype) => {
                let told = value.get("is_error").and_then(Value::as_bool);
                let told_why = value.get("error").and_then(json::error_message);
                let message = text(&value, "result").map(str::to_owned).or(told_why);
                let subtype = subtype.unwrap_or_default();
                events.push(AgentEvent::Result {
                    text: message.unwrap_or_else(|| subtype.to_owned()),
                    is_error: told != Some(false) || subtype != "success",
                });
            }
            _ => {}
        }
        if events.is_empty() {
            json::raw(line)
        } else {
            events
        }
    }

    /// A failure leaves no verdict in the stream, only an exit code and words on standard error.
    fn end(&mut self) -> Vec<AgentEvent> {
        Vec::new()
    }
}

/// `{"readToolCall": {"args": {…}}}`, or `{"function": {"name": …, "arguments": …}}` for the others.
fn call(told: &Value) -> Option<AgentEvent> {
    let (kind, about) = told.as_object()?.iter().next()?;
    let (name, input) = match kind.strip_suffix("ToolCall") {
        Some(name) => (name, about.get("args")),
        None => (text(about, "name").unwrap_or(kind), about.get("arguments")),
    };
    Some(AgentEvent::ToolCall {
        name: json::bounded(name),
        arguments: input.map(json::arguments).unwrap_or_default(),
    })
}
