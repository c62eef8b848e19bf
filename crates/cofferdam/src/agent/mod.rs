//! One file per agent: a request becomes a command, bytes become events. Pure: nothing here knows
//! a sandbox, and nothing here does input or output.

mod access;
mod claude_code;
mod codex;
mod command;
mod completion;
mod copilot;
mod cursor;
mod error;
mod event;
mod first_start;
#[cfg(test)]
mod fuzz;
mod gemini;
mod json;
mod login;
mod opencode;
mod pi;
mod provider;
mod quota;
mod qwen;
mod request;
mod sessions;

use std::sync::Arc;

pub use access::Access;
pub use claude_code::ClaudeCode;
pub use codex::Codex;
pub use command::Command;
pub use completion::{completion, signal_in};
pub use copilot::Copilot;
pub use cursor::Cursor;
pub use error::AgentError;
pub use event::{AgentEvent, Usage, UsageTold};
pub(crate) use first_start::merged;
pub use first_start::{HomeContent, HomeFile};
pub use gemini::Gemini;
pub use login::LoginFormat;
pub use opencode::OpenCode;
pub use pi::Pi;
pub use provider::{
    AgentCommand, AgentKind, AgentOptions, AgentProgram, AgentProvider, BaseUrl, Npm, StreamParser,
};
pub use quota::Quota;
pub use qwen::Qwen;
pub use request::AgentRequest;
pub use sessions::{
    Identify, SessionCommands, SessionError, SessionFile, SessionFiles, SessionLayout,
    SessionTarget,
};

/// The agents that come with Cofferdam.
pub const AGENTS: &[AgentKind] = &[
    claude_code::KIND,
    codex::KIND,
    opencode::KIND,
    pi::KIND,
    copilot::KIND,
    gemini::KIND,
    qwen::KIND,
    cursor::KIND,
    command::KIND,
];

/// The agent that asks for this host and works as well without it.
pub fn works_without(host: &str) -> Option<&'static str> {
    let kind = AGENTS.iter().find(|kind| kind.not_needed.contains(&host));
    kind.map(|kind| kind.name)
}

/// The agent of that name.
pub fn by_name(name: &str, options: AgentOptions) -> Result<Arc<dyn AgentProvider>, AgentError> {
    match AGENTS.iter().find(|kind| kind.name == name) {
        Some(kind) => (kind.build)(options),
        None => Err(AgentError::Unknown {
            name: crate::text::printable_line(name),
            known: AGENTS.iter().map(|kind| kind.name).collect(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A rule of the built-in list opens none of them, or there would be nothing to say.
    #[test]
    fn what_an_agent_does_not_need_is_not_open() {
        let rules = cofferdam_wall::defaults::rules().unwrap();
        for kind in AGENTS {
            for host in kind.not_needed {
                let open = rules.iter().any(|rule| rule.target().to_string() == *host);
                assert!(!open, "{host}");
                assert_eq!(works_without(host), Some(kind.name));
            }
        }
        assert_eq!(works_without("chatgpt.com"), None);
    }
}
