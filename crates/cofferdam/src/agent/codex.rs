//! Codex: `codex exec --json -`, the prompt on standard input.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};

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
use super::sessions::{self, SessionFiles, SessionLayout, renamed};

const NAME: &str = "codex";
const PROGRAM: &str = "codex";

const SESSIONS: SessionLayout = SessionLayout {
    below_home: ".codex",
    moved_by: Some(("CODEX_HOME", "")),
    index: None,
    // By year, month and day; nothing in a record binds it to its directory.
    within: |_| "sessions".to_owned(),
    belongs: |path, id| match sessions::parts(path).as_deref() {
        Some(["sessions", _, _, _, file]) => {
            let record = file.strip_prefix("rollout-");
            let record = record.and_then(|record| record.strip_suffix(".jsonl"));
            record.is_some_and(|record| {
                record
                    .strip_suffix(id)
                    .is_some_and(|time| time.ends_with('-'))
            })
        }
        _ => false,
    },
    identified: None,
    moved: |files, _| {
        renamed(files, |parts| {
            let record = matches!(parts, ["sessions", _, _, _, _]);
            record.then(|| parts.join("/"))
        })
    },
};

const LOGIN: LoginFormat = LoginFormat {
    path: ".codex/auth.json",
    marks: &["tokens", "OPENAI_API_KEY"],
    fields: &[
        "auth_mode",
        "OPENAI_API_KEY",
        "tokens",
        "last_refresh",
        "agent_identity",
        "personal_access_token",
    ],
    renewed: &[
        "tokens.id_token",
        "tokens.access_token",
        "tokens.refresh_token",
        "last_refresh",
    ],
    later: &["last_refresh"],
    times: &["/last_refresh"],
    account: &["/sub", "/https:~1~1api.openai.com~1auth/chatgpt_account_id"],
    volume: Some(LoginVolume {
        name: "cofferdam-codex-config",
        beside: &["config.toml", "AGENTS.md", "profile.json"],
    }),
};

const WAYS: Ways = Ways {
    keys: &["OPENAI_API_KEY", "CODEX_API_KEY"],
    providers: &[],
    address: "OPENAI_BASE_URL",
    host: "api.openai.com",
};

pub(super) const KIND: AgentKind = AgentKind {
    name: NAME,
    about: "OpenAI's Codex (`codex`)",
    install: "npm install --global --prefix ~/.local @openai/codex",
    npm: Some(Npm {
        package: "@openai/codex",
        node: Some(16),
    }),
    tried: true,
    not_needed: &["ab.chatgpt.com"],
    build: |options| Ok(Arc::new(Codex::new(options))),
};

/// OpenAI's Codex.
#[derive(Debug, Clone)]
pub struct Codex {
    options: AgentOptions,
}

impl Codex {
    /// The agent with these options; nothing is started or looked for.
    pub fn new(options: AgentOptions) -> Self {
        Self { options }
    }
}

impl Codex {
    fn arguments(&self, request: &AgentRequest) -> Result<Vec<OsString>, AgentError> {
        let mut arguments: Vec<OsString> = Vec::new();
        if request.skip_permissions {
            arguments.push("--dangerously-bypass-approvals-and-sandbox".into());
        }
        if let Some(model) = &self.options.model {
            arguments.extend(["--model".into(), model.into()]);
        }
        if let Some(effort) = &self.options.effort {
            // A TOML string: JSON's escapes are valid there.
            let effort = Value::from(effort.as_str());
            arguments.extend([
                "--config".into(),
                format!("model_reasoning_effort={effort}").into(),
            ]);
        }
        // It reads no address from its environment.
        if let Some(url) = request.set("OPENAI_BASE_URL").and_then(|url| url.to_str()) {
            let url = Value::from(url);
            arguments.extend(["--config".into(), format!("openai_base_url={url}").into()]);
        }
        arguments.extend(self.options.arguments.iter().cloned());
        if let Some(id) = request.session(NAME)? {
            let how = if request.fork { "fork" } else { "resume" };
            arguments.extend([how.into(), id.into()]);
        }
        Ok(arguments)
    }
}

/// `codex` takes a key only under its own name.
fn key(request: &AgentRequest) -> BTreeMap<OsString, OsString> {
    let mut environment = BTreeMap::new();
    // It would come before the login.
    if let (Some(key), None, false) = (
        request.set("OPENAI_API_KEY"),
        request.set("CODEX_API_KEY"),
        request.logged_in,
    ) {
        environment.insert("CODEX_API_KEY".into(), key.clone());
    }
    environment
}

impl AgentProvider for Codex {
    fn name(&self) -> &str {
        NAME
    }

    fn options(&self) -> AgentOptions {
        self.options.clone()
    }

    fn environment(&self) -> &[&str] {
        &["OPENAI_API_KEY", "CODEX_API_KEY", "OPENAI_BASE_URL"]
    }

    fn login(&self) -> Option<&LoginFormat> {
        Some(&LOGIN)
    }

    fn program(&self) -> Option<AgentProgram<'_>> {
        Some(AgentProgram {
            name: OsStr::new(PROGRAM),
            directories: &[".codex/packages/standalone"],
        })
    }

    fn access(&self, environment: &BTreeMap<OsString, OsString>, logged_in: bool) -> Access {
        WAYS.access(environment, logged_in, !self.options.arguments.is_empty())
    }

    fn base_url(&self, logged_in: bool) -> Option<BaseUrl> {
        Some(BaseUrl {
            variable: "OPENAI_BASE_URL",
            // A login is one of its makers' other service.
            usual: if logged_in {
                "https://chatgpt.com"
            } else {
                "https://api.openai.com"
            },
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
        let mut arguments: Vec<OsString> = vec![PROGRAM.into(), "exec".into(), "--json".into()];
        arguments.extend(self.arguments(request)?);
        arguments.push("-".into());
        Ok(AgentCommand {
            arguments,
            stdin: Some(prompt.as_bytes().to_vec()),
            environment: key(request),
        })
    }

    fn interactive(&self, request: &AgentRequest) -> Result<AgentCommand, AgentError> {
        let mut arguments: Vec<OsString> = vec![PROGRAM.into()];
        arguments.extend(["--config", "check_for_update_on_startup=false"].map(OsString::from));
        let directory = request.directory.as_deref().and_then(Path::to_str);
        if let Some(directory) = directory.filter(|_| request.skip_permissions) {
            // Else it asks whether it may trust the directory, whatever it was told of approvals.
            let trusted = format!(
                "projects={{{}={{trust_level=\"trusted\"}}}}",
                Value::from(directory)
            );
            arguments.extend(["--config".into(), trusted.into()]);
        }
        arguments.extend(self.arguments(request)?);
        if let Some(prompt) = request.argument(NAME)? {
            arguments.extend(["--".into(), prompt.into()]);
        }
        Ok(AgentCommand {
            arguments,
            stdin: None,
            environment: key(request),
        })
    }

    fn first_start(&self, request: &AgentRequest) -> Vec<HomeFile> {
        let key = (request.set("CODEX_API_KEY")).or_else(|| request.set("OPENAI_API_KEY"));
        let key = key.and_then(|key| key.to_str());
        let (Some(key), false) = (key, request.logged_in) else {
            return Vec::new();
        };
        // Its terminal interface takes a key from nowhere else, and asks for a login.
        let login = json!({"auth_mode": "apikey", "OPENAI_API_KEY": key});
        vec![HomeFile {
            path: ".codex/auth.json",
            content: HomeContent::Secret(login.to_string().into_bytes()),
        }]
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
    /// The agent's last words in this turn; they are final when the turn is complete.
    message: Option<String>,
    /// The last error, which is final only if no turn ends after it.
    error: Option<String>,
}

impl StreamParser for Parser {
    fn line(&mut self, line: &[u8], truncated: bool) -> Vec<AgentEvent> {
        let Some(value) = json::object(line, truncated) else {
            return json::raw(line);
        };
        let events = match text(&value, "type") {
            Some("thread.started") => text(&value, "thread_id")
                .filter(|id| json::session_id(NAME, id).is_ok())
                .map(|id| AgentEvent::Session { id: id.to_owned() })
                .into_iter()
                .collect(),
            Some("turn.started") => {
                self.message = None;
                Vec::new()
            }
            Some(stage @ ("item.started" | "item.completed")) => value
                .get("item")
                .map(|item| self.item(item, stage))
                .unwrap_or_default(),
            Some("turn.completed") => self.completed(&value),
            Some("turn.failed") => {
                let told = json::error_message(&value);
                let text = told
                    .or_else(|| self.error.take())
                    .unwrap_or("the turn failed".into());
                self.message = None;
                self.error = None;
                vec![AgentEvent::Result {
                    text,
                    is_error: true,
                }]
            }
            Some("error") => {
                // It may try again: shown as it is, and final only if nothing follows.
                self.error = json::error_message(&value);
                Vec::new()
            }
            _ => Vec::new(),
        };
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
    /// A tool call is told when it starts, everything else when it is complete.
    fn item(&mut self, item: &Value, stage: &str) -> Vec<AgentEvent> {
        let call = |name: &str, arguments: String| {
            vec![AgentEvent::ToolCall {
                name: json::bounded(name),
                arguments,
            }]
        };
        match (text(item, "type"), stage) {
            (Some("agent_message"), "item.completed") => {
                let Some(said) = text(item, "text") else {
                    return Vec::new();
                };
                self.message = Some(said.to_owned());
                vec![AgentEvent::Text {
                    text: said.trim_end_matches('\n').to_owned(),
                }]
            }
            (Some("command_execution"), "item.started") => call("Bash", json::arguments(item)),
            (Some("mcp_tool_call"), "item.started") => {
                let tool = text(item, "tool").unwrap_or("tool");
                let name = match text(item, "server") {
                    Some(server) => format!("{server}.{tool}"),
                    None => tool.to_owned(),
                };
                call(
                    &name,
                    item.get("arguments")
                        .map(json::arguments)
                        .unwrap_or_default(),
                )
            }
            (Some("file_change"), "item.completed") => call("Edit", changed_paths(item)),
            (Some("web_search"), "item.completed") => call("WebSearch", json::arguments(item)),
            _ => Vec::new(),
        }
    }

    fn completed(&mut self, value: &Value) -> Vec<AgentEvent> {
        self.error = None;
        let mut events = Vec::new();
        if let Some(usage) = value.get("usage").filter(|usage| usage.is_object()) {
            // A resumed session reports the total of its whole life, not of this iteration.
            // The tokens read from and written to a cache are a part of the input tokens here.
            let cached = count(usage, "cached_input_tokens");
            let written = count(usage, "cache_write_input_tokens");
            events.push(AgentEvent::Usage {
                usage: Usage {
                    input_tokens: count(usage, "input_tokens")
                        .saturating_sub(cached)
                        .saturating_sub(written),
                    cache_creation_tokens: written,
                    cache_read_tokens: cached,
                    output_tokens: count(usage, "output_tokens"),
                    ..Usage::default()
                },
            });
        }
        events.push(AgentEvent::Result {
            text: self.message.take().unwrap_or_default(),
            is_error: false,
        });
        events
    }
}

fn changed_paths(item: &Value) -> String {
    let changes = item
        .get("changes")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let paths: Vec<&str> = changes
        .filter_map(|change| text(change, "path"))
        .take(20)
        .collect();
    json::bounded(&paths.join(", "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::agent::login::tests::{check, token};

    fn identity(subject: &str, account: &str, rest: u32) -> Value {
        let auth = json!({"chatgpt_account_id": account});
        let payload = json!({"sub": subject, "https://api.openai.com/auth": auth, "n": rest});
        Value::from(token(&payload))
    }

    #[test]
    fn only_a_renewal_of_the_same_login_is_kept() {
        let before = json!({"OPENAI_API_KEY": null, "auth_mode": "chatgpt",
               "tokens": {"id_token": identity("me", "mine", 1), "access_token": "a",
                          "refresh_token": "r", "account_id": "mine"},
               "last_refresh": "2026-01-01T00:00:00Z"});
        let with = |place: &str, new: Value, want| check(&LOGIN, &before, place, Some(&new), want);
        with("/tokens/access_token", json!("b"), true);
        with("/tokens/refresh_token", json!("b"), true);
        with("/tokens/id_token", identity("me", "mine", 2), true);
        with("/last_refresh", json!("2026-02-01T00:00:00Z"), true);

        with("/OPENAI_API_KEY", json!("sk-attacker"), false);
        with("/auth_mode", json!("apikey"), false);
        with("/tokens/id_token", identity("you", "mine", 1), false);
        with("/tokens/id_token", identity("me", "yours", 1), false);
        with("/tokens/id_token", json!("opaque"), false);
        with("/tokens/account_id", json!("yours"), false);
        with("/tokens/access_token", json!(""), false);
        with("/tokens/access_token", json!(1), false);
        with("/tokens/more", json!("x"), false);
        with("/new", json!(1), false);
        with("/tokens", json!({}), false);
        check(&LOGIN, &before, "/tokens/refresh_token", None, false);
        check(&LOGIN, &before, "/OPENAI_API_KEY", None, false);
        for other in [
            json!({}),
            json!([]),
            json!(null),
            json!({"OPENAI_API_KEY": "k"}),
        ] {
            assert!(!LOGIN.renews(&before, &other), "{other}");
        }
        let key = json!({"OPENAI_API_KEY": "mine"});
        check(
            &LOGIN,
            &key,
            "/OPENAI_API_KEY",
            Some(&json!("yours")),
            false,
        );
    }
}
