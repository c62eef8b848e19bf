//! GitHub's Copilot: `copilot --output-format json`, the prompt on standard input.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::sync::Arc;

use serde_json::Value;

use super::access::{self, Access};
use super::error::AgentError;
use super::event::{AgentEvent, UsageTold};
use super::json::{self, text};
use super::provider::{
    AgentCommand, AgentKind, AgentOptions, AgentProgram, AgentProvider, BaseUrl, Npm, StreamParser,
};
use super::request::AgentRequest;
use super::sessions::{
    self, SessionError, SessionFile, SessionFiles, SessionLayout, SessionTarget, wrong,
};

const NAME: &str = "copilot";
const PROGRAM: &str = "copilot";

/// A token of its own, or a provider of the user's. `GH_TOKEN` and `GITHUB_TOKEN`, which it would take too, may do
/// far more than ask a model: who wants it to have one says so.
const KEYS: &[&str] = &[
    "COPILOT_GITHUB_TOKEN",
    "COPILOT_PROVIDER_API_KEY",
    "COPILOT_PROVIDER_BEARER_TOKEN",
    PROVIDER,
];
const PROVIDER: &str = "COPILOT_PROVIDER_BASE_URL";

const SESSIONS: SessionLayout = SessionLayout {
    below_home: ".copilot",
    moved_by: Some(("COPILOT_HOME", "")),
    index: None,
    within: |_| "session-state".to_owned(),
    belongs: |path, id| match sessions::parts(path).as_deref() {
        Some(["session-state", session, rest @ ..]) => {
            *session == id
                && rest
                    .last()
                    .is_some_and(|file| file.strip_suffix(".lock").is_none())
        }
        _ => false,
    },
    identified: None,
    moved,
};

/// It works where this file says, as long as that directory exists.
fn moved(
    files: Vec<SessionFile>,
    to: &SessionTarget<'_>,
) -> Result<Vec<SessionFile>, SessionError> {
    let files = files.into_iter().map(|file| {
        let parts = sessions::parts(&file.path).unwrap_or_default();
        if !matches!(parts[..], ["session-state", _, _, ..]) {
            return Err(wrong(&file, "no record lies there"));
        }
        if !matches!(parts[..], [_, _, "workspace.yaml"]) {
            return Ok(file);
        }
        let Ok(yaml) = std::str::from_utf8(&file.bytes) else {
            return Err(wrong(&file, "it is no text"));
        };
        // JSON's strings are YAML's, and only whole lines of the outermost level are its directories.
        let directory = Value::from(to.directory);
        let lines = yaml.split_inclusive('\n').map(|line| {
            let place = ["cwd: ", "git_root: "]
                .into_iter()
                .find(|key| line.starts_with(key));
            place.map_or_else(|| line.to_owned(), |key| format!("{key}{directory}\n"))
        });
        let bytes = lines.collect::<String>().into_bytes();
        Ok(SessionFile { bytes, ..file })
    });
    files.collect()
}

pub(super) const KIND: AgentKind = AgentKind {
    name: NAME,
    about: "GitHub's Copilot (`copilot`)",
    install: "npm install --global --prefix ~/.local @github/copilot",
    npm: Some(Npm {
        package: "@github/copilot",
        node: None,
    }),
    tried: true,
    not_needed: &[],
    build: |options| Ok(Arc::new(Copilot::new(options))),
};

/// GitHub's Copilot.
#[derive(Debug, Clone)]
pub struct Copilot {
    options: AgentOptions,
}

impl Copilot {
    /// The agent with these options; nothing is started or looked for.
    pub fn new(options: AgentOptions) -> Self {
        Self { options }
    }

    fn arguments(
        &self,
        first: &[&str],
        request: &AgentRequest,
    ) -> Result<Vec<OsString>, AgentError> {
        let mut arguments: Vec<OsString> = vec![PROGRAM.into()];
        arguments.extend(first.iter().map(OsString::from));
        arguments.push("--no-auto-update".into());
        if request.skip_permissions {
            arguments.push("--allow-all".into());
        }
        if let Some(model) = &self.options.model {
            arguments.extend(["--model".into(), model.into()]);
        }
        if let Some(effort) = &self.options.effort {
            arguments.extend(["--reasoning-effort".into(), effort.into()]);
        }
        if let Some(id) = request.session_itself(NAME)? {
            arguments.push(format!("--resume={id}").into());
        }
        arguments.extend(self.options.arguments.iter().cloned());
        Ok(arguments)
    }
}

/// With a provider of the user's it needs nothing of GitHub's.
fn quiet(request: &AgentRequest) -> Vec<(&'static str, &'static str)> {
    let offline = request.set(PROVIDER).map(|_| ("COPILOT_OFFLINE", "true"));
    offline.into_iter().collect()
}

impl AgentProvider for Copilot {
    fn name(&self) -> &str {
        NAME
    }

    fn options(&self) -> AgentOptions {
        self.options.clone()
    }

    fn environment(&self) -> &[&str] {
        &[
            "COPILOT_GITHUB_TOKEN",
            "COPILOT_MODEL",
            "COPILOT_PROVIDER_API_KEY",
            "COPILOT_PROVIDER_BASE_URL",
            "COPILOT_PROVIDER_BEARER_TOKEN",
            "COPILOT_PROVIDER_TYPE",
            "COPILOT_PROVIDER_WIRE_API",
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
            variable: PROVIDER,
            // Where it asks for leave to ask the model.
            usual: "https://api.github.com",
        })
    }

    fn usage_told(&self) -> Option<UsageTold> {
        Some(UsageTold::Nothing)
    }

    fn tells_its_end(&self) -> bool {
        true
    }

    fn command(&self, request: &AgentRequest) -> Result<AgentCommand, AgentError> {
        let prompt = request.prompt(NAME)?;
        let print = ["--output-format", "json", "--no-ask-user"];
        Ok(AgentCommand {
            arguments: self.arguments(&print, request)?,
            stdin: Some(prompt.as_bytes().to_vec()),
            environment: request.unless_said(&quiet(request)),
        })
    }

    fn interactive(&self, request: &AgentRequest) -> Result<AgentCommand, AgentError> {
        let mut arguments = self.arguments(&[], request)?;
        if let Some(prompt) = request.argument(NAME)? {
            arguments.push(format!("--interactive={prompt}").into());
        }
        let mut said = quiet(request);
        if request.skip_permissions {
            // The option alone still asks whether it may trust the directory; only this word does not.
            said.push(("COPILOT_ALLOW_ALL", "true"));
        }
        Ok(AgentCommand {
            arguments,
            stdin: None,
            environment: request.unless_said(&said),
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
    /// The last words that came without a call of a tool.
    message: Option<String>,
    /// The last error, unless the model spoke after it.
    error: Option<String>,
}

impl StreamParser for Parser {
    fn line(&mut self, line: &[u8], truncated: bool) -> Vec<AgentEvent> {
        let Some(value) = json::object(line, truncated) else {
            return json::raw(line);
        };
        let mut events = Vec::new();
        let about = value.get("data").unwrap_or(&Value::Null);
        match text(&value, "type") {
            Some("assistant.message") => self.message(about, &mut events),
            Some("tool.execution_start") => events.push(AgentEvent::ToolCall {
                name: json::bounded(text(about, "toolName").unwrap_or("tool")),
                arguments: about
                    .get("arguments")
                    .map(json::arguments)
                    .unwrap_or_default(),
            }),
            Some("session.error") => {
                let told = json::error_message(about);
                self.error = Some(told.unwrap_or_else(|| "an error without a message".to_owned()));
            }
            Some("result") => self.result(&value, &mut events),
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
    fn message(&mut self, about: &Value, events: &mut Vec<AgentEvent>) {
        // What a subagent says goes to the agent, not to the user.
        if about
            .get("parentToolCallId")
            .is_some_and(|id| !id.is_null())
        {
            return;
        }
        let said = text(about, "content").filter(|said| !said.is_empty());
        let calls = about.get("toolRequests").and_then(Value::as_array);
        let is_final = calls.is_none_or(Vec::is_empty);
        self.error = None;
        self.message = said.filter(|_| is_final).map(str::to_owned);
        events.extend(said.map(|said| AgentEvent::Text {
            text: said.trim_end_matches('\n').to_owned(),
        }));
    }

    fn result(&mut self, value: &Value, events: &mut Vec<AgentEvent>) {
        if let Some(id) = text(value, "sessionId").filter(|id| json::session_id(NAME, id).is_ok()) {
            events.push(AgentEvent::Session { id: id.to_owned() });
        }
        let code = value.get("exitCode").and_then(Value::as_i64);
        let failed = self.error.take().or_else(|| match code {
            Some(0) => None,
            Some(code) => Some(format!("it ended with {code}")),
            None => Some("it ended without a verdict".to_owned()),
        });
        match (failed, self.message.take()) {
            (Some(text), _) => events.extend(json::failure(Some(text))),
            (None, said) => events.push(AgentEvent::Result {
                text: said.unwrap_or_default(),
                is_error: false,
            }),
        }
    }
}
