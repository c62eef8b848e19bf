//! The boundary: what a sandbox provider is given, what it gives back, and which of the two kinds
//! it is. Providers are open traits; users write their own outside of this crate.
//!
//! A provider knows nothing of agents, prompts or branches. It gets plain data ([`SandboxSpec`]).

pub mod host;
pub mod native;
mod spec;

use std::ffi::OsStr;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

pub use crate::network::NetworkKind;
pub use crate::process::Exit;
pub use spec::{
    Access, ExecRequest, HostProgram, Limits, Mount, MountSource, Network, SandboxSpec,
};

use crate::names::BranchName;
use crate::wall::{Registration, WallError};

/// Why a provider could not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// This machine cannot give what the profile promises. Nothing was started.
    #[error("{what}")]
    Unsupported {
        /// Which part, as a sentence fragment that names the object.
        what: String,
        /// The next step for the user.
        hint: String,
    },
    /// The program does not exist inside, or cannot be executed.
    #[error("cannot run `{program}` in the sandbox: {reason}")]
    Program { program: String, reason: String },
    #[error("the sandbox did not come up: {0}")]
    Start(String),
    /// The sandbox, or contact with it, is gone. Its processes are dead.
    #[error("the sandbox is gone: {0}")]
    Gone(String),
    /// No sandbox starts without the wall that it was to have.
    #[error("the sandbox has no wall: {0}")]
    Wall(#[from] WallError),
    #[error("the sandbox did not answer within {0} s")]
    TimedOut(u64),
    #[error("cancelled")]
    Cancelled,
}

pub type BoxRead = Box<dyn AsyncRead + Send + Unpin>;
pub type BoxWrite = Box<dyn AsyncWrite + Send + Unpin>;

/// A running sandbox. Dropping it ends every process in it.
#[async_trait]
pub trait Sandbox: Send + Sync + fmt::Debug {
    /// Starts a program as the sandbox's agent user. Returns when the program has been executed or
    /// could not be: a missing program is [`SandboxError::Program`] at once.
    async fn exec(&self, request: ExecRequest) -> Result<Box<dyn Execution>, SandboxError>;

    /// Ends every process and frees what the sandbox held. Idempotent. Bounded: 10 s.
    async fn close(&self) -> Result<(), SandboxError>;

    /// What keeps it behind the wall, where [`SandboxSpec::network`] is [`Network::Wall`].
    fn wall(&self) -> Option<&Registration> {
        None
    }

    /// Stops every program inside until [`Sandbox::thaw`]; nothing of the agent runs when this
    /// returns. A provider that cannot says so.
    async fn freeze(&self) -> Result<(), SandboxError> {
        Err(SandboxError::Unsupported {
            what: "this sandbox cannot stop its programs for a while".to_owned(),
            hint: "close it instead".to_owned(),
        })
    }

    /// Lets what [`Sandbox::freeze`] stopped go on.
    async fn thaw(&self) -> Result<(), SandboxError> {
        Err(SandboxError::Unsupported {
            what: "this sandbox cannot stop its programs for a while".to_owned(),
            hint: "close it instead".to_owned(),
        })
    }
}

/// A program that runs in a sandbox. Dropping it does not end the program; [`Execution::kill`],
/// [`Sandbox::close`] or dropping the sandbox does.
#[async_trait]
pub trait Execution: Send + fmt::Debug {
    /// Present once, and only where the request asked for [`spec::ExecRequest::stdin`].
    fn take_stdin(&mut self) -> Option<BoxWrite>;
    /// Present once.
    fn take_stdout(&mut self) -> Option<BoxRead>;
    /// Present once.
    fn take_stderr(&mut self) -> Option<BoxRead>;
    /// Waits for the program itself (not for what it left running). Cancel safe.
    async fn wait(&mut self) -> Result<Exit, SandboxError>;
    /// Sends a signal to the program's process group; `SIGKILL` reaches also what left the group
    /// where the provider can tell.
    async fn kill(&mut self, signal: i32) -> Result<(), SandboxError>;
}

/// A provider that can mount host directories into a sandbox.
#[async_trait]
pub trait BindMountProvider: Send + Sync + fmt::Debug {
    /// A short name for messages and `list`: "native", "docker" …
    fn name(&self) -> &str;

    /// Refuses limits that this machine cannot give, before anything is made. [`Self::create`] refuses
    /// them too.
    fn check_limits(&self, _limits: &Limits) -> Result<(), SandboxError> {
        Ok(())
    }

    /// Whether its sandboxes have no program of that name (a plain name or an absolute path), as far as a few looks
    /// at the caller's files tell. `search_path`: the caller's `PATH`.
    fn lacks(&self, _program: &OsStr, _search_path: Option<&OsStr>) -> bool {
        false
    }

    /// The networks that its sandboxes can have: it fails none of them silently. Who says nothing
    /// promises nothing: its sandboxes reach whatever they reach, and only [`NetworkKind::Open`] may
    /// be asked for.
    fn networks(&self) -> &[NetworkKind] {
        &[NetworkKind::Open]
    }

    async fn create(
        &self,
        spec: &SandboxSpec,
        cancel: &CancellationToken,
    ) -> Result<Arc<dyn Sandbox>, SandboxError>;
}

/// A provider whose sandboxes have a file system of their own: files are streamed in, packs out.
#[async_trait]
pub trait IsolatedProvider: Send + Sync + fmt::Debug {
    fn name(&self) -> &str;

    /// As [`BindMountProvider::networks`].
    fn networks(&self) -> &[NetworkKind] {
        &[NetworkKind::Open]
    }

    /// `spec.mounts` is empty.
    async fn create(
        &self,
        spec: &SandboxSpec,
        cancel: &CancellationToken,
    ) -> Result<Arc<dyn IsolatedSandbox>, SandboxError>;
}

/// A running sandbox with a file system of its own.
#[async_trait]
pub trait IsolatedSandbox: Sandbox {
    /// Copies the host directory `source` (regular files, directories and symlinks as they are) to
    /// the absolute path `target` inside, owned by the agent user.
    async fn copy_in(&self, source: &Path, target: &Path) -> Result<(), SandboxError>;
}

/// How the agent's changes relate to branches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BranchStrategy {
    /// Work in the host's working directory itself; commits land on the checked-out branch.
    Head,
    /// Work on a temporary branch in a worktree; merge it into the checked-out branch at the end.
    MergeToHead,
    /// Commits land on this branch. A branch that does not exist yet starts at `base`, or at HEAD.
    Branch {
        branch: BranchName,
        base: Option<String>,
    },
}

/// The strategies of a sandbox that cannot work in the host's directory itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CopyStrategy {
    MergeToHead,
    Branch {
        branch: BranchName,
        base: Option<String>,
    },
}

impl From<CopyStrategy> for BranchStrategy {
    fn from(strategy: CopyStrategy) -> Self {
        match strategy {
            CopyStrategy::MergeToHead => Self::MergeToHead,
            CopyStrategy::Branch { branch, base } => Self::Branch { branch, base },
        }
    }
}

/// A bind-mount sandbox provider with its branch strategy.
#[derive(Debug, Clone)]
pub struct BindMount {
    pub(crate) provider: Arc<dyn BindMountProvider>,
    pub(crate) strategy: BranchStrategy,
}

impl BindMount {
    pub fn new(provider: impl BindMountProvider + 'static, strategy: BranchStrategy) -> Self {
        Self {
            provider: Arc::new(provider),
            strategy,
        }
    }
}

/// A provider that could mount, used so that the sandbox works on a private copy of the tree.
#[derive(Debug, Clone)]
pub struct PrivateCopy {
    pub(crate) provider: Arc<dyn BindMountProvider>,
    pub(crate) strategy: CopyStrategy,
}

impl PrivateCopy {
    pub fn new(provider: impl BindMountProvider + 'static, strategy: CopyStrategy) -> Self {
        Self {
            provider: Arc::new(provider),
            strategy,
        }
    }
}

/// An isolated sandbox provider with its branch strategy. `head` is not among them: such a sandbox
/// cannot write to the host's directory.
#[derive(Debug, Clone)]
pub struct Isolated {
    pub(crate) provider: Arc<dyn IsolatedProvider>,
    pub(crate) strategy: CopyStrategy,
}

impl Isolated {
    pub fn new(provider: impl IsolatedProvider + 'static, strategy: CopyStrategy) -> Self {
        Self {
            provider: Arc::new(provider),
            strategy,
        }
    }
}

/// A sandbox that contains the agent: the kinds that [`crate::run`] takes. There is no conversion
/// from [`host::NoSandbox`], so an unattended run without a sandbox does not compile.
#[derive(Debug, Clone)]
pub enum Contained {
    BindMount(BindMount),
    PrivateCopy(PrivateCopy),
    Isolated(Isolated),
}

impl Contained {
    pub fn provider_name(&self) -> &str {
        match self {
            Self::BindMount(kind) => kind.provider.name(),
            Self::PrivateCopy(kind) => kind.provider.name(),
            Self::Isolated(kind) => kind.provider.name(),
        }
    }

    pub(crate) fn networks(&self) -> &[NetworkKind] {
        match self {
            Self::BindMount(kind) => kind.provider.networks(),
            Self::PrivateCopy(kind) => kind.provider.networks(),
            Self::Isolated(kind) => kind.provider.networks(),
        }
    }

    pub(crate) fn check_limits(&self, limits: &Limits) -> Result<(), SandboxError> {
        match self {
            Self::BindMount(kind) => kind.provider.check_limits(limits),
            Self::PrivateCopy(kind) => kind.provider.check_limits(limits),
            Self::Isolated(_) => Ok(()),
        }
    }

    pub(crate) fn lacks(&self, program: &OsStr, search_path: Option<&OsStr>) -> bool {
        match self {
            Self::BindMount(kind) => kind.provider.lacks(program, search_path),
            Self::PrivateCopy(kind) => kind.provider.lacks(program, search_path),
            Self::Isolated(_) => false,
        }
    }

    pub fn strategy(&self) -> BranchStrategy {
        match self {
            Self::BindMount(kind) => kind.strategy.clone(),
            Self::PrivateCopy(kind) => kind.strategy.clone().into(),
            Self::Isolated(kind) => kind.strategy.clone().into(),
        }
    }
}

impl From<BindMount> for Contained {
    fn from(kind: BindMount) -> Self {
        Self::BindMount(kind)
    }
}

impl From<PrivateCopy> for Contained {
    fn from(kind: PrivateCopy) -> Self {
        Self::PrivateCopy(kind)
    }
}

impl From<Isolated> for Contained {
    fn from(kind: Isolated) -> Self {
        Self::Isolated(kind)
    }
}
