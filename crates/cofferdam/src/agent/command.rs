//! Any program as an agent: the prompt on standard input, plain text on standard output.
//!
//! A line that is a completion signal and nothing else is a final message, unless it belongs to a
//! prompt that the program prints back (see `completion`).

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::Arc;

use super::completion::Echo;
use super::error::AgentError;
use super::event::{AgentEvent, UsageTold};
use super::provider::{
    AgentCommand, AgentKind, AgentOptions, AgentProgram, AgentProvider, StreamParser,
};
use super::request::AgentRequest;

const NAME: &str = "command";

pub(super) const KIND: AgentKind = AgentKind {
    name: NAME,
    about: "any program; the prompt is its standard input",
    install: "",
    npm: None,
    tried: true,
    not_needed: &[],
    build: |options| {
        for (option, given) in [
            ("model", options.model.is_some()),
            ("effort", options.effort.is_some()),
        ] {
            if given {
                return Err(AgentError::NoOption {
                    agent: NAME,
                    option,
                });
            }
        }
        Ok(Arc::new(Command::new(options.arguments)?))
    },
};

/// A program with its arguments; see the module.
#[derive(Debug, Clone)]
pub struct Command {
    arguments: Vec<OsString>,
}

impl Command {
    /// `arguments`: the program and its arguments; an error if there is no program.
    pub fn new(
        arguments: impl IntoIterator<Item = impl Into<OsString>>,
    ) -> Result<Self, AgentError> {
        let arguments: Vec<OsString> = arguments.into_iter().map(Into::into).collect();
        match arguments.first() {
            Some(program) if !program.is_empty() => Ok(Self { arguments }),
            _ => Err(AgentError::NoProgram { agent: NAME }),
        }
    }
}

impl AgentProvider for Command {
    fn name(&self) -> &str {
        NAME
    }

    fn options(&self) -> AgentOptions {
        AgentOptions::with_arguments(&self.arguments)
    }

    fn environment(&self) -> &[&str] {
        &[]
    }

    fn program(&self) -> Option<AgentProgram<'_>> {
        let name = self.arguments.first()?;
        Some(AgentProgram {
            name,
            directories: &[],
        })
    }

    fn usage_told(&self) -> Option<UsageTold> {
        Some(UsageTold::Nothing)
    }

    fn command(&self, request: &AgentRequest) -> Result<AgentCommand, AgentError> {
        if request.resume.is_some() {
            return Err(AgentError::NoResume {
                agent: NAME.to_owned(),
            });
        }
        Ok(AgentCommand {
            arguments: self.arguments.clone(),
            stdin: Some(request.prompt.clone().into_bytes()),
            environment: BTreeMap::new(),
        })
    }

    fn interactive(&self, request: &AgentRequest) -> Result<AgentCommand, AgentError> {
        let command = self.command(request)?;
        Ok(AgentCommand {
            stdin: None,
            ..command
        })
    }

    fn parser(&self, request: &AgentRequest, signals: &[String]) -> Box<dyn StreamParser> {
        Box::new(Parser {
            echo: Echo::new(&request.prompt, signals),
        })
    }
}

#[derive(Debug)]
struct Parser {
    echo: Echo,
}

impl StreamParser for Parser {
    fn line(&mut self, line: &[u8], truncated: bool) -> Vec<AgentEvent> {
        let text = String::from_utf8_lossy(line);
        let said = self.echo.line(&text, truncated);
        let text = text.into_owned();
        let shown = if truncated {
            AgentEvent::Raw { line: text }
        } else {
            AgentEvent::Text { text }
        };
        let mut events = vec![shown];
        events.extend(said.into_iter().map(result));
        events
    }

    fn end(&mut self) -> Vec<AgentEvent> {
        self.echo.end().map(result).into_iter().collect()
    }
}

fn result(text: String) -> AgentEvent {
    AgentEvent::Result {
        text,
        is_error: false,
    }
}
