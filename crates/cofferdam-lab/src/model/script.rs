//! What a scripted model says, turn by turn, and where it fails.

use std::collections::VecDeque;

use serde::Deserialize;

/// The turns of a model, in order. The last one is given again and again.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(transparent)]
pub struct Script(VecDeque<Turn>);

impl<const N: usize> From<[Turn; N]> for Script {
    fn from(turns: [Turn; N]) -> Self {
        Self(turns.into())
    }
}

impl Script {
    pub(super) fn current(&self) -> Turn {
        self.0.front().cloned().unwrap_or_default()
    }

    pub(super) fn advance(&mut self) {
        if self.0.len() > 1 {
            self.0.pop_front();
        }
    }
}

/// One answer of the model.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Turn {
    #[serde(default)]
    pub say: String,
    #[serde(default)]
    pub tool: Option<Tool>,
    /// What the last result of a tool must hold. Else the request is refused, and that is recorded.
    #[serde(default)]
    pub after: Option<String>,
    #[serde(default)]
    pub fault: Option<Fault>,
}

/// What the model asks for. Each program has its own tools: the nearest one is used.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Tool {
    Shell {
        command: String,
    },
    /// Some programs edit only what they have read.
    Read {
        path: String,
    },
    /// One line of a file becomes another one.
    Edit {
        path: String,
        old: String,
        new: String,
    },
    /// One that only some programs have, such as a server's that they were told of.
    Named {
        name: String,
        input: serde_json::Value,
    },
}

/// How an answer goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Fault {
    /// An error instead of an answer.
    Status {
        code: u16,
        /// Seconds.
        retry_after: Option<u64>,
    },
    /// The connection ends in the middle of the answer.
    Cut,
    /// The answer stops in its middle, and the connection stays until the program leaves.
    Hang,
    /// So long between two events of the answer.
    Slow { millis: u64 },
}

impl Turn {
    pub fn say(text: impl Into<String>) -> Self {
        Self {
            say: text.into(),
            ..Self::default()
        }
    }

    pub fn shell(command: impl Into<String>) -> Self {
        Self::tool(Tool::Shell {
            command: command.into(),
        })
    }

    pub fn tool(tool: Tool) -> Self {
        Self {
            tool: Some(tool),
            ..Self::default()
        }
    }

    pub fn status(code: u16) -> Self {
        Self::default().with(Fault::Status {
            code,
            retry_after: None,
        })
    }

    #[must_use]
    pub fn after(mut self, result: impl Into<String>) -> Self {
        self.after = Some(result.into());
        self
    }

    #[must_use]
    pub fn with(mut self, fault: Fault) -> Self {
        self.fault = Some(fault);
        self
    }
}
