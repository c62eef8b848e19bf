//! What an agent is to the rest: a command, a parser, and the trait that ties them.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::sync::Arc;

use super::access::Access;
use super::error::AgentError;
use super::event::{AgentEvent, UsageTold};
use super::first_start::HomeFile;
use super::login::LoginFormat;
use super::quota::{self, Quota};
use super::request::AgentRequest;
use super::sessions::SessionFiles;

/// How an agent is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentCommand {
    /// `argv`, never through a shell.
    pub arguments: Vec<OsString>,
    /// Written to standard input, which is then closed. Prompts go this way where the agent takes
    /// them so: no length limit, nothing in the process list.
    pub stdin: Option<Vec<u8>>,
    /// Added to the sandbox's environment.
    pub environment: BTreeMap<OsString, OsString>,
}

/// What a user may choose about an agent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AgentOptions {
    /// In the agent's own words.
    pub model: Option<String>,
    /// How hard it should think, in the agent's own words.
    pub effort: Option<String>,
    /// More arguments for the agent's program; for `command`, the program and its arguments.
    pub arguments: Vec<OsString>,
}

impl AgentOptions {
    /// These [`AgentOptions::arguments`], and nothing else chosen.
    pub fn with_arguments<A: Into<OsString>>(arguments: impl IntoIterator<Item = A>) -> Self {
        Self {
            arguments: arguments.into_iter().map(Into::into).collect(),
            ..Self::default()
        }
    }

    /// For agents whose programs have no such choice.
    pub(super) fn without_effort(&self, agent: &'static str) -> Result<(), AgentError> {
        match self.effort {
            None => Ok(()),
            Some(_) => Err(AgentError::NoOption {
                agent,
                option: "effort",
            }),
        }
    }
}

/// One entry of the registry. Adding an agent is a new file with one of these, and a line in
/// [`super::AGENTS`] (S2-33).
#[derive(Debug)]
pub struct AgentKind {
    /// What the agent is called on the command line and in files.
    pub name: &'static str,
    /// For help texts: a fragment.
    pub about: &'static str,
    /// The command that installs its program for one user; empty where there is no such program.
    pub install: &'static str,
    /// How an image of ours would get it, at a version that somebody chose.
    pub npm: Option<Npm>,
    /// Whether what is written here was tried with the real program.
    pub tried: bool,
    /// Hosts that take its makers' own figures and experiments, and that are not in the built-in list: it works as
    /// well without them.
    pub not_needed: &'static [&'static str],
    pub(super) build: fn(AgentOptions) -> Result<Arc<dyn AgentProvider>, AgentError>,
}

/// A program in the registry of npm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Npm {
    /// Its name there, without a version.
    pub package: &'static str,
    /// The oldest Node.js that it says it is for, by its first number. On an older one `npm` installs an older
    /// version, without a word, wherever none is named.
    pub node: Option<u32>,
}

/// The program of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgentProgram<'a> {
    /// As it is looked up.
    pub name: &'a OsStr,
    /// Directories, relative to a user's home, that hold its program as its own installer puts it there: neither
    /// settings nor logins are in them.
    pub directories: &'a [&'a str],
}

/// Turns an agent's standard output into events, line by line.
pub trait StreamParser: Send + fmt::Debug {
    /// One line without its line feed. `truncated`: the line was longer than the bound and the rest
    /// was dropped.
    fn line(&mut self, line: &[u8], truncated: bool) -> Vec<AgentEvent>;

    /// The output has ended.
    fn end(&mut self) -> Vec<AgentEvent>;
}

/// Where an agent's program finds its model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BaseUrl {
    /// The variable that says it.
    pub variable: &'static str,
    /// Where it is unless the variable says something else.
    pub usual: &'static str,
}

/// An agent: how to start it and how to read it. Users may write their own.
pub trait AgentProvider: Send + Sync + fmt::Debug {
    /// What it is called, in messages and in records.
    fn name(&self) -> &str;

    /// What its user chose, to start the same once more.
    fn options(&self) -> AgentOptions {
        AgentOptions::default()
    }

    /// Names of variables that this agent takes from the caller's environment.
    fn environment(&self) -> &[&str];

    /// The login that its program keeps in a file.
    fn login(&self) -> Option<&LoginFormat> {
        None
    }

    /// Where its program finds its model, as far as that is known: what the network refuses there is said
    /// before anything starts.
    fn base_url(&self, logged_in: bool) -> Option<BaseUrl> {
        let _ = logged_in;
        None
    }

    /// The program that it starts, so that a sandbox can show the one that the user has.
    fn program(&self) -> Option<AgentProgram<'_>> {
        None
    }

    /// Whether it will be let in where its model is, with these variables and with a login or without.
    fn access(&self, _environment: &BTreeMap<OsString, OsString>, _logged_in: bool) -> Access {
        Access::Unknown
    }

    /// What its program tells of what it uses; `None`: nobody knows.
    fn usage_told(&self) -> Option<UsageTold> {
        None
    }

    /// Whether the cost that its program tells is that of the whole conversation, also of what was before it was resumed.
    fn tells_cost_of_conversation(&self) -> bool {
        false
    }

    /// Whether its program says at every end how it went, by an [`super::AgentEvent::Result`]: where that is missing the work was not
    /// done to its end, whatever the exit code is.
    fn tells_its_end(&self) -> bool {
        false
    }

    /// Whether an error that its program reports says that a limit of the model's was reached.
    fn quota(&self, error: &str) -> Option<Quota> {
        quota::quota(error)
    }

    /// The command of one start. Fails where the agent cannot serve the request; nothing is started then.
    fn command(&self, request: &AgentRequest) -> Result<AgentCommand, AgentError>;

    /// The command of its own terminal interface, with the prompt as its first message where there is one. Its
    /// standard input is the user's.
    fn interactive(&self, _request: &AgentRequest) -> Result<AgentCommand, AgentError> {
        Err(AgentError::NoInteractive {
            agent: self.name().to_owned(),
        })
    }

    /// What its terminal interface would ask somebody who never used it, as files for a sandbox.
    fn first_start(&self, _request: &AgentRequest) -> Vec<HomeFile> {
        Vec::new()
    }

    /// Where its program keeps its conversation records; `None` where that is not known.
    fn sessions(&self) -> Option<SessionFiles> {
        None
    }

    /// A fresh parser for one iteration. `signals` are the completion signals in force; the parser
    /// of a plain-text agent needs them to tell a final message from an echoed prompt.
    fn parser(&self, request: &AgentRequest, signals: &[String]) -> Box<dyn StreamParser>;
}
