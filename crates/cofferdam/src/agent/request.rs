//! What an agent is asked to do once, and what every agent checks of it.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use super::error::AgentError;
use super::json;

/// So many bytes of a prompt fit on a command line: one argument of Linux has 128 KiB with the zero at its end
/// (`execve(2)`, `MAX_ARG_STRLEN`).
const ARGUMENT: usize = (128 << 10) - 1;

/// What an agent is asked to do once.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct AgentRequest {
    /// The whole prompt, expanded. Empty where the user gave none.
    pub prompt: String,
    /// An agent session to continue.
    pub resume: Option<String>,
    /// With [`Self::resume`]: continue a copy, and leave the session as it is.
    pub fork: bool,
    /// Contained providers ask the agent to skip its own permission prompts; no-sandbox never does.
    pub skip_permissions: bool,
    /// It has a login, so it needs no key.
    pub logged_in: bool,
    /// The variables that it will find: what its program does not read itself may be passed on in
    /// another way.
    pub environment: BTreeMap<OsString, OsString>,
    /// Where it works, inside, where that is known: some programs ask whether they may trust it.
    pub directory: Option<PathBuf>,
}

impl AgentRequest {
    /// Nothing but this prompt.
    pub fn new(prompt: impl Into<String>) -> Self {
        Self {
            prompt: prompt.into(),
            ..Self::default()
        }
    }

    /// The prompt of an agent that does nothing without one.
    pub(super) fn prompt(&self, agent: &str) -> Result<&str, AgentError> {
        match self.prompt.trim() {
            "" => Err(AgentError::NoPrompt {
                agent: agent.to_owned(),
            }),
            _ => Ok(&self.prompt),
        }
    }

    /// The prompt of a program that takes it on its command line and does without.
    pub(super) fn argument(&self, agent: &str) -> Result<Option<&str>, AgentError> {
        if self.prompt.len() > ARGUMENT {
            return Err(AgentError::LongPrompt {
                agent: agent.to_owned(),
                bytes: self.prompt.len(),
                most: ARGUMENT,
            });
        }
        Ok(Some(self.prompt.as_str()).filter(|prompt| !prompt.trim().is_empty()))
    }

    /// The session to continue, which came out of a sandbox and goes onto a command line.
    pub(super) fn session(&self, agent: &str) -> Result<Option<&str>, AgentError> {
        let id = self.resume.as_deref();
        id.map(|id| json::session_id(agent, id)).transpose()
    }

    /// The same for an agent that can only go on with the session itself.
    pub(super) fn session_itself(&self, agent: &str) -> Result<Option<&str>, AgentError> {
        match self.session(agent)? {
            Some(_) if self.fork => Err(AgentError::NoFork {
                agent: agent.to_owned(),
            }),
            id => Ok(id),
        }
    }

    /// A variable that says something.
    pub(super) fn set(&self, name: &str) -> Option<&OsString> {
        let value = self.environment.get(OsStr::new(name));
        value.filter(|value| !value.is_empty())
    }

    /// These variables, but for those about which the user has said something.
    pub(super) fn unless_said(&self, pairs: &[(&str, &str)]) -> BTreeMap<OsString, OsString> {
        let open = |(name, _): &&(&str, &str)| !self.environment.contains_key(OsStr::new(name));
        let pairs = pairs.iter().filter(open);
        pairs
            .map(|&(name, value)| (name.into(), value.into()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_that_no_command_line_takes() {
        let request = AgentRequest::new("x".repeat(ARGUMENT));
        assert_eq!(request.argument("a").unwrap(), Some(&*request.prompt));
        let request = AgentRequest::new("x".repeat(ARGUMENT + 1));
        let refused = request.argument("a").unwrap_err();
        assert!(matches!(refused, AgentError::LongPrompt { .. }));
        assert_eq!(AgentRequest::new(" \n").argument("a").unwrap(), None);
    }

    #[test]
    fn what_the_user_said_stays() {
        let mut request = AgentRequest::new("x");
        request.environment = [("A".into(), "".into())].into();
        let added = request.unless_said(&[("A", "1"), ("B", "2")]);
        assert_eq!(added, [("B".into(), "2".into())].into());
    }
}
