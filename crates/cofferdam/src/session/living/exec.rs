//! Programs in a living sandbox.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::{Named, Session, SessionError};
use crate::fsx::{self, Context, FileError};
use crate::sandbox::{Detached, ExecRequest, Execution, Exit, Listed, TerminalSize};
use crate::session::form::Form;
use crate::session::options::Caller;
use crate::session::variables;

/// Of the file that tells a program's end.
const END_LIMIT: u64 = 4096;

/// A program to start. It gets the sandbox's own variables, those of `.cofferdam/.env`, and these.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct SessionExec {
    pub arguments: Vec<OsString>,
    pub environment: BTreeMap<OsString, OsString>,
    /// The top of the repository inside unless given; a relative path is below it.
    pub directory: Option<PathBuf>,
    /// Whether something will be written to its standard input.
    pub stdin: bool,
    pub terminal: Option<TerminalSize>,
}

impl SessionExec {
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

/// A program that goes on without whoever started it, and its files in the state directory.
#[derive(Debug)]
pub struct Program {
    /// By which it is named from now on: which start of the sandbox, and which of its programs.
    pub id: ProgramId,
    pub output: PathBuf,
    pub end: PathBuf,
}

impl Program {
    /// How it ended. `None`: it runs, or the sandbox ended first.
    pub fn exit(&self) -> Result<Option<Exit>, FileError> {
        match fsx::read_bounded(&self.end, END_LIMIT) {
            Ok(said) => Ok(Detached::read_end(&said)),
            // It has its output's name before its end's.
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// The programs that were left running in this start of the sandbox and in earlier ones, oldest first; also where it is
/// stopped.
pub fn left_running(caller: &Caller, named: &Named) -> Result<Vec<Program>, SessionError> {
    let programs = caller.home.sandbox(named.id()).join(PROGRAMS);
    let mut found = Vec::new();
    let entries = match std::fs::read_dir(&programs).context("read", &programs) {
        Err(error) if error.is_not_found() => return Ok(found),
        entries => entries?,
    };
    for entry in entries {
        let name = entry.context("read", &programs)?.file_name();
        let id = name.to_str().and_then(|name| name.strip_suffix(".log"));
        if let Some(id) = id.and_then(|id| id.parse().ok()) {
            let (output, end) = files_of(&programs, id);
            found.push(Program { id, output, end });
        }
    }
    found.sort_by_key(|program| program.id);
    Ok(found)
}

impl Session {
    /// Counts the starts of the sandbox, as [`ProgramId::start`] does.
    pub fn starts(&self) -> Result<u32, SessionError> {
        Ok(Form::read(&self.directory())?.starts())
    }

    /// Starts a program, which ends with this session.
    pub async fn exec(&self, exec: SessionExec) -> Result<Box<dyn Execution>, SessionError> {
        let request = self.request(exec).await?;
        let started = self.sandbox.exec(request).await;
        started.map_err(|source| self.failed(source))
    }

    /// Starts a program that goes on until it ends or the sandbox does. What it prints is kept, 64 MiB at most.
    pub async fn exec_detached(&self, exec: SessionExec) -> Result<Program, SessionError> {
        let programs = self.directory().join(PROGRAMS);
        fsx::private_dir(&programs)?;
        let mut request = self.request(exec).await?;
        (request.stdin, request.terminal) = (false, None);
        // Named anew by its number, which only its start tells.
        let name = format!("new-{}-{}", std::process::id(), unique());
        let (output, end) = (
            programs.join(format!("{name}.log")),
            programs.join(format!("{name}.end")),
        );
        request.detached = Some(Detached {
            output: output.clone(),
            end: end.clone(),
        });
        let started = self.sandbox.exec(request).await;
        let started = started.map_err(|source| self.failed(source))?;
        let number = started.number().unwrap_or_default();
        let id = ProgramId {
            start: Form::read(&self.directory())?.starts(),
            number,
        };
        let (log, ended) = files_of(&programs, id);
        std::fs::rename(&output, &log).context("rename", &output)?;
        std::fs::rename(&end, &ended).context("rename", &end)?;
        Ok(Program {
            id,
            output: log,
            end: ended,
        })
    }

    /// The programs that run, and those that ended lately, whoever started them.
    pub async fn programs(&self) -> Result<Vec<Listed>, SessionError> {
        let listed = self.sandbox.programs().await;
        listed.map_err(|source| self.failed(source))
    }

    /// Sends a signal to a program, whoever started it.
    pub async fn signal(&self, program: u64, signal: i32) -> Result<(), SessionError> {
        let sent = self.sandbox.signal(program, signal).await;
        sent.map_err(|source| self.failed(source))
    }

    async fn request(&self, exec: SessionExec) -> Result<ExecRequest, SessionError> {
        let form = Form::read(&self.directory())?;
        let given = form.environment();
        let resolved = variables::of_a_session(&self.caller, &given, &self.named.repository).await;
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

/// Where the programs that go on leave what they print.
pub(super) const PROGRAMS: &str = "programs";

/// What a program that goes on prints, and its end.
pub(super) fn files_of(programs: &Path, id: ProgramId) -> (PathBuf, PathBuf) {
    (
        programs.join(format!("{id}.log")),
        programs.join(format!("{id}.end")),
    )
}

fn unique() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}
