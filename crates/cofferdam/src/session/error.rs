//! Why a run did not succeed. It knows what goes wrong in each step; none of those errors knows it.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::collect::error::CollectError;
use super::conversation::ConversationError;
use super::envfile::EnvFileError;
use super::hooks::HookError;
use super::living::error::SessionError;
use super::login::LoginError;
use super::manage::error::ManageError;
use super::plan::error::PlanError;
use super::report::Kept;
use super::stream::AgentFailure;
use super::unsynced::SyncError;
use super::variables::VariablesError;
use super::wanted::OutputError;
use super::watched::WatchError;
use crate::fsx::FileError;
use crate::git::before::BeforeError;
use crate::git::copies::CopyError;
use crate::git::trees::TreeError;
use crate::git::vault::VaultError;
use crate::git::worktree::WorktreeError;
use crate::git::{GitError, RepositoryError};
use crate::process::Exit;
use crate::prompt::PromptError;
use crate::registry::RegistryError;
use crate::runs::RunsError;
use crate::sandbox::SandboxError;

/// A run that did not succeed. Nothing is lost: see [`Kept`].
#[derive(Debug, thiserror::Error)]
#[error("{kind}")]
pub struct RunError {
    /// Why.
    #[source]
    pub kind: RunErrorKind,
    /// What was made until then, and where it is.
    pub kept: Box<Kept>,
}

/// Why a run did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum RunErrorKind {
    /// The repository cannot be worked in.
    #[error(transparent)]
    Repository(#[from] RepositoryError),
    /// The run cannot be made as it was asked for.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The template gives no prompt.
    #[error("{}", about_template(path, source))]
    Prompt {
        /// The template.
        path: PathBuf,
        /// What is wrong with it.
        source: PromptError,
    },
    /// `.cofferdam/.env` cannot be used.
    #[error(transparent)]
    EnvFile(#[from] EnvFileError),
    /// The agent's login cannot be given.
    #[error(transparent)]
    Login(#[from] LoginError),
    /// What is known of sandboxes cannot be read or written.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// What a dead command left where this one would work or land could not be finished.
    #[error(transparent)]
    Left(Box<ManageError>),
    /// It could not be left to live by itself.
    #[error(transparent)]
    Session(Box<SessionError>),
    /// It shares the user's checkout, and lives on there.
    #[error("nobody watches the checkout that the sandbox shares: {0}")]
    Unwatched(#[from] WatchError),
    /// What is known of runs cannot be read or written.
    #[error(transparent)]
    Runs(#[from] RunsError),
    /// Something could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// Git failed on the host.
    #[error(transparent)]
    Git(#[from] GitError),
    /// There is no worktree for the branch.
    #[error(transparent)]
    Worktree(#[from] WorktreeError),
    /// The files of the commit could not be made ready.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// The history could not be exported.
    #[error(transparent)]
    Vault(#[from] VaultError),
    /// What was uncommitted before could not be recorded.
    #[error(transparent)]
    Before(#[from] BeforeError),
    /// A path that was to be copied in could not be.
    #[error(transparent)]
    Copy(#[from] CopyError),
    /// A step of preparing, with the module's own typed error as source.
    #[error("preparing the {step} failed: {source}")]
    Prepare {
        /// Which step, as a noun.
        step: &'static str,
        /// What stopped it.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A step of preparing took longer than it may.
    #[error("{step} did not finish within {} s", limit.as_secs_f32())]
    StepTimedOut {
        /// Which step, as a noun.
        step: &'static str,
        /// How long it had.
        limit: Duration,
    },
    /// A command of the user's did not succeed.
    #[error(transparent)]
    Hook(#[from] HookError),
    /// The sandbox did not come up, or was lost.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// A command in the prompt's template gave no text.
    #[error(transparent)]
    Expression(#[from] ExpressionError),
    /// A start of the agent was no success.
    #[error("{agent}, iteration {iteration}: {failure}")]
    Agent {
        /// The agent's name.
        agent: String,
        /// From 1.
        iteration: u32,
        /// What went wrong.
        failure: AgentFailure,
    },
    /// The agent's part may have gone well; bringing its commits home did not. They are kept.
    #[error(transparent)]
    Collect(#[from] CollectError),
    /// The conversation that was to go on cannot.
    #[error(transparent)]
    Conversation(#[from] ConversationError),
    /// Commits that were made on the way are home.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// The caller cancelled it.
    #[error("cancelled")]
    Cancelled,
}

impl From<SyncError> for RunErrorKind {
    fn from(error: SyncError) -> Self {
        match error {
            SyncError::Sandbox(error) => Self::Sandbox(error),
            SyncError::Hook(error) => Self::Hook(error),
            SyncError::File(error) => Self::File(error),
            SyncError::Registry(error) => Self::Registry(error),
            SyncError::Cancelled => Self::Cancelled,
        }
    }
}

impl From<VariablesError> for RunErrorKind {
    fn from(error: VariablesError) -> Self {
        match error {
            VariablesError::EnvFile(error) => Self::EnvFile(error),
            VariablesError::Git(error) => Self::Git(error),
            VariablesError::Registry(error) => Self::Registry(error),
            VariablesError::Repository(error) => Self::Repository(error),
        }
    }
}

/// What is wrong in which file; an error about the file itself names it already.
fn about_template(path: &Path, error: &PromptError) -> String {
    match error {
        PromptError::File(_) => error.to_string(),
        _ => format!("{}: {error}", path.display()),
    }
}

/// A shell expression of the prompt template gave no text.
#[derive(Debug, thiserror::Error)]
#[error("the prompt's shell expression `{command}` failed: {reason}")]
pub struct ExpressionError {
    /// As it stands in the template, with its arguments.
    pub command: String,
    /// How it ended; nothing where it did not run to its end.
    pub exit: Option<Exit>,
    /// Why, as a sentence fragment.
    pub reason: String,
}

/// Wraps a module's own error with the step's name.
pub(super) fn step<E: Error + Send + Sync + 'static>(
    step: &'static str,
) -> impl Fn(E) -> RunErrorKind {
    move |source| RunErrorKind::Prepare {
        step,
        source: Box::new(source),
    }
}
