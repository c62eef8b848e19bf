//! What a person works on with an agent that is in no sandbox.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use super::network_options::NetworkOptions;
use super::options::{Caller, Hook, RunOptions, SessionOptions, Task};
use crate::sandbox::BindMount;
use crate::sandbox::host::{Host, NoSandbox};

/// A person's work with an agent on this machine itself: see [`crate::interactive`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct HostOptions {
    /// The agent's program has all variables of [`Caller::environment`].
    pub caller: Caller,
    /// A directory in the repository to work on.
    pub repository: PathBuf,
    /// Where the agent works: in no sandbox.
    pub sandbox: NoSandbox,
    /// Names its temporary branch and its log.
    pub name: Option<String>,
    /// Paths below the repository's top to copy into a worktree (not with `head`). One that is not there is an error.
    pub copy: Vec<PathBuf>,
    /// As [`super::Hooks::host_worktree_ready`].
    pub worktree_ready: Vec<Hook>,
    /// More variables for the agent's program.
    pub environment: BTreeMap<OsString, OsString>,
    /// A template may have no shell expressions: there is no sandbox for them.
    pub task: Task,
}

impl HostOptions {
    /// In the checkout itself ([`NoSandbox::default`]).
    pub fn new(caller: Caller, repository: impl Into<PathBuf>, task: Task) -> Self {
        Self {
            caller,
            repository: repository.into(),
            sandbox: NoSandbox::default(),
            name: None,
            copy: Vec::new(),
            worktree_ready: Vec::new(),
            environment: BTreeMap::new(),
            task,
        }
    }
}

/// What a person works in with an agent, of all three kinds.
#[derive(Debug, Clone)]
pub enum Interactive {
    /// In a sandbox.
    Inside(Box<RunOptions>),
    /// On this machine itself, by its user's own choice.
    OnHost(Box<HostOptions>),
}

impl From<RunOptions> for Interactive {
    fn from(options: RunOptions) -> Self {
        Self::Inside(Box::new(options))
    }
}

impl From<HostOptions> for Interactive {
    fn from(options: HostOptions) -> Self {
        Self::OnHost(Box::new(options))
    }
}

impl Interactive {
    /// The steps are those of a run.
    pub(super) fn into_run(self) -> RunOptions {
        let options = match self {
            Self::Inside(options) => return *options,
            Self::OnHost(options) => *options,
        };
        let host = Host {
            environment: options.caller.environment.clone(),
        };
        let sandbox = BindMount::new(host, options.sandbox.strategy);
        let mut session = SessionOptions::new(options.repository, sandbox);
        session.on_host = true;
        session.name = options.name;
        session.copy = options.copy;
        session.hooks.host_worktree_ready = options.worktree_ready;
        session.environment = options.environment;
        session.network = NetworkOptions::Open;
        RunOptions {
            caller: options.caller,
            session,
            task: options.task,
        }
    }
}
