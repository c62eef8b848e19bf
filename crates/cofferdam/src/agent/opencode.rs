//! OpenCode: `opencode run --format json`, the prompt on standard input.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use super::access::{self, Access};
use super::error::AgentError;
use super::event::{AgentEvent, Usage, UsageTold};
use super::json::{self, count, text};
use super::provider::{
    AgentCommand, AgentKind, AgentOptions, AgentProgram, AgentProvider, Npm, StreamParser,
};
use super::request::AgentRequest;
use super::sessions::{SessionCommands, SessionFiles};

const NAME: &str = "opencode";
const PROGRAM: &str = "opencode";

/// What of the caller's environment lets it in, by the provider that stands before the `/` in a model's name.
const KEYS: &[(&str, &[&str])] = &[
    ("anthropic", &["ANTHROPIC_API_KEY"]),
    ("openai", &["OPENAI_API_KEY"]),
    ("openrouter", &["OPENROUTER_API_KEY"]),
    (
        "google",
        &["GOOGLE_GENERATIVE_AI_API_KEY", "GEMINI_API_KEY"],
    ),
    ("opencode", &["OPENCODE_API_KEY"]),
];
const ALL_KEYS: &[&str] = &[
    "ANTHROPIC_API_KEY",
    "OPENAI_API_KEY",
    "OPENROUTER_API_KEY",
    "GOOGLE_GENERATIVE_AI_API_KEY",
    "GEMINI_API_KEY",
    "OPENCODE_API_KEY",
];

const QUIET: &[(&str, &str)] = &[
    ("OPENCODE_DISABLE_AUTOUPDATE", "true"),
    ("OPENCODE_DISABLE_MODELS_FETCH", "true"),
];

pub(super) const KIND: AgentKind = AgentKind {
    name: NAME,
    about: "OpenCode (`opencode`)",
    install: "npm install --global --prefix ~/.local opencode-ai",
    npm: Some(Npm {
        package: "opencode-ai",
        node: None,
    }),
    tried: true,
    not_needed: &[],
    build: |options| Ok(Arc::new(OpenCode::new(options))),
};

/// OpenCode.
#[derive(Debug, Clone)]
pub struct OpenCode {
    options: AgentOptions,
}

impl OpenCode {
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
        if request.skip_permissions {
            arguments.push("--auto".into());
        }
        if let Some(model) = &self.options.model {
            arguments.extend(["--model".into(), model.into()]);
        }
        if let Some(id) = request.session(NAME)? {
            arguments.extend(["--session".into(), id.into()]);
            if request.fork {
                arguments.push("--fork".into());
            }
        }
        Ok(arguments)
    }
}

impl AgentProvider for OpenCode {
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
            directories: &[".opencode/bin"],
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
        let mut arguments = self.arguments(&["run", "--format", "json"], request)?;
        if let Some(effort) = &self.options.effort {
            arguments.extend(["--variant".into(), effort.into()]);
        }
        arguments.extend(self.options.arguments.iter().cloned());
        Ok(AgentCommand {
            arguments,
            stdin: Some(prompt.as_bytes().to_vec()),
            environment: request.unless_said(QUIET),
        })
    }

    fn interactive(&self, request: &AgentRequest) -> Result<AgentCommand, AgentError> {
        if self.options.effort.is_some() {
            return Err(AgentError::NoOption {
                agent: NAME,
                option: "effort in its terminal interface",
            });
        }
        let mut arguments = self.arguments(&[], request)?;
        arguments.extend(self.options.arguments.iter().cloned());
        if let Some(prompt) = request.argument(NAME)? {
            arguments.push(format!("--prompt={prompt}").into());
        }
        Ok(AgentCommand {
            arguments,
            stdin: None,
            environment: request.unless_said(QUIET),
        })
    }

    fn sessions(&self) -> Option<SessionFiles> {
        Some(SessionFiles::Commands(SessionCommands {
            export: |id| [PROGRAM, "export", id].map(OsString::from).to_vec(),
            import: |file| vec![PROGRAM.into(), "import".into(), file.into()],
            list: || {
                let words = [
                    PROGRAM,
                    "session",
                    "list",
                    "--max-count",
                    "100",
                    "--format",
                    "json",
                ];
                words.map(OsString::from).to_vec()
            },
            newest,
        }))
    }

    fn parser(&self, _request: &AgentRequest, _signals: &[String]) -> Box<dyn StreamParser> {
        Box::new(Parser::default())
    }
}

fn newest(printed: &[u8]) -> Option<(String, i64)> {
    /// What else there is of one is nobody's here.
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Listed {
        id: String,
        /// In milliseconds.
        updated: i64,
    }
    let sessions: Vec<Listed> = serde_json::from_slice(printed).ok()?;
    let fine = |one: &Listed| json::session_id(NAME, &one.id).is_ok();
    let newest = sessions.into_iter().filter(fine);
    let newest = newest.max_by_key(|one| one.updated)?;
    Some((newest.id, newest.updated / 1000))
}

#[derive(Debug, Default)]
struct Parser {
    session: Option<String>,
    /// The last words of this step; they are final when the step is the last.
    message: Option<String>,
    /// The last error, which is final only if no step ends after it.
    error: Option<String>,
    usage: Usage,
}

impl StreamParser for Parser {
    fn line(&mut self, line: &[u8], truncated: bool) -> Vec<AgentEvent> {
        let Some(value) = json::object(line, truncated) else {
            return json::raw(line);
        };
        let mut events = Vec::new();
        if let Some(id) = text(&value, "sessionID")
            && self.session.is_none()
            && json::session_id(NAME, id).is_ok()
        {
            self.session = Some(id.to_owned());
            events.push(AgentEvent::Session { id: id.to_owned() });
        }
        let part = value.get("part").unwrap_or(&Value::Null);
        match text(&value, "type") {
            Some("step_start") => self.message = None,
            Some("text") => {
                if let Some(said) = text(part, "text").filter(|said| !said.is_empty()) {
                    self.message = Some(said.to_owned());
                    let text = said.trim_end_matches('\n').to_owned();
                    events.push(AgentEvent::Text { text });
                }
            }
            Some("tool_use") => {
                let input = part.pointer("/state/input");
                events.push(AgentEvent::ToolCall {
                    name: json::bounded(text(part, "tool").unwrap_or("tool")),
                    arguments: input.map(json::arguments).unwrap_or_default(),
                });
            }
            Some("step_finish") => self.finished(part, &mut events),
            Some("error") => {
                let error = value.get("error").unwrap_or(&Value::Null);
                let told = json::error_message(error);
                let told = told.unwrap_or_else(|| "an error without a message".to_owned());
                // The message is the service's alone, and may say anything.
                let status = error.pointer("/data/statusCode").and_then(Value::as_u64);
                self.error = Some(match status {
                    Some(status) => format!("API error {status}: {told}"),
                    None => told,
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

    fn end(&mut self) -> Vec<AgentEvent> {
        json::failure(self.error.take())
    }
}

impl Parser {
    fn finished(&mut self, part: &Value, events: &mut Vec<AgentEvent>) {
        if let Some(tokens) = part.get("tokens").filter(|tokens| tokens.is_object()) {
            let cache = tokens.get("cache").unwrap_or(&Value::Null);
            self.usage += Usage {
                input_tokens: count(tokens, "input"),
                cache_creation_tokens: count(cache, "write"),
                cache_read_tokens: count(cache, "read"),
                output_tokens: count(tokens, "output").saturating_add(count(tokens, "reasoning")),
                cost_micro_usd: json::micro_usd(part.get("cost")),
            };
            events.push(AgentEvent::Usage { usage: self.usage });
        }
        match text(part, "reason") {
            None | Some("tool-calls") => self.error = None,
            Some(reason @ ("length" | "content-filter" | "error")) => {
                self.error = Some(format!("the model stopped: {reason}"));
            }
            // Providers without a word for it say that it is unknown.
            Some(_) => {
                self.error = None;
                let (text, is_error) = (self.message.take().unwrap_or_default(), false);
                events.push(AgentEvent::Result { text, is_error });
            }
        }
    }
}
