//! Qwen Code: `qwen --output-format stream-json`, the prompt on standard input. Its program ends where its user has no
//! name, in `/etc/passwd` or elsewhere.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::sync::Arc;

use serde_json::Value;

use super::access::{self, Access};
use super::error::AgentError;
use super::event::{AgentEvent, Usage, UsageTold};
use super::json::{self, count, text};
use super::provider::{
    AgentCommand, AgentKind, AgentOptions, AgentProgram, AgentProvider, Npm, StreamParser,
};
use super::request::AgentRequest;
use super::sessions::{
    self, SessionError, SessionFile, SessionFiles, SessionLayout, SessionTarget, dashed, headed,
    wrong,
};

const NAME: &str = "qwen";
const PROGRAM: &str = "qwen";

const KEYS: &[&str] = &["OPENAI_API_KEY"];

const SESSIONS: SessionLayout = SessionLayout {
    below_home: ".qwen",
    moved_by: Some(("QWEN_HOME", "")),
    index: None,
    within: |directory| format!("projects/{}/chats", dashed(directory)),
    belongs: |path, id| match sessions::parts(path).as_deref() {
        Some(["projects", _, "chats", file]) => file.strip_suffix(".jsonl") == Some(id),
        _ => false,
    },
    identified: None,
    moved,
};

/// It takes no session whose first line is of another directory.
fn moved(
    files: Vec<SessionFile>,
    to: &SessionTarget<'_>,
) -> Result<Vec<SessionFile>, SessionError> {
    let files = files.into_iter().map(|file| {
        let parts = sessions::parts(&file.path);
        let Some(["projects", _, "chats", name]) = parts.as_deref() else {
            return Err(wrong(&file, "no record lies there"));
        };
        let path = format!("projects/{}/chats/{name}", dashed(to.directory));
        headed(&file, path, to.directory, |head| {
            text(head, "cwd").is_some()
        })
    });
    files.collect()
}

pub(super) const KIND: AgentKind = AgentKind {
    name: NAME,
    about: "Qwen Code (`qwen`)",
    install: "npm install --global --prefix ~/.local @qwen-code/qwen-code",
    npm: Some(Npm {
        package: "@qwen-code/qwen-code",
        node: Some(22),
    }),
    tried: true,
    not_needed: &[],
    build: |options| Ok(Arc::new(Qwen::new(options)?)),
};

/// Qwen Code.
#[derive(Debug, Clone)]
pub struct Qwen {
    options: AgentOptions,
}

impl Qwen {
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
            arguments.push("--yolo".into());
        }
        if let Some(model) = &self.options.model {
            arguments.extend(["--model".into(), model.into()]);
        }
        if let Some(id) = request.session(NAME)? {
            arguments.extend(["--resume".into(), id.into()]);
            if request.fork {
                arguments.push("--fork-session".into());
            }
        }
        arguments.extend(self.options.arguments.iter().cloned());
        Ok(arguments)
    }
}

impl AgentProvider for Qwen {
    fn name(&self) -> &str {
        NAME
    }

    fn options(&self) -> AgentOptions {
        self.options.clone()
    }

    fn environment(&self) -> &[&str] {
        &["OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL"]
    }

    fn program(&self) -> Option<AgentProgram<'_>> {
        Some(AgentProgram {
            name: OsStr::new(PROGRAM),
            directories: &[],
        })
    }

    fn access(&self, environment: &BTreeMap<OsString, OsString>, _logged_in: bool) -> Access {
        access::any_of(KEYS, environment)
    }

    fn usage_told(&self) -> Option<UsageTold> {
        Some(UsageTold::Tokens)
    }

    fn tells_its_end(&self) -> bool {
        true
    }

    fn command(&self, request: &AgentRequest) -> Result<AgentCommand, AgentError> {
        let prompt = request.prompt(NAME)?;
        Ok(AgentCommand {
            arguments: self.arguments(&["--output-format", "stream-json"], request)?,
            stdin: Some(prompt.as_bytes().to_vec()),
            environment: BTreeMap::new(),
        })
    }

    fn interactive(&self, request: &AgentRequest) -> Result<AgentCommand, AgentError> {
        let mut arguments = self.arguments(&[], request)?;
        if let Some(prompt) = request.argument(NAME)? {
            arguments.push(format!("--prompt-interactive={prompt}").into());
        }
        Ok(AgentCommand {
            arguments,
            stdin: None,
            environment: BTreeMap::new(),
        })
    }

    fn sessions(&self) -> Option<SessionFiles> {
        Some(SessionFiles::Layout(SESSIONS))
    }

    fn parser(&self, _request: &AgentRequest, _signals: &[String]) -> Box<dyn StreamParser> {
        Box::new(Parser::default())
    }
}

#[derive(Debug, Default)]
struct Parser {
    session: Option<String>,
    usage: Usage,
}

impl StreamParser for Parser {
    fn line(&mut self, line: &[u8], truncated: bool) -> Vec<AgentEvent> {
        let Some(value) = json::object(line, truncated) else {
            return json::raw(line);
        };
        let mut events = Vec::new();
        let kind = text(&value, "type");
        if let (Some("system" | "result"), Some(id)) = (kind, text(&value, "session_id"))
            && self.session.as_deref() != Some(id)
            && json::session_id(NAME, id).is_ok()
        {
            self.session = Some(id.to_owned());
            events.push(AgentEvent::Session { id: id.to_owned() });
        }
        match kind {
            Some("assistant") => self.assistant(&value, &mut events),
            Some("result") => result(&value, &mut events),
            _ => {}
        }
        if events.is_empty() {
            json::raw(line)
        } else {
            events
        }
    }

    fn end(&mut self) -> Vec<AgentEvent> {
        Vec::new()
    }
}

impl Parser {
    fn assistant(&mut self, value: &Value, events: &mut Vec<AgentEvent>) {
        let message = value.get("message").unwrap_or(&Value::Null);
        // What a subagent says goes to the agent, not to the user.
        let own = value.get("parent_tool_use_id").is_none_or(Value::is_null);
        let blocks = message.get("content").and_then(Value::as_array);
        for block in blocks.into_iter().flatten() {
            match text(block, "type") {
                Some("text") if own => {
                    let said = text(block, "text").filter(|said| !said.is_empty());
                    events.extend(said.map(|said| AgentEvent::Text {
                        text: said.trim_end_matches('\n').to_owned(),
                    }));
                }
                Some("tool_use") => events.push(AgentEvent::ToolCall {
                    name: json::bounded(text(block, "name").unwrap_or("tool")),
                    arguments: block.get("input").map(json::arguments).unwrap_or_default(),
                }),
                _ => {}
            }
        }
        // Of an answer that comes as several messages, the last one has the tokens.
        if let Some(usage) = message.get("usage").and_then(tokens)
            && usage != Usage::default()
        {
            self.usage += usage;
            events.push(AgentEvent::Usage { usage: self.usage });
        }
    }
}

fn tokens(value: &Value) -> Option<Usage> {
    // As OpenAI counts: what came from the cache is a part of the input.
    let cached = count(value, "cache_read_input_tokens");
    value.is_object().then(|| Usage {
        input_tokens: count(value, "input_tokens").saturating_sub(cached),
        cache_creation_tokens: 0,
        cache_read_tokens: cached,
        output_tokens: count(value, "output_tokens"),
        ..Usage::default()
    })
}

fn result(value: &Value, events: &mut Vec<AgentEvent>) {
    // Its tokens are left out: a resumed session tells the total of its whole life, not of this iteration.
    let subtype = text(value, "subtype").unwrap_or_default();
    let told = value.get("error").and_then(json::error_message);
    let message = text(value, "result").map(str::to_owned).or(told);
    let message = message.unwrap_or_else(|| subtype.to_owned());
    let said = value.get("is_error").and_then(Value::as_bool) == Some(true);
    // Some versions call it a success that the model could not be asked.
    let unasked = message.starts_with("[API Error: ") && message.ends_with(']');
    events.push(AgentEvent::Result {
        is_error: said || unasked || subtype != "success",
        text: message,
    });
}
