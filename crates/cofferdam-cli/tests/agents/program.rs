//! The agent programs: how each is told where its model is.

use std::path::PathBuf;
use std::time::Duration;

use cofferdam_lab::model::Seen;
use cofferdam_lab::{sample, skip};
use serde_json::{Value, json};

/// The key that a user has in their environment.
pub(crate) const KEY: &str = "the-users-key";

/// The name of this machine, seen from a sandbox.
pub(crate) const HOST: &str = "host.cofferdam.internal";

/// The model of programs that want to be told one.
const MODEL: &str = "one";
/// The directory of the five others.
const OTHERS: &str = "agents-all";

/// One of the programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Program {
    ClaudeCode,
    Codex,
    OpenCode,
    Pi,
    Copilot,
    Gemini,
    Qwen,
}

impl Program {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
            Self::OpenCode => "opencode",
            Self::Pi => "pi",
            Self::Copilot => "copilot",
            Self::Gemini => "gemini",
            Self::Qwen => "qwen",
        }
    }

    /// What its user types.
    pub(crate) fn command(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude",
            other => other.name(),
        }
    }

    pub(crate) fn key_variable(self) -> &'static str {
        match self {
            Self::ClaudeCode => "ANTHROPIC_API_KEY",
            Self::Codex | Self::OpenCode | Self::Pi | Self::Qwen => "OPENAI_API_KEY",
            Self::Copilot => "COPILOT_PROVIDER_API_KEY",
            Self::Gemini => "GEMINI_API_KEY",
        }
    }

    /// The variables that say where the model is, and which it is.
    pub(crate) fn variables(self, port: u16) -> Vec<(&'static str, String)> {
        let server = format!("http://{HOST}:{port}");
        let below = format!("{server}/v1");
        let model = || MODEL.to_owned();
        match self {
            Self::ClaudeCode => vec![("ANTHROPIC_BASE_URL", server)],
            Self::Codex => vec![("OPENAI_BASE_URL", below)],
            Self::Copilot => vec![
                ("COPILOT_PROVIDER_BASE_URL", below),
                ("COPILOT_MODEL", model()),
            ],
            Self::Gemini => vec![("GOOGLE_GEMINI_BASE_URL", server)],
            Self::Qwen => vec![("OPENAI_BASE_URL", below), ("OPENAI_MODEL", model())],
            // They know no such variable.
            Self::OpenCode | Self::Pi => Vec::new(),
        }
    }

    /// The settings that its user brings into sandboxes: a file below their home, and what is in it.
    pub(crate) fn settings(self, port: u16) -> Option<(&'static str, Value)> {
        let below = format!("http://{HOST}:{port}/v1");
        match self {
            Self::OpenCode => {
                let limit = json!({"context": 100_000, "output": 8_000});
                let model = json!({"name": MODEL, "tool_call": true, "limit": limit});
                let provider = json!({
                    "npm": "@ai-sdk/openai-compatible",
                    "options": {"baseURL": below, "apiKey": "{env:OPENAI_API_KEY}"},
                    "models": {MODEL: model},
                });
                let settings = json!({"provider": {"lab": provider}});
                Some((".config/opencode/opencode.json", settings))
            }
            Self::Pi => {
                let provider = json!({
                    "baseUrl": below,
                    "api": "openai-completions",
                    "apiKey": "OPENAI_API_KEY",
                    "models": [{"id": MODEL}],
                });
                Some((
                    ".pi/agent/models.json",
                    json!({"providers": {"lab": provider}}),
                ))
            }
            // With an address of one's own it takes the key for that of a gateway, unless it is told. It begins with pauses of 5 s.
            Self::Gemini => Some((
                ".gemini/settings.json",
                json!({
                    "security": {"auth": {"selectedType": "gemini-api-key"}},
                    "general": {"maxAttempts": 2},
                }),
            )),
            // Unless it is told it waits for minutes, ten times.
            Self::Qwen => {
                let pauses = json!({
                    "maxRetries": 1,
                    "retryInitialDelayMs": 1000,
                    "retryMaxDelayMs": 1000,
                });
                let settings = json!({"model": {"generationConfig": pauses}});
                Some((".qwen/settings.json", settings))
            }
            Self::ClaudeCode | Self::Codex | Self::Copilot => None,
        }
    }

    /// The `--model` of a program that would take none of ours for its own.
    pub(crate) fn model(self) -> Option<&'static str> {
        match self {
            Self::OpenCode | Self::Pi => Some("lab/one"),
            Self::Gemini => Some("gemini-2.5-pro"),
            Self::ClaudeCode | Self::Codex | Self::Copilot | Self::Qwen => None,
        }
    }

    /// A file of the repository as its tools want to hear it.
    pub(crate) fn path_of(self, file: &str) -> String {
        match self {
            Self::Qwen => format!("/workspace/repository/{file}"),
            _ => file.to_owned(),
        }
    }

    /// Where it sends reports on its use, with the settings that it has here.
    pub(crate) fn reports_to(self) -> Option<&'static str> {
        match self {
            Self::ClaudeCode => Some("api.anthropic.com"),
            Self::Codex => Some("ab.chatgpt.com"),
            Self::Gemini => Some("play.googleapis.com"),
            Self::OpenCode | Self::Pi | Self::Copilot | Self::Qwen => None,
        }
    }

    /// Settings with which it gives up sooner: options of `run`, and arguments of the program.
    pub(crate) fn impatient(self, port: u16) -> (Vec<String>, Vec<String>) {
        match self {
            Self::ClaudeCode => (owned(&["--env", "CLAUDE_CODE_MAX_RETRIES=1"]), Vec::new()),
            Self::Codex => {
                let provider = format!(
                    "model_providers.lab={{name=\"lab\",base_url=\"http://{HOST}:{port}/v1\",\
                     wire_api=\"responses\",env_key=\"CODEX_API_KEY\",request_max_retries=1,\
                     stream_max_retries=1}}"
                );
                let arguments = ["--config", &provider, "--config", "model_provider=\"lab\""];
                (Vec::new(), owned(&arguments))
            }
            _ => (Vec::new(), Vec::new()),
        }
    }

    /// The home below which it is installed.
    #[track_caller]
    pub(crate) fn home(self) -> PathBuf {
        match self {
            Self::ClaudeCode | Self::Codex => installed(),
            _ => below_target(OTHERS),
        }
    }

    /// Whether this run is to start it. The five others take a gigabyte, and minutes.
    pub(crate) fn is_wanted(self) -> bool {
        if matches!(self, Self::ClaudeCode | Self::Codex) {
            return true;
        }
        if !sample::all() && !sample::is_named() {
            skip!(
                "starts the other agent programs: only with `scripts/test --all`, or by its name"
            );
            return false;
        }
        if !sample::all() && !self.home().exists() {
            skip!("the other agent programs are not there: run `scripts/test --agents-all`");
            return false;
        }
        let program = self.home().join(".npm-global/bin").join(self.command());
        assert!(program.exists(), "{}", program.display());
        true
    }

    /// How long it asks a model again and again that is broken.
    pub(crate) fn gives_up_within(self) -> Duration {
        Duration::from_secs(match self {
            // Its pauses after an error grow to 30 s, whatever its user sets.
            Self::Qwen => 120,
            // It takes ten seconds to its first request.
            Self::OpenCode => 60,
            _ => 30,
        })
    }

    /// Every request for work came with `key`.
    #[track_caller]
    pub(crate) fn expect_key(self, seen: &Seen, key: &str) {
        assert!(seen.work().count() > 0, "{seen:?}");
        for request in seen.work() {
            assert_eq!(request.key(), Some(key), "{self:?}");
        }
    }
}

/// The home below which Claude Code and Codex are installed.
#[track_caller]
pub(crate) fn installed() -> PathBuf {
    let home = below_target("agents");
    let programs = home.join(".npm-global/bin");
    assert!(
        programs.join("claude").exists() && programs.join("codex").exists(),
        "the agent programs are not in {}: run `scripts/test --agents`",
        programs.display()
    );
    home
}

/// Where `scripts/test` installs programs.
fn below_target(name: &str) -> PathBuf {
    let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    target.parent().unwrap().join(name).join("home")
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}
