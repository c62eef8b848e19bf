//! Programs in a living sandbox.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use super::{Session, SessionError};
use crate::sandbox::{Ability, ExecRequest, Execution, Listed, PortStream, TerminalSize};
use crate::session::form::Form;
use crate::session::ports::{self, Unpublished};
use crate::session::starting::{self, start};
use crate::session::variables;

/// A program to start. It gets the sandbox's own variables, those of `.cofferdam/.env`, and these.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct SessionExec {
    /// The program and what it is called with.
    pub arguments: Vec<OsString>,
    /// Variables of this start, over the others.
    pub environment: BTreeMap<OsString, OsString>,
    /// The top of the repository inside unless given; a relative path is below it.
    pub directory: Option<PathBuf>,
    /// Whether something will be written to its standard input.
    pub stdin: bool,
    /// It gets a terminal of this size instead of three streams, from providers with [`Ability::Terminal`].
    pub terminal: Option<TerminalSize>,
}

impl SessionExec {
    /// The program and its arguments, with no variables of its own.
    pub fn new(arguments: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        Self {
            arguments: arguments.into_iter().map(Into::into).collect(),
            ..Self::default()
        }
    }
}

/// Names a program of a sandbox: `START.NUMBER`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProgramId {
    /// Counts the starts of the sandbox.
    pub start: u32,
    /// The sandbox's own number for it since then.
    pub number: u64,
}

impl std::fmt::Display for ProgramId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.start, self.number)
    }
}

impl std::str::FromStr for ProgramId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (start, number) = text.split_once('.').ok_or(())?;
        Ok(Self {
            start: start.parse().map_err(|_| ())?,
            number: number.parse().map_err(|_| ())?,
        })
    }
}

impl Session {
    /// Counts the starts of the sandbox, as [`ProgramId::start`] does.
    pub fn starts(&self) -> Result<u32, SessionError> {
        Ok(Form::read(&self.directory())?.starts())
    }

    /// Starts a program, which ends with this session. While the sandbox's work is collected it waits: 60 s at most.
    pub async fn exec(&self, exec: SessionExec) -> Result<Box<dyn Execution>, SessionError> {
        if exec.terminal.is_some() {
            self.require(Ability::Terminal)?;
        }
        let request = self.request(exec).await?;
        let started = start(self.sandbox(), request).await;
        started.map_err(|source| self.failed(source))
    }

    /// Connects to a TCP server on the sandbox's own loopback: at 127.0.0.1, and at `::1` where nobody listens there. What
    /// it returns is its caller's alone, and goes on without this session. In one that is paused it is refused, as
    /// nobody there could answer; while the sandbox's work is collected it waits: 60 s at most. Else bounded: 10 s.
    pub async fn connect(&self, port: u16) -> Result<PortStream, SessionError> {
        self.require(Ability::Ports)?;
        self.named.check_files(&self.caller)?;
        self.see_watched().await?;
        let connected = starting::connect(self.sandbox(), port).await;
        connected.map_err(|source| self.failed(source))
    }

    /// The ports of this machine that were to lead into it ([`crate::session::SessionOptions::ports`]), and do not.
    pub fn unpublished(&self) -> Result<Vec<Unpublished>, SessionError> {
        let mut found = ports::unpublished(&self.directory())?;
        // What an earlier start has left may be of others.
        let ports = &self.record().ports;
        found.retain(|one| ports.iter().any(|port| port.host == one.port));
        Ok(found)
    }

    /// The programs that run, and those that ended lately, whoever started them. One whose starter was killed before
    /// its files had a name has them named by this.
    pub async fn programs(&self) -> Result<Vec<Listed>, SessionError> {
        // What cannot be named now, for want of room, is named the next time.
        let _ = self.find_nameless().await;
        let listed = self.sandbox.programs().await;
        listed.map_err(|source| self.failed(source))
    }

    /// Sends a signal to a program, whoever started it.
    pub async fn signal(&self, program: u64, signal: i32) -> Result<(), SessionError> {
        let sent = self.sandbox.signal(program, signal).await;
        sent.map_err(|source| self.failed(source))
    }

    pub(super) async fn request(&self, exec: SessionExec) -> Result<ExecRequest, SessionError> {
        self.named.check_files(&self.caller)?;
        // It may have been killed since this session began.
        self.see_watched().await?;
        let form = Form::read(&self.directory())?;
        let given = form.environment();
        let resolved = variables::of_a_session(&self.caller, &given, &self.named.located).await;
        let (mut environment, _) = resolved?;
        environment.extend(exec.environment);
        Ok(ExecRequest {
            arguments: exec.arguments,
            environment,
            directory: exec
                .directory
                .map(|directory| form.workdir().join(directory)),
            stdin: exec.stdin,
            terminal: exec.terminal,
            detached: None,
        })
    }
}
