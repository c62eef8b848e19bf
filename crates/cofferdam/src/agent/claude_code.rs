//! Claude Code: `claude --print --output-format stream-json`, the prompt on standard input.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::access::{Access, Ways};
use super::error::AgentError;
use super::event::{AgentEvent, Usage, UsageTold};
use super::first_start::{HomeContent, HomeFile};
use super::json::{self, count, text};
use super::login::{LoginFormat, LoginVolume};
use super::provider::{
    AgentCommand, AgentKind, AgentOptions, AgentProgram, AgentProvider, BaseUrl, Npm, StreamParser,
};
use super::request::AgentRequest;
use super::sessions::{self, SessionFiles, SessionLayout, dashed, renamed};

const NAME: &str = "claude-code";
const PROGRAM: &str = "claude";
/// It knows a key by so many of its last characters.
const KEYS_END: usize = 20;

const LOGIN: LoginFormat = LoginFormat {
    path: ".claude/.credentials.json",
    marks: &["claudeAiOauth"],
    fields: &["claudeAiOauth"],
    renewed: &[
        "claudeAiOauth.accessToken",
        "claudeAiOauth.refreshToken",
        "claudeAiOauth.expiresAt",
        "claudeAiOauth.refreshTokenExpiresAt",
    ],
    later: &["claudeAiOauth.refreshTokenExpiresAt"],
    times: &["/claudeAiOauth/expiresAt"],
    // Its tokens do not say whose they are.
    account: &["/sub"],
    volume: Some(LoginVolume {
        name: "cofferdam-creds",
        beside: &[],
    }),
};

const SESSIONS: SessionLayout = SessionLayout {
    below_home: ".claude",
    moved_by: Some(("CLAUDE_CONFIG_DIR", "")),
    index: None,
    within: |directory| format!("projects/{}", dashed(directory)),
    belongs: |path, id| match sessions::parts(path).as_deref() {
        Some(["projects", _, file]) => file.strip_suffix(".jsonl") == Some(id),
        // Subagents, and outputs of tools that were too long for the record itself.
        Some(["projects", _, session, _, ..]) => *session == id,
        _ => false,
    },
    identified: None,
    moved: |files, to| {
        renamed(files, |parts| match parts {
            ["projects", _, rest @ ..] if !rest.is_empty() => {
                let project = dashed(to.directory);
                Some(format!("projects/{project}/{}", rest.join("/")))
            }
            _ => None,
        })
    },
};

const WAYS: Ways = Ways {
    keys: &[
        "ANTHROPIC_API_KEY",
        "CLAUDE_CODE_OAUTH_TOKEN",
        "ANTHROPIC_AUTH_TOKEN",
    ],
    providers: &[
        "CLAUDE_CODE_USE_BEDROCK",
        "CLAUDE_CODE_USE_VERTEX",
        "CLAUDE_CODE_USE_FOUNDRY",
    ],
    address: "ANTHROPIC_BASE_URL",
    host: "api.anthropic.com",
};

pub(super) const KIND: AgentKind = AgentKind {
    name: NAME,
    about: "Anthropic's Claude Code (`claude`)",
    install: "npm install --global --prefix ~/.local @anthropic-ai/claude-code",
    npm: Some(Npm {
        package: "@anthropic-ai/claude-code",
        node: Some(22),
    }),
    tried: true,
    not_needed: &[
        "http-intake.logs.us5.datadoghq.com",
        "browser-intake-us5-datadoghq.com",
    ],
    build: |options| Ok(Arc::new(ClaudeCode::new(options))),
};

/// Anthropic's Claude Code.
#[derive(Debug, Clone)]
pub struct ClaudeCode {
    options: AgentOptions,
}

impl ClaudeCode {
    /// The agent with these options; nothing is started or looked for.
    pub fn new(options: AgentOptions) -> Self {
        Self { options }
    }
}

impl ClaudeCode {
    fn arguments(
        &self,
        first: &[&str],
        request: &AgentRequest,
    ) -> Result<Vec<OsString>, AgentError> {
        let mut arguments: Vec<OsString> = vec![PROGRAM.into()];
        arguments.extend(first.iter().map(OsString::from));
        if request.skip_permissions {
            arguments.push("--dangerously-skip-permissions".into());
        }
        if let Some(model) = &self.options.model {
            arguments.extend(["--model".into(), model.into()]);
        }
        if let Some(effort) = &self.options.effort {
            arguments.extend(["--effort".into(), effort.into()]);
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

impl AgentProvider for ClaudeCode {
    fn name(&self) -> &str {
        NAME
    }

    fn options(&self) -> AgentOptions {
        self.options.clone()
    }

    fn environment(&self) -> &[&str] {
        &[
            "ANTHROPIC_API_KEY",
            "ANTHROPIC_AUTH_TOKEN",
            "ANTHROPIC_BASE_URL",
            "ANTHROPIC_MODEL",
            "CLAUDE_CODE_OAUTH_TOKEN",
        ]
    }

    fn login(&self) -> Option<&LoginFormat> {
        Some(&LOGIN)
    }

    fn program(&self) -> Option<AgentProgram<'_>> {
        Some(AgentProgram {
            name: OsStr::new(PROGRAM),
            directories: &[".local/share/claude/versions", ".claude/local"],
        })
    }

    fn access(&self, environment: &BTreeMap<OsString, OsString>, logged_in: bool) -> Access {
        WAYS.access(environment, logged_in, !self.options.arguments.is_empty())
    }

    fn base_url(&self, _logged_in: bool) -> Option<BaseUrl> {
        Some(BaseUrl {
            variable: "ANTHROPIC_BASE_URL",
            usual: "https://api.anthropic.com",
        })
    }

    fn usage_told(&self) -> Option<UsageTold> {
        Some(UsageTold::Cost)
    }

    fn tells_its_end(&self) -> bool {
        true
    }

    fn command(&self, request: &AgentRequest) -> Result<AgentCommand, AgentError> {
        let prompt = request.prompt(NAME)?;
        let print = ["--print", "--verbose", "--output-format", "stream-json"];
        Ok(AgentCommand {
            arguments: self.arguments(&print, request)?,
            stdin: Some(prompt.as_bytes().to_vec()),
            environment: BTreeMap::new(),
        })
    }

    fn interactive(&self, request: &AgentRequest) -> Result<AgentCommand, AgentError> {
        let settled: &[&str] = if request.skip_permissions {
            // It asks for an agreement to that option, once for each home.
            &[
                "--settings",
                r#"{"skipDangerousModePermissionPrompt":true}"#,
            ]
        } else {
            &[]
        };
        let mut arguments = self.arguments(settled, request)?;
        if let Some(prompt) = request.argument(NAME)? {
            // Some of its options take as many words as follow.
            arguments.extend(["--".into(), prompt.into()]);
        }
        let mut quiet = vec![("DISABLE_AUTOUPDATER", "1")];
        if request.skip_permissions {
            // Else it asks whether it may trust the directory.
            quiet.push(("CLAUDE_CODE_SANDBOXED", "1"));
        }
        Ok(AgentCommand {
            arguments,
            stdin: None,
            environment: request.unless_said(&quiet),
        })
    }

    fn first_start(&self, request: &AgentRequest) -> Vec<HomeFile> {
        if request.set("CLAUDE_CONFIG_DIR").is_some() {
            return Vec::new();
        }
        // Else it welcomes its user, asks `api.anthropic.com` whatever its address is, and whether it may use the key.
        let mut members = Map::new();
        members.insert("hasCompletedOnboarding".into(), true.into());
        let key = request
            .set("ANTHROPIC_API_KEY")
            .and_then(|key| key.to_str());
        if let Some(key) = key {
            let from = key.char_indices().rev().nth(KEYS_END - 1);
            let end = &key[from.map_or(0, |(at, _)| at)..];
            members.insert("customApiKeyResponses".into(), json!({"approved": [end]}));
        }
        vec![HomeFile {
            path: ".claude.json",
            content: HomeContent::Members(members),
        }]
    }

    fn tells_cost_of_conversation(&self) -> bool {
        true
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
    /// Tokens of the messages before the current one.
    earlier: Usage,
    /// The current message's id and its tokens: each block of a message repeats them.
    current: Option<(String, Usage)>,
}

impl StreamParser for Parser {
    fn line(&mut self, line: &[u8], truncated: bool) -> Vec<AgentEvent> {
        let Some(value) = json::object(line, truncated) else {
            return json::raw(line);
        };
        let mut events = Vec::new();
        self.session(&value, &mut events);
        match text(&value, "type") {
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
    fn session(&mut self, value: &Value, events: &mut Vec<AgentEvent>) {
        if !matches!(text(value, "type"), Some("system" | "result")) {
            return;
        }
        let Some(id) = text(value, "session_id") else {
            return;
        };
        if self.session.as_deref() != Some(id) && json::session_id(NAME, id).is_ok() {
            self.session = Some(id.to_owned());
            events.push(AgentEvent::Session { id: id.to_owned() });
        }
    }

    fn assistant(&mut self, value: &Value, events: &mut Vec<AgentEvent>) {
        let Some(message) = value.get("message") else {
            return;
        };
        // What a subagent says goes to the agent, not to the user.
        let own = value.get("parent_tool_use_id").is_none_or(Value::is_null);
        for block in message
            .get("content")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            match text(block, "type") {
                Some("text") if own => {
                    if let Some(text) = text(block, "text").filter(|text| !text.is_empty()) {
                        let text = text.trim_end_matches('\n').to_owned();
                        events.push(AgentEvent::Text { text });
                    }
                }
                Some("tool_use") => events.push(AgentEvent::ToolCall {
                    name: json::bounded(text(block, "name").unwrap_or("tool")),
                    arguments: block.get("input").map(json::arguments).unwrap_or_default(),
                }),
                _ => {}
            }
        }
        if let Some(usage) = message.get("usage").and_then(tokens) {
            let id = text(message, "id").unwrap_or_default();
            if let Some((current, tokens)) = &self.current
                && current != id
            {
                self.earlier += *tokens;
            }
            self.current = Some((id.to_owned(), usage));
            let mut sum = self.earlier;
            sum += usage;
            events.push(AgentEvent::Usage { usage: sum });
        }
    }
}

fn tokens(value: &Value) -> Option<Usage> {
    value.is_object().then(|| Usage {
        input_tokens: count(value, "input_tokens"),
        cache_creation_tokens: count(value, "cache_creation_input_tokens"),
        cache_read_tokens: count(value, "cache_read_input_tokens"),
        output_tokens: count(value, "output_tokens"),
        ..Usage::default()
    })
}

fn result(value: &Value, events: &mut Vec<AgentEvent>) {
    if let Some(mut usage) = value.get("usage").and_then(tokens) {
        usage.cost_micro_usd = json::micro_usd(value.get("total_cost_usd"));
        events.push(AgentEvent::Usage { usage });
    }
    let subtype = text(value, "subtype").unwrap_or_default();
    // An error of the model comes as a "success" that is an error, a limit as another subtype.
    let told = value
        .get("is_error")
        .and_then(Value::as_bool)
        .unwrap_or(false);
    let is_error = told || subtype != "success";
    let errors = value.get("errors").and_then(Value::as_array);
    let message = text(value, "result")
        .map(str::to_owned)
        .or_else(|| errors.and_then(|errors| errors.iter().find_map(json::error_message)))
        .unwrap_or_else(|| subtype.to_owned());
    events.push(AgentEvent::Result {
        text: message,
        is_error,
    });
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::agent::login::tests::check;

    #[test]
    fn only_tokens_and_times_of_a_login_are_renewed() {
        let before = json!({"claudeAiOauth": {"accessToken": "a", "refreshToken": "r", "expiresAt": 1,
                            "scopes": ["x"], "subscriptionType": "max"}});
        let check = |name: &str, new: Value, want| {
            let place = format!("/claudeAiOauth/{name}");
            check(&LOGIN, &before, &place, Some(&new), want);
        };
        check("accessToken", json!("b"), true);
        check("expiresAt", json!(2), true);
        check("refreshTokenExpiresAt", json!(2), true);
        check("expiresAt", json!("2"), false);
        check("subscriptionType", json!("free"), false);
        check("scopes", json!(["y"]), false);
        check("apiKey", json!("k"), false);
    }
}
