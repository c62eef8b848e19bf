//! Why a tool could not do what it was called for, as a text for the agent: what is wrong, and what to do next.

use cofferdam::sandbox::SandboxError;
use cofferdam::session::SessionError;
use cofferdam::text::printable;
use rmcp::model::{CallToolResult, ContentBlock};

use crate::error::{self, CliError};

#[derive(Debug)]
pub(super) struct Failure {
    message: String,
    /// The next step; empty where there is none.
    next: String,
}

impl Failure {
    pub(super) fn new(message: impl Into<String>, next: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            next: next.into(),
        }
    }

    /// Of a sandbox that somebody has ended.
    pub(super) fn gone(name: &str, meanwhile: &str) -> Self {
        Self::new(
            format!("sandbox `{name}` was deleted or stopped while {meanwhile}"),
            "`sandbox-list` tells which there are.",
        )
    }

    pub(super) fn with_next(self, next: impl Into<String>) -> Self {
        Self::new(self.message, next)
    }

    pub(super) fn into_result(self) -> CallToolResult {
        let Self { message, next } = self;
        let text = if next.is_empty() {
            format!("Error: {message}")
        } else {
            format!("Error: {message}\n{next}")
        };
        CallToolResult::error(vec![ContentBlock::text(printable(&text))])
    }
}

/// What is to be done where something of this machine failed.
pub(super) const AGAIN: &str =
    "Call the tool again; if that does not help, tell the person you work for.";

/// Of a command that is a person's.
pub(super) const THEIRS: &str = "You cannot do this yourself. Ask the person you work for: ";

impl From<CliError> for Failure {
    fn from(error: CliError) -> Self {
        let text = error::render(&error, false);
        let mut lines = text.lines();
        let message = lines.next().unwrap_or_default();
        let message = message.strip_prefix("error: ").unwrap_or(message);
        let hints: Vec<&str> = lines
            .map(|line| line.strip_prefix("hint: ").unwrap_or(line))
            .collect();
        let hints = hints.join("\n");
        let next = if ["cofferdam ", "sudo ", "systemctl ", "unset "]
            .iter()
            .any(|one| hints.contains(one))
        {
            format!("{THEIRS}{hints}")
        } else {
            hints
        };
        Self::new(message, next)
    }
}

impl From<SessionError> for Failure {
    fn from(error: SessionError) -> Self {
        let next = match &error {
            SessionError::Registry(cofferdam::registry::RegistryError::Unknown { .. }) => {
                "`sandbox-list` names those that there are, and `sandbox-create` makes one."
                    .to_owned()
            }
            SessionError::Paused { name } => {
                format!("{THEIRS}`cofferdam resume {name}`.")
            }
            SessionError::Stopped { name, .. } => {
                format!("{THEIRS}`cofferdam start {name}`.")
            }
            SessionError::Busy { .. } | SessionError::Making { .. } => {
                "Call the tool again in a moment.".to_owned()
            }
            SessionError::Sandbox {
                name,
                source: SandboxError::OtherVersion { .. },
            } => format!("{THEIRS}`cofferdam stop {name} && cofferdam start {name}`."),
            SessionError::Sandbox {
                name,
                source: SandboxError::Gone(_),
            } => {
                return Self::gone(name, "the tool was at work in it");
            }
            SessionError::Sandbox {
                source: SandboxError::Program { .. },
                ..
            } => "`sandbox-ls` tells what is there, and `command -v NAME` with `sandbox-exec` which programs are."
                .to_owned(),
            _ => return CliError::from(error).into(),
        };
        Self::new(error.to_string(), next)
    }
}
