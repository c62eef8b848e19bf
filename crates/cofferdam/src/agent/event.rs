//! What an agent's output said.

use serde::{Deserialize, Serialize};

/// Tokens of one iteration, as the agent reported them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Not read from a cache.
    pub input_tokens: u64,
    /// Input tokens that were written to the provider's cache.
    pub cache_creation_tokens: u64,
    /// Input tokens that were read from the provider's cache.
    pub cache_read_tokens: u64,
    /// Tokens that the model wrote.
    pub output_tokens: u64,
    /// What it cost, in millionths of a US dollar, where the agent says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_micro_usd: Option<u64>,
}

impl Usage {
    /// All tokens, whatever they were for.
    pub fn tokens(&self) -> u64 {
        [
            self.input_tokens,
            self.cache_creation_tokens,
            self.cache_read_tokens,
            self.output_tokens,
        ]
        .into_iter()
        .fold(0, u64::saturating_add)
    }
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.cache_creation_tokens = self
            .cache_creation_tokens
            .saturating_add(other.cache_creation_tokens);
        self.cache_read_tokens = self
            .cache_read_tokens
            .saturating_add(other.cache_read_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
        self.cost_micro_usd = match (self.cost_micro_usd, other.cost_micro_usd) {
            (Some(one), Some(more)) => Some(one.saturating_add(more)),
            (one, more) => one.or(more),
        };
    }
}

/// What an agent's program tells of its use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UsageTold {
    /// Neither tokens nor cost.
    Nothing,
    /// Tokens, and no cost.
    Tokens,
    /// Those too.
    Cost,
}

/// One thing an agent's output said. Text is as the agent sent it: sanitise before showing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum AgentEvent {
    /// The agent's own words: a block or a line of them, without a line feed at its end.
    Text {
        /// Any text, as it was sent.
        text: String,
    },
    /// The agent uses one of its tools.
    ToolCall {
        /// The tool, as the agent names it.
        name: String,
        /// What it is used with, on one line.
        arguments: String,
    },
    /// The agent's own conversation record.
    Session {
        /// As the agent's program takes it to resume.
        id: String,
    },
    /// Replaces what was reported before in this iteration.
    Usage {
        /// Since the iteration began.
        usage: Usage,
    },
    /// A final message of the agent: the only place where a completion signal counts
    /// ([`super::completion()`]). Its words were or may have been a [`AgentEvent::Text`] before.
    Result {
        /// The message, as it was sent.
        text: String,
        /// Whether the agent's program calls it a failure.
        is_error: bool,
    },
    /// A line that says nothing of the above.
    Raw {
        /// Without its line end.
        line: String,
    },
}
