//! Google's Gemini CLI: `gemini --output-format stream-json`, the prompt on standard input.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::access::{self, Access};
use super::error::AgentError;
use super::event::{AgentEvent, Usage, UsageTold};
use super::json::{self, count, text};
use super::provider::{
    AgentCommand, AgentKind, AgentOptions, AgentProgram, AgentProvider, BaseUrl, Npm, StreamParser,
};
use super::request::AgentRequest;
use super::sessions::{
    self, SessionError, SessionFile, SessionFiles, SessionLayout, SessionTarget, wrong,
};

const NAME: &str = "gemini";
const PROGRAM: &str = "gemini";

const KEYS: &[&str] = &["GEMINI_API_KEY", "GOOGLE_API_KEY"];
const ADDRESS: &str = "GOOGLE_GEMINI_BASE_URL";

/// It would start itself a second time, and a signal to the first would not reach that.
const QUIET: &[(&str, &str)] = &[("GEMINI_CLI_NO_RELAUNCH", "true")];

/// So many bytes of words that come in pieces are kept, from their end.
pub(super) const WORDS: usize = 64 << 10;

const INDEX: &str = "projects.json";
const SESSIONS: SessionLayout = SessionLayout {
    below_home: ".gemini",
    moved_by: Some(("GEMINI_CLI_HOME", ".gemini")),
    index: Some(INDEX),
    // Its directory has a name that the index gives to it.
    within: |_| "tmp".to_owned(),
    belongs: |path, id| match sessions::parts(path).as_deref() {
        Some(["tmp", _, "chats", file]) => {
            let record = file.strip_prefix("session-");
            let record = record.and_then(|record| record.strip_suffix(".jsonl"));
            let short = id.get(..8).unwrap_or(id);
            let time = record.and_then(|record| record.strip_suffix(short));
            time.is_some_and(|time| time.ends_with('-'))
        }
        // Of its subagents.
        Some(["tmp", _, "chats", session, _]) => *session == id,
        _ => false,
    },
    identified: Some(|beginning| {
        let first = beginning.split(|&byte| byte == b'\n').next()?;
        let id = text(&json::object(first, false)?, "sessionId")?.to_owned();
        json::session_id(NAME, &id).is_ok().then_some(id)
    }),
    moved,
};

/// It finds a session by the name that it has given to a directory, so both files that say it come along.
fn moved(
    files: Vec<SessionFile>,
    to: &SessionTarget<'_>,
) -> Result<Vec<SessionFile>, SessionError> {
    let mut index = to
        .index
        .and_then(|bytes| json::object(bytes, false))
        .unwrap_or_else(|| json!({}));
    if !index["projects"].is_object() {
        index["projects"] = Value::Object(Map::new());
    }
    let name = match text(&index["projects"], to.directory) {
        // It came out of a sandbox and becomes a part of a path.
        Some(name) if sessions::parts(name).is_some_and(|parts| parts.len() == 1) => {
            name.to_owned()
        }
        _ => free(&index["projects"], to.directory),
    };
    index["projects"][to.directory] = name.as_str().into();
    let mut files = sessions::renamed(files, |parts| match parts {
        ["tmp", _, "chats", rest @ ..] if !rest.is_empty() => {
            Some(format!("tmp/{name}/chats/{}", rest.join("/")))
        }
        _ => None,
    })?;
    if let Some(file) = files.iter().find(|file| file.bytes.is_empty()) {
        return Err(wrong(file, "it is empty"));
    }
    files.extend([
        SessionFile {
            path: format!("tmp/{name}/.project_root"),
            bytes: to.directory.as_bytes().to_vec(),
        },
        SessionFile {
            path: INDEX.to_owned(),
            bytes: index.to_string().into_bytes(),
        },
    ]);
    Ok(files)
}

/// A name for this directory as it makes one, which no other has.
fn free(projects: &Value, directory: &str) -> String {
    let last = directory.rsplit('/').next().unwrap_or_default();
    let parts = last.to_lowercase();
    let parts = parts.split(|c: char| !c.is_ascii_lowercase() && !c.is_ascii_digit());
    let parts: Vec<&str> = parts.filter(|part| !part.is_empty()).collect();
    let name = match parts.join("-") {
        empty if empty.is_empty() => "project".to_owned(),
        name => name,
    };
    let taken = |name: &str| {
        let mut names = projects.as_object().into_iter().flat_map(Map::values);
        names.any(|taken| taken == name)
    };
    let numbered = (1u32..).map(|number| format!("{name}-{number}"));
    let mut names = std::iter::once(name.clone()).chain(numbered);
    names.find(|name| !taken(name)).unwrap_or(name)
}

pub(super) const KIND: AgentKind = AgentKind {
    name: NAME,
    about: "Google's Gemini CLI (`gemini`)",
    install: "npm install --global --prefix ~/.local @google/gemini-cli",
    npm: Some(Npm {
        package: "@google/gemini-cli",
        node: Some(20),
    }),
    tried: true,
    not_needed: &["play.googleapis.com"],
    build: |options| Ok(Arc::new(Gemini::new(options)?)),
};

/// Google's Gemini CLI.
#[derive(Debug, Clone)]
pub struct Gemini {
    options: AgentOptions,
}

impl Gemini {
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
            // In a directory that it does not trust it asks in spite of the first.
            arguments.extend(["--yolo", "--skip-trust"].map(OsString::from));
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

impl AgentProvider for Gemini {
    fn name(&self) -> &str {
        NAME
    }

    fn options(&self) -> AgentOptions {
        self.options.clone()
    }

    fn environment(&self) -> &[&str] {
        &[
            "GEMINI_API_KEY",
            "GOOGLE_API_KEY",
            "GOOGLE_GEMINI_BASE_URL",
            "GEMINI_MODEL",
        ]
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

    fn base_url(&self, _logged_in: bool) -> Option<BaseUrl> {
        Some(BaseUrl {
            variable: ADDRESS,
            usual: "https://generativelanguage.googleapis.com",
        })
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
            environment: request.unless_said(QUIET),
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
    /// What it said since its last call of a tool, in pieces.
    words: String,
    /// The same, once it is whole.
    message: Option<String>,
    /// The last error, unless there is a verdict.
    error: Option<String>,
}

impl StreamParser for Parser {
    fn line(&mut self, line: &[u8], truncated: bool) -> Vec<AgentEvent> {
        let Some(value) = json::object(line, truncated) else {
            return json::raw(line);
        };
        let kind = text(&value, "type");
        if kind == Some("message") && text(&value, "role") == Some("assistant") {
            self.add(text(&value, "content").unwrap_or_default());
            return json::raw(line);
        }
        let mut events = self.whole();
        let before = events.len();
        match kind {
            Some("init") => {
                let id = text(&value, "session_id");
                let id = id.filter(|id| json::session_id(NAME, id).is_ok());
                events.extend(id.map(|id| AgentEvent::Session { id: id.to_owned() }));
            }
            Some("tool_use") => {
                self.message = None;
                let input = value.get("parameters");
                events.push(AgentEvent::ToolCall {
                    name: json::bounded(text(&value, "tool_name").unwrap_or("tool")),
                    arguments: input.map(json::arguments).unwrap_or_default(),
                });
            }
            Some("error") if text(&value, "severity") != Some("warning") => {
                self.error = json::error_message(&value);
            }
            Some("result") => self.result(&value, &mut events),
            _ => {}
        }
        if events.len() == before {
            events.extend(json::raw(line));
        }
        events
    }

    fn end(&mut self) -> Vec<AgentEvent> {
        let mut events = self.whole();
        events.extend(json::failure(self.error.take()));
        events
    }
}

impl Parser {
    fn add(&mut self, piece: &str) {
        self.words.push_str(piece);
        if self.words.len() > WORDS {
            let from = self.words.len() - WORDS;
            let mut ends = from..self.words.len();
            let from = ends.find(|&at| self.words.is_char_boundary(at));
            self.words.drain(..from.unwrap_or(self.words.len()));
        }
    }

    fn whole(&mut self) -> Vec<AgentEvent> {
        let words = std::mem::take(&mut self.words);
        if words.is_empty() {
            return Vec::new();
        }
        let text = words.trim_end_matches('\n').to_owned();
        self.message = Some(words);
        vec![AgentEvent::Text { text }]
    }

    fn result(&mut self, value: &Value, events: &mut Vec<AgentEvent>) {
        if let Some(stats) = value.get("stats").filter(|stats| stats.is_object()) {
            let cached = count(stats, "cached");
            events.push(AgentEvent::Usage {
                usage: Usage {
                    input_tokens: count(stats, "input_tokens").saturating_sub(cached),
                    cache_creation_tokens: 0,
                    cache_read_tokens: cached,
                    output_tokens: count(stats, "output_tokens"),
                    ..Usage::default()
                },
            });
        }
        let said = self.error.take();
        if text(value, "status") == Some("success") {
            let (text, is_error) = (self.message.take().unwrap_or_default(), false);
            events.push(AgentEvent::Result { text, is_error });
            return;
        }
        let told = value.get("error").and_then(json::error_message);
        let told = told.map(|told| unwrapped(&told)).or(said);
        let told = told.unwrap_or_else(|| "it ended without success".to_owned());
        events.extend(json::failure(Some(told)));
    }
}

/// `[API Error: …]` around what the service said.
fn unwrapped(told: &str) -> String {
    let inner = told.strip_prefix("[API Error: ");
    let inner = inner.and_then(|inner| inner.strip_suffix(']'));
    let inner = inner.and_then(|inner| json::error_message(&Value::from(inner)));
    inner.unwrap_or_else(|| told.to_owned())
}
