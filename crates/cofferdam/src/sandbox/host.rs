//! No sandbox: a person's agent on the host itself, with its own permission prompts on. [`crate::interactive`] alone takes it.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use rustix::process::Signal;
use tokio::process::Child;
use tokio_util::sync::CancellationToken;

use super::{
    Abilities, Ability, BindMountProvider, BoxRead, BoxWrite, BranchStrategy, ExecRequest,
    Execution, NetworkKind, Sandbox, SandboxError, SandboxSpec, Terminal, guest, native, unable,
};
use crate::process::{self, Exit};
use crate::text;

/// How long a program may take to end whose terminal has gone.
const HANG_UP_GRACE: Duration = Duration::from_secs(5);

/// What stands for it where a provider is named.
pub const NAME: &str = "none";

/// The no-sandbox provider, with its branch strategy. There is no conversion to [`super::Contained`]: what works without a
/// person does not take it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoSandbox {
    pub(crate) strategy: BranchStrategy,
}

impl NoSandbox {
    /// An agent of this `strategy` on the host itself: nothing contains it.
    pub fn new(strategy: BranchStrategy) -> Self {
        Self { strategy }
    }
}

impl Default for NoSandbox {
    /// With [`BranchStrategy::Head`].
    fn default() -> Self {
        Self::new(BranchStrategy::Head)
    }
}

/// What stands where a provider does.
#[derive(Debug)]
pub(crate) struct Host {
    /// Of its user: all of it is the program's.
    pub(crate) environment: BTreeMap<OsString, OsString>,
}

#[async_trait]
impl BindMountProvider for Host {
    fn name(&self) -> &'static str {
        NAME
    }

    fn lacks(&self, program: &OsStr, search_path: Option<&OsStr>) -> bool {
        native::is_nowhere(program, search_path)
    }

    fn abilities(&self) -> Abilities {
        Abilities {
            networks: &[NetworkKind::Open],
            others: &[Ability::Terminal, Ability::Git],
        }
    }

    async fn create(
        &self,
        spec: &SandboxSpec,
        _cancel: &CancellationToken,
    ) -> Result<Arc<dyn Sandbox>, SandboxError> {
        Ok(Arc::new(OnHost {
            directory: spec.workdir.clone(),
            environment: self.environment.clone(),
            left: Left::default(),
        }))
    }
}

/// A directory of the host's, in which a person's program works.
#[derive(Debug)]
struct OnHost {
    directory: PathBuf,
    environment: BTreeMap<OsString, OsString>,
    left: Left,
}

/// The program that was left before its end.
type Left = Arc<Mutex<Option<Child>>>;

#[async_trait]
impl Sandbox for OnHost {
    /// On a terminal.
    async fn exec(&self, request: ExecRequest) -> Result<Box<dyn Execution>, SandboxError> {
        let Some(size) = request.terminal else {
            return Err(SandboxError::Start(
                "without a sandbox there are programs on a terminal alone".into(),
            ));
        };
        let mut environment = self.environment.clone();
        environment.extend(request.environment);
        let directory = request.directory.as_ref().unwrap_or(&self.directory);
        let started = process::start_on_terminal(&request.arguments, &environment, directory);
        let (child, terminal) = started.map_err(|error| not_started(&request.arguments, &error))?;
        let mut execution = HostExecution {
            child: Some(child),
            terminal: None,
            left: Arc::clone(&self.left),
        };
        let terminal = guest::terminal_of(terminal, size).map_err(guest::start_error)?;
        execution.terminal = Some(terminal);
        Ok(Box::new(execution))
    }

    /// A program that was left has no terminal any more, and ends by that; else it is made to.
    async fn close(&self) -> Result<(), SandboxError> {
        let left = self
            .left
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let Some(mut child) = left else { return Ok(()) };
        if tokio::time::timeout(HANG_UP_GRACE, child.wait())
            .await
            .is_err()
        {
            process::signal_session(&child, Signal::KILL);
            let _ = child.wait().await;
        }
        Ok(())
    }
}

fn not_started(arguments: &[OsString], error: &io::Error) -> SandboxError {
    let program = arguments.first().map(OsString::as_os_str);
    SandboxError::HostProgram {
        program: text::printable_bytes_line(program.unwrap_or_default().as_bytes()),
        reason: match error.kind() {
            io::ErrorKind::NotFound => "there is no such program".to_owned(),
            _ => error.to_string(),
        },
    }
}

#[derive(Debug)]
struct HostExecution {
    /// Until it is left.
    child: Option<Child>,
    terminal: Option<Terminal>,
    left: Left,
}

#[async_trait]
impl Execution for HostExecution {
    fn take_terminal(&mut self) -> Option<Terminal> {
        self.terminal.take()
    }

    fn take_stdin(&mut self) -> Option<BoxWrite> {
        None
    }

    fn take_stdout(&mut self) -> Option<BoxRead> {
        None
    }

    fn take_stderr(&mut self) -> Option<BoxRead> {
        None
    }

    async fn wait(&mut self) -> Result<Exit, SandboxError> {
        let gone = |error: io::Error| SandboxError::Gone(error.to_string());
        let Some(child) = &mut self.child else {
            return Err(unable(Ability::Outlive));
        };
        Ok(child.wait().await.map_err(gone)?.into())
    }

    async fn kill(&mut self, signal: i32) -> Result<(), SandboxError> {
        let signal = Signal::from_named_raw(signal);
        if let (Some(child), Some(signal)) = (&self.child, signal) {
            process::signal_session(child, signal);
        }
        Ok(())
    }
}

impl Drop for HostExecution {
    fn drop(&mut self) {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        *left = self.child.take();
    }
}
