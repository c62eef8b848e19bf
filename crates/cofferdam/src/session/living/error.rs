//! What goes wrong with sandboxes that live on.

use std::path::PathBuf;

use jiff::Timestamp;

use super::condition::Condition;
use crate::fsx::FileError;
use crate::git::vault::VaultError;
use crate::git::{GitError, RepositoryError};
use crate::registry::{DevSandbox, RegistryError};
use crate::sandbox::SandboxError;
use crate::session::collect::error::CollectError;
use crate::session::envfile::EnvFileError;
use crate::session::extra::error::ExtraMountError;
use crate::session::located::LocateError;
use crate::session::login::LoginError;
use crate::session::manage::error::ManageError;
use crate::session::plan::error::PlanError;
use crate::session::unsynced::SyncError;
use crate::session::variables::VariablesError;
use crate::session::watched::WatchError;
use crate::wall::WallError;
use crate::wall::rules::Problem;
use crate::wall::supervisor::SupervisorError;

/// Why something could not be done with a sandbox that lives on. Nothing of it is lost.
///
/// Not `#[non_exhaustive]`, as no error of this crate with a next step for its user is: a frontend has a hint for each
/// variant, and one that is new must not compile there without.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    #[error(transparent)]
    Registry(#[from] RegistryError),
    #[error(transparent)]
    Repository(#[from] RepositoryError),
    #[error(transparent)]
    Git(#[from] GitError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error("sandbox `{name}` belongs to a run, and ends with it")]
    OfARun { name: String },
    #[error("sandbox `{name}` is still being made")]
    Making { name: String },
    #[error("the setup of sandbox `{name}` failed")]
    FailedSetup { name: String },
    #[error("the setup of sandbox `{name}` failed again: {why}")]
    SetUp { name: String, why: String },
    #[error("the files of sandbox `{name}` are gone: there is no directory {path:?}")]
    Missing { name: String, path: PathBuf },
    /// Of one that runs: what its git calls deleted may be what somebody removed below it.
    #[error("the files that sandbox `{name}` stands on were removed while it runs")]
    Undermined { name: String },
    #[error("sandbox `{name}` has ended")]
    Ended { name: String },
    /// Somebody made one of its work, with its branch checked out.
    #[error("the work of sandbox `{name}` is in the worktree {}", path.display())]
    InWorktree { name: String, path: PathBuf },
    /// No dev sandbox lives there.
    #[error("{} has no dev sandbox{}", repository.display(), on(of))]
    NoDev { repository: PathBuf, of: DevSandbox },
    #[error("sandbox `{name}` is stopped{}", told_end(*unasked))]
    Stopped {
        name: String,
        /// When it ended, where that was unasked: see [`super::Named::ended_unasked`].
        unasked: Option<Timestamp>,
    },
    #[error("sandbox `{name}` is running already")]
    Running { name: String },
    #[error("sandbox `{name}` is paused")]
    Paused { name: String },
    /// Another command collects, stops or starts it.
    #[error("another command is at work on sandbox `{name}`")]
    Busy { name: String },
    #[error("an agent is at work in sandbox `{name}` already")]
    AtWork { name: String },
    /// Somebody's program runs in it, or an agent: `program` is one of them, safe for a terminal.
    #[error("sandbox `{name}` is in use: `{program}` runs there{}", and_paused(*paused))]
    InUse {
        name: String,
        program: String,
        /// Whatever runs there comes to no end before it is resumed.
        paused: bool,
    },
    #[error("sandbox `{name}` is one of the provider `{provider}`, which is not at hand")]
    OtherProvider { name: String, provider: String },
    #[error("the making of sandbox `{name}` was never finished")]
    Unfinished { name: String },
    #[error("sandbox `{name}`: {source}")]
    Sandbox {
        name: String,
        #[source]
        source: SandboxError,
    },
    /// Programs that work in a checkout which their user shares run only while somebody watches it.
    #[error(
        "nothing can run in sandbox `{name}`, because nobody watches the checkout that it shares: {source}"
    )]
    Unwatched {
        name: String,
        #[source]
        source: WatchError,
    },
    #[error("nobody keeps the place of sandbox `{name}`: {source}")]
    Supervisor {
        name: String,
        #[source]
        source: SupervisorError,
    },
    #[error("sandbox `{name}`: {source}")]
    Wall {
        name: String,
        #[source]
        source: WallError,
    },
    #[error("sandbox `{name}` could not be paused: {source}; {}", told_condition(*now))]
    NotPaused {
        name: String,
        /// `None`: that cannot be told.
        now: Option<Condition>,
        source: SandboxError,
    },
    #[error("sandbox `{name}` could not be resumed: {source}; {}", told_condition(*now))]
    NotResumed {
        name: String,
        /// `None`: that cannot be told.
        now: Option<Condition>,
        source: SandboxError,
    },
    /// Nobody can say what it may reach now.
    #[error(
        "sandbox `{name}` stays paused, because its rules cannot be read: {}",
        told(problems)
    )]
    Rules {
        name: String,
        problems: Vec<Problem>,
    },
    /// Neither given nor kept. The sandbox is as it was.
    #[error("the logins of agents in sandbox `{name}`: {source}")]
    Login {
        name: String,
        #[source]
        source: LoginError,
    },
    /// What is checked out now cannot be given to it.
    #[error("sandbox `{name}`: {source}")]
    Vault {
        name: String,
        #[source]
        source: VaultError,
    },
    #[error("the commits of sandbox `{name}` are not home: {source}")]
    Collect {
        name: String,
        /// It was ended for it, because its programs could not be stopped for a while.
        ended: bool,
        #[source]
        source: CollectError,
    },
    /// It runs, and does not have all that the configuration says.
    #[error("sandbox `{name}` is not synced: {source}")]
    Sync {
        name: String,
        #[source]
        source: SyncError,
    },
    #[error(transparent)]
    Manage(#[from] Box<ManageError>),
    #[error(transparent)]
    EnvFile(#[from] EnvFileError),
    /// What it was made with may not be given to a sandbox any more.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The same of what it sees of this machine beside its files.
    #[error("sandbox `{name}` is not started: {source}")]
    Mount {
        name: String,
        #[source]
        source: ExtraMountError,
    },
}

impl From<VariablesError> for SessionError {
    fn from(error: VariablesError) -> Self {
        match error {
            VariablesError::EnvFile(error) => Self::EnvFile(error),
            VariablesError::Git(error) => Self::Git(error),
            VariablesError::Registry(error) => Self::Registry(error),
            VariablesError::Repository(error) => Self::Repository(error),
        }
    }
}

impl From<LocateError> for SessionError {
    fn from(error: LocateError) -> Self {
        match error {
            LocateError::Registry(error) => Self::Registry(error),
            LocateError::Repository(error) => Self::Repository(error),
        }
    }
}

impl SessionError {
    pub(super) fn sandbox(name: String, source: SandboxError) -> Self {
        match source {
            SandboxError::Paused => Self::Paused { name },
            SandboxError::NotRunning => Self::Stopped {
                name,
                unasked: None,
            },
            source => Self::Sandbox { name, source },
        }
    }

    /// Of a sandbox that was ended before.
    pub(super) fn ended(self) -> Self {
        match self {
            Self::Collect { name, source, .. } => Self::Collect {
                name,
                ended: true,
                source,
            },
            other => other,
        }
    }
}

fn and_paused(paused: bool) -> &'static str {
    if paused { ", and it is paused" } else { "" }
}

fn told_end(unasked: Option<Timestamp>) -> String {
    unasked.map_or_else(String::new, |at| {
        format!(": no command stopped it, it ended at {at}")
    })
}

fn on(of: &DevSandbox) -> String {
    of.branch
        .as_ref()
        .map_or_else(String::new, |branch| format!(" for branch `{branch}`"))
}

/// The first that takes a whole source away.
fn told_condition(now: Option<Condition>) -> &'static str {
    match now {
        Some(Condition::Running) => "its programs run",
        Some(Condition::Paused) => "it is still paused",
        Some(Condition::Stopped) => "it is stopped, and none of its programs lives",
        None => "whether it is paused cannot be told",
    }
}

fn told(problems: &[Problem]) -> String {
    let whole = problems.iter().find(|problem| problem.is_whole_source());
    whole.map(Problem::message).unwrap_or_default()
}
