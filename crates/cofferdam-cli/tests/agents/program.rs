//! The agent programs: how each is told where its model is.

use std::path::PathBuf;

use cofferdam_lab::model::Seen;

/// The key that a user has in their environment.
pub(crate) const KEY: &str = "the-users-key";

/// The name of this machine, seen from a sandbox.
pub(crate) const HOST: &str = "host.cofferdam.internal";

/// One of the programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Program {
    ClaudeCode,
    Codex,
}

impl Program {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
        }
    }

    pub(crate) fn key_variable(self) -> &'static str {
        match self {
            Self::ClaudeCode => "ANTHROPIC_API_KEY",
            Self::Codex => "OPENAI_API_KEY",
        }
    }

    /// The variable that names the model's address, and the address.
    pub(crate) fn address(self, port: u16) -> (&'static str, String) {
        match self {
            Self::ClaudeCode => ("ANTHROPIC_BASE_URL", format!("http://{HOST}:{port}")),
            Self::Codex => ("OPENAI_BASE_URL", format!("http://{HOST}:{port}/v1")),
        }
    }

    /// Where it sends reports on its use.
    pub(crate) fn reports_to(self) -> &'static str {
        match self {
            Self::ClaudeCode => "api.anthropic.com",
            Self::Codex => "ab.chatgpt.com",
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
        }
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

/// The home below which both are installed.
#[track_caller]
pub(crate) fn installed() -> PathBuf {
    let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let home = target.parent().unwrap().join("agents/home");
    let programs = home.join(".npm-global/bin");
    assert!(
        programs.join("claude").exists() && programs.join("codex").exists(),
        "the agent programs are not in {}: run `scripts/test --agents`",
        programs.display()
    );
    home
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}
