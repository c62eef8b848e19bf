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
    /// What is known of it cannot be read or written.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// Its repository cannot be worked in.
    #[error(transparent)]
    Repository(#[from] RepositoryError),
    /// Git failed on the host.
    #[error(transparent)]
    Git(#[from] GitError),
    /// Something could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// A run's command holds it.
    #[error("sandbox `{name}` belongs to a run, and ends with it")]
    OfARun {
        /// Which sandbox.
        name: String,
    },
    /// Another command is making it.
    #[error("sandbox `{name}` is still being made")]
    Making {
        /// Which sandbox.
        name: String,
    },
    /// It was made, and a command of the user's failed in it: nothing is done there until that is repaired.
    #[error("the setup of sandbox `{name}` failed")]
    FailedSetup {
        /// Which sandbox.
        name: String,
    },
    /// Setup was tried again and failed again.
    #[error("the setup of sandbox `{name}` failed again: {why}")]
    SetUp {
        /// Which sandbox.
        name: String,
        /// Why, as a sentence fragment.
        why: String,
    },
    /// Somebody removed its files.
    #[error("the files of sandbox `{name}` are gone: there is no directory {path:?}")]
    Missing {
        /// Which sandbox.
        name: String,
        /// Where they were.
        path: PathBuf,
    },
    /// Of one that runs: what its git calls deleted may be what somebody removed below it.
    #[error("the files that sandbox `{name}` stands on were removed while it runs")]
    Undermined {
        /// Which sandbox.
        name: String,
    },
    /// Nothing can be done in it any more.
    #[error("sandbox `{name}` has ended")]
    Ended {
        /// Which sandbox.
        name: String,
    },
    /// Somebody made one of its work, with its branch checked out.
    #[error("the work of sandbox `{name}` is in the worktree {}", path.display())]
    InWorktree {
        /// Which sandbox.
        name: String,
        /// The worktree's top.
        path: PathBuf,
    },
    /// No dev sandbox lives there.
    #[error("{} has no dev sandbox{}", repository.display(), on(of))]
    NoDev {
        /// The repository's top.
        repository: PathBuf,
        /// Which one was meant.
        of: DevSandbox,
    },
    /// Nothing runs in it; it can be started.
    #[error("sandbox `{name}` is stopped{}", told_end(*unasked))]
    Stopped {
        /// Which sandbox.
        name: String,
        /// When it ended, where that was unasked: see [`super::Named::ended_unasked`].
        unasked: Option<Timestamp>,
    },
    /// It runs already; there is nothing to start.
    #[error("sandbox `{name}` is running already")]
    Running {
        /// Which sandbox.
        name: String,
    },
    /// Everything in it stands still; it can be resumed.
    #[error("sandbox `{name}` is paused")]
    Paused {
        /// Which sandbox.
        name: String,
    },
    /// Another command collects, stops or starts it.
    #[error("another command is at work on sandbox `{name}`")]
    Busy {
        /// Which sandbox.
        name: String,
    },
    /// Another agent works in it already, and one works in a sandbox at a time.
    #[error("an agent is at work in sandbox `{name}` already")]
    AtWork {
        /// Which sandbox.
        name: String,
    },
    /// Somebody's program runs in it, or an agent: `program` is one of them, safe for a terminal.
    #[error("sandbox `{name}` is in use: `{program}` runs there{}", and_paused(*paused))]
    InUse {
        /// Which sandbox.
        name: String,
        /// Its name, or its command line.
        program: String,
        /// Whatever runs there comes to no end before it is resumed.
        paused: bool,
    },
    /// It is of a provider that is not at hand, and only that one finds its programs.
    #[error("sandbox `{name}` is one of the provider `{provider}`, which is not at hand")]
    OtherProvider {
        /// Which sandbox.
        name: String,
        /// Who made it.
        provider: String,
    },
    /// Whoever made it died.
    #[error("the making of sandbox `{name}` was never finished")]
    Unfinished {
        /// Which sandbox.
        name: String,
    },
    /// Its provider could not do what was asked.
    #[error("sandbox `{name}`: {source}")]
    Sandbox {
        /// Which sandbox.
        name: String,
        /// What the provider said.
        #[source]
        source: SandboxError,
    },
    /// Programs that work in a checkout which their user shares run only while somebody watches it.
    #[error(
        "nothing can run in sandbox `{name}`, because nobody watches the checkout that it shares: {source}"
    )]
    Unwatched {
        /// Which sandbox.
        name: String,
        /// Why nobody watches.
        #[source]
        source: WatchError,
    },
    /// The process that holds its lock could not be started or asked.
    #[error("nobody keeps the place of sandbox `{name}`: {source}")]
    Supervisor {
        /// Which sandbox.
        name: String,
        /// What is wrong with it.
        #[source]
        source: SupervisorError,
    },
    /// Its place behind the wall could not be taken or asked.
    #[error("sandbox `{name}`: {source}")]
    Wall {
        /// Which sandbox.
        name: String,
        /// What is wrong with it.
        #[source]
        source: WallError,
    },
    /// Something of it does not stand still, or nobody can say so.
    #[error("sandbox `{name}` could not be paused: {source}; {}", told_condition(*now))]
    NotPaused {
        /// Which sandbox.
        name: String,
        /// `None`: that cannot be told.
        now: Option<Condition>,
        /// What the provider said.
        source: SandboxError,
    },
    /// Something of it stands still, or nobody can say so.
    #[error("sandbox `{name}` could not be resumed: {source}; {}", told_condition(*now))]
    NotResumed {
        /// Which sandbox.
        name: String,
        /// `None`: that cannot be told.
        now: Option<Condition>,
        /// What the provider said.
        source: SandboxError,
    },
    /// Nobody can say what it may reach now.
    #[error(
        "sandbox `{name}` stays paused, because its rules cannot be read: {}",
        told(problems)
    )]
    Rules {
        /// Which sandbox.
        name: String,
        /// Each one that is in the way.
        problems: Vec<Problem>,
    },
    /// Neither given nor kept. The sandbox is as it was.
    #[error("the logins of agents in sandbox `{name}`: {source}")]
    Login {
        /// Which sandbox.
        name: String,
        /// Why there is none to give.
        #[source]
        source: LoginError,
    },
    /// What is checked out now cannot be given to it.
    #[error("sandbox `{name}`: {source}")]
    Vault {
        /// Which sandbox.
        name: String,
        /// Why it could not be exported.
        #[source]
        source: VaultError,
    },
    /// Its commits could not be brought home; they stay where they are.
    #[error("the commits of sandbox `{name}` are not home: {source}")]
    Collect {
        /// Which sandbox.
        name: String,
        /// It was ended for it, because its programs could not be stopped for a while.
        ended: bool,
        /// What was in the way.
        #[source]
        source: CollectError,
    },
    /// It runs, and does not have all that the configuration says.
    #[error("sandbox `{name}` is not synced: {source}")]
    Sync {
        /// Which sandbox.
        name: String,
        /// What is lacking.
        #[source]
        source: SyncError,
    },
    /// What any command on a sandbox can fail of.
    #[error(transparent)]
    Manage(#[from] Box<ManageError>),
    /// `.cofferdam/.env` cannot be used.
    #[error(transparent)]
    EnvFile(#[from] EnvFileError),
    /// What it was made with may not be given to a sandbox any more.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The same of what it sees of this machine beside its files.
    #[error("sandbox `{name}` is not started: {source}")]
    Mount {
        /// Which sandbox.
        name: String,
        /// What cannot be given.
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
