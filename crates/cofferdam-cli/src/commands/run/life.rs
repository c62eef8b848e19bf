//! Where an agent works: in a sandbox that ends with it, in one that is kept, or in one that was there before.

use cofferdam::sandbox::host::NoSandbox;
use cofferdam::session::living::{Condition, Named};
use cofferdam::session::{HostOptions, RunErrorKind, RunReport, Session, SessionError};
use cofferdam::{RunError, RunOptions};

use super::LEAVING;
use super::arguments::Arguments;
use crate::ui::shell::shell_word;

/// How long the agent's sandbox lives.
#[derive(Debug)]
pub(super) enum Life {
    /// As long as the agent.
    Run,
    Kept,
    /// It was there before, and is there afterwards.
    In(String),
    /// There is none.
    OnHost,
}

impl Life {
    pub(super) fn of(arguments: &Arguments) -> Self {
        match &arguments.within {
            Some(name) => Self::In(name.clone()),
            None if arguments.keep => Self::Kept,
            None if arguments.on_host => Self::OnHost,
            None => Self::Run,
        }
    }

    /// What is said to who does not wait for its commits.
    pub(super) fn leaving(&self) -> String {
        match self {
            Self::Run | Self::OnHost => LEAVING.to_owned(),
            Self::Kept => "leaving at once; `cofferdam collect SANDBOX` brings home what is left, and `cofferdam list` names it".to_owned(),
            Self::In(name) => format!(
                "leaving at once; `cofferdam collect {}` brings home what is left",
                shell_word(name)
            ),
        }
    }

    /// Whether the sandbox is there when the agent has ended.
    pub(super) fn stays(&self) -> bool {
        matches!(self, Self::Kept | Self::In(_))
    }
}

/// Runs the agent to its end.
pub(super) async fn work(options: RunOptions, life: &Life) -> Result<RunReport, RunError> {
    let caller = &options.caller;
    let session = match life {
        Life::Run => return Box::pin(cofferdam::run(options)).await,
        Life::OnHost => return Box::pin(on_host(options)).await,
        Life::Kept => {
            cofferdam::session::check(&options).await?;
            Box::pin(Session::create(caller, &options.session)).await?
        }
        Life::In(name) => {
            let named = Named::find(caller, &options.session.repository, name);
            let named = named.await.map_err(before)?;
            let provider = named.provider(caller).map_err(before)?;
            let session = Session::open(caller, named, &provider).await;
            let session = session.map_err(before)?;
            if session.condition().await.map_err(before)? == Condition::Paused {
                let name = session.name().to_string();
                return Err(before(SessionError::Paused { name }));
            }
            session
        }
    };
    session.agent(&options.task).await
}

/// At the person's own risk, with what was said of a sandbox put aside.
async fn on_host(options: RunOptions) -> Result<RunReport, RunError> {
    let RunOptions {
        caller,
        session,
        mut task,
    } = options;
    // Only `interactive` gets here.
    let Some(attendant) = task.attendant.take() else {
        return Err(RunError {
            kind: RunErrorKind::Cancelled,
            kept: Box::default(),
        });
    };
    let mut options = HostOptions::new(caller, session.repository, task);
    options.sandbox = NoSandbox::new(session.sandbox.strategy());
    options.name = session.name;
    options.copy = session.copy;
    options.worktree_ready = session.hooks.host_worktree_ready;
    options.environment = session.environment;
    cofferdam::interactive(options, attendant).await
}

/// No agent was started.
fn before(error: SessionError) -> RunError {
    RunError {
        kind: RunErrorKind::Session(Box::new(error)),
        kept: Box::default(),
    }
}
