//! Pi: `pi --print --mode json`, the prompt on standard input. It has no permission prompts, so there are none to skip.

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
    self, SessionError, SessionFile, SessionFiles, SessionLayout, SessionTarget, headed, wrong,
};

const NAME: &str = "pi";
const PROGRAM: &str = "pi";

/// What of the caller's environment lets it in, by the provider that stands before the `/` in a model's name.
const KEYS: &[(&str, &[&str])] = &[
    ("anthropic", &["ANTHROPIC_API_KEY", "ANTHROPIC_OAUTH_TOKEN"]),
    ("openai", &["OPENAI_API_KEY"]),
    ("openrouter", &["OPENROUTER_API_KEY"]),
    ("google", &["GEMINI_API_KEY"]),
];
const ALL_KEYS: &[&str] = &[
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_OAUTH_TOKEN",
    "OPENAI_API_KEY",
    "OPENROUTER_API_KEY",
    "GEMINI_API_KEY",
];

/// No look at its own versions at every start.
const QUIET: &[(&str, &str)] = &[("PI_OFFLINE", "1")];

const SESSIONS: SessionLayout = SessionLayout {
    below_home: ".pi/agent",
    moved_by: Some(("PI_CODING_AGENT_DIR", "")),
    index: None,
    within: |directory| format!("sessions/{}", named(directory)),
    belongs: |path, id| match sessions::parts(path).as_deref() {
        Some(["sessions", _, file]) => {
            let record = file.strip_suffix(".jsonl");
            let time = record.and_then(|record| record.strip_suffix(id));
            time.is_some_and(|time| time.ends_with('_'))
        }
        _ => false,
    },
    identified: None,
    moved,
};

/// A path as Pi names a directory after it.
fn named(directory: &str) -> String {
    let path = directory.strip_prefix('/').unwrap_or(directory);
    format!("--{}--", path.replace(['/', '\\', ':'], "-"))
}

/// It works where the first line of a record says, whatever directory it was started in.
fn moved(
    files: Vec<SessionFile>,
    to: &SessionTarget<'_>,
) -> Result<Vec<SessionFile>, SessionError> {
    let files = files.into_iter().map(|file| {
        let parts = sessions::parts(&file.path);
        let Some(["sessions", _, name]) = parts.as_deref() else {
            return Err(wrong(&file, "no record lies there"));
        };
        let path = format!("sessions/{}/{name}", named(to.directory));
        headed(&file, path, to.directory, |head| {
            text(head, "type") == Some("session")
        })
    });
    files.collect()
}

pub(super) const KIND: AgentKind = AgentKind {
    name: NAME,
    about: "Pi (`pi`)",
    install: "npm install --global --prefix ~/.local @earendil-works/pi-coding-agent",
    npm: Some(Npm {
        package: "@earendil-works/pi-coding-agent",
        node: Some(22),
    }),
    tried: true,
    not_needed: &[],
    build: |options| Ok(Arc::new(Pi::new(options))),
};

/// Pi.
#[derive(Debug, Clone)]
pub struct Pi {
    options: AgentOptions,
}

impl Pi {
    /// The agent with these options; nothing is started or looked for.
    pub fn new(options: AgentOptions) -> Self {
        Self { options }
    }

    fn keys(&self) -> &'static [&'static str] {
        access::keys_of(self.options.model.as_deref(), KEYS).unwrap_or(ALL_KEYS)
    }

    fn arguments(
        &self,
        first: &[&str],
        request: &AgentRequest,
    ) -> Result<Vec<OsString>, AgentError> {
        let mut arguments: Vec<OsString> = vec![PROGRAM.into()];
        arguments.extend(first.iter().map(OsString::from));
        if let Some(model) = &self.options.model {
            arguments.extend(["--model".into(), model.into()]);
        }
        if let Some(effort) = &self.options.effort {
            arguments.extend(["--thinking".into(), effort.into()]);
        }
        if let Some(id) = request.session(NAME)? {
            let how = if request.fork { "--fork" } else { "--session" };
            arguments.extend([how.into(), id.into()]);
        }
        arguments.extend(self.options.arguments.iter().cloned());
        Ok(arguments)
    }
}

impl AgentProvider for Pi {
    fn name(&self) -> &str {
        NAME
    }

    fn options(&self) -> AgentOptions {
        self.options.clone()
    }

    fn environment(&self) -> &[&str] {
        self.keys()
    }

    fn program(&self) -> Option<AgentProgram<'_>> {
        Some(AgentProgram {
            name: OsStr::new(PROGRAM),
            directories: &[],
        })
    }

    fn access(&self, environment: &BTreeMap<OsString, OsString>, _logged_in: bool) -> Access {
        access::any_of(self.keys(), environment)
    }

    fn usage_told(&self) -> Option<UsageTold> {
        Some(UsageTold::Cost)
    }

    fn tells_its_end(&self) -> bool {
        true
    }

    fn command(&self, request: &AgentRequest) -> Result<AgentCommand, AgentError> {
        let prompt = request.prompt(NAME)?;
        Ok(AgentCommand {
            arguments: self.arguments(&["--print", "--mode", "json"], request)?,
            stdin: Some(prompt.as_bytes().to_vec()),
            environment: request.unless_said(QUIET),
        })
    }

    fn interactive(&self, request: &AgentRequest) -> Result<AgentCommand, AgentError> {
        let mut arguments = self.arguments(&[], request)?;
        if let Some(prompt) = request.argument(NAME)? {
            // It knows no `--`: without the space these would be an option and a file.
            let space = if prompt.starts_with(['-', '@']) {
                " "
            } else {
                ""
            };
            arguments.push(format!("{space}{prompt}").into());
        }
        Ok(AgentCommand {
            arguments,
            stdin: None,
            environment: request.unless_said(QUIET),
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
    usage: Usage,
    /// The last error, which is final only if no message ends after it: it tries again.
    error: Option<String>,
}

impl StreamParser for Parser {
    fn line(&mut self, line: &[u8], truncated: bool) -> Vec<AgentEvent> {
        let Some(value) = json::object(line, truncated) else {
            return json::raw(line);
        };
        let mut events = Vec::new();
        match text(&value, "type") {
            Some("session") => {
                let id = text(&value, "id").filter(|id| json::session_id(NAME, id).is_ok());
                events.extend(id.map(|id| AgentEvent::Session { id: id.to_owned() }));
            }
            Some("message_end") => {
                let message = value.get("message").unwrap_or(&Value::Null);
                if text(message, "role") == Some("assistant") {
                    self.message(message, &mut events);
                }
            }
            Some("tool_execution_start") => events.push(AgentEvent::ToolCall {
                name: json::bounded(text(&value, "toolName").unwrap_or("tool")),
                arguments: value.get("args").map(json::arguments).unwrap_or_default(),
            }),
            _ => {}
        }
        if events.is_empty() {
            json::raw(line)
        } else {
            events
        }
    }

    /// Its exit code is 0 whatever the model answered.
    fn end(&mut self) -> Vec<AgentEvent> {
        json::failure(self.error.take())
    }
}

impl Parser {
    fn message(&mut self, message: &Value, events: &mut Vec<AgentEvent>) {
        let blocks = message.get("content").and_then(Value::as_array);
        let words = blocks.into_iter().flatten().filter_map(|block| {
            let words = text(block, "text").filter(|words| !words.is_empty());
            words.filter(|_| text(block, "type") == Some("text"))
        });
        let words: Vec<&str> = words.collect();
        events.extend(words.iter().map(|words| AgentEvent::Text {
            text: words.trim_end_matches('\n').to_owned(),
        }));
        if let Some(usage) = message.get("usage").filter(|usage| usage.is_object()) {
            self.usage += Usage {
                input_tokens: count(usage, "input"),
                cache_creation_tokens: count(usage, "cacheWrite"),
                cache_read_tokens: count(usage, "cacheRead"),
                output_tokens: count(usage, "output"),
                cost_micro_usd: json::micro_usd(usage.pointer("/cost/total")),
            };
            events.push(AgentEvent::Usage { usage: self.usage });
        }
        self.error = match text(message, "stopReason") {
            Some("stop") => {
                events.push(AgentEvent::Result {
                    text: words.join("\n"),
                    is_error: false,
                });
                None
            }
            None | Some("toolUse") => None,
            Some(reason) => {
                let told = message.get("errorMessage").and_then(json::error_message);
                Some(told.unwrap_or_else(|| format!("the model stopped: {reason}")))
            }
        };
    }
}
