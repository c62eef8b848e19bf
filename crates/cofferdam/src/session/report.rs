//! What a run gives back, and what its errors keep.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;

use super::collect::CollectError;
use super::envfile::EnvFileError;
use super::hooks::HookError;
use super::iterate::ExpressionError;
use super::living::SessionError;
use super::login::LoginError;
use super::manage::ManageError;
use super::plan::PlanError;
use super::stream::AgentFailure;
use crate::agent::Usage;
use crate::fsx::FileError;
use crate::git::before::BeforeError;
use crate::git::copies::CopyError;
use crate::git::land::Landing;
use crate::git::vault::VaultError;
use crate::git::worktree::WorktreeError;
use crate::git::{CommitLine, GitError, Oid, RepositoryError};
use crate::names::{SandboxId, Slug};
use crate::process::Exit;
use crate::prompt::PromptError;
use crate::registry::RegistryError;
use crate::sandbox::SandboxError;
use crate::wall::Refused;

/// One invocation of the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Iteration {
    pub number: u32,
    /// `None`: ended by us (completion grace, cancel).
    pub exit: Option<Exit>,
    pub session: Option<String>,
    pub usage: Option<Usage>,
    /// The last final message.
    pub result: Option<String>,
}

/// What a sandbox had beside what landed, and where it is now. Its sandbox stays in `list` until it is
/// deleted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Beside {
    /// How the sandbox's repository named it: branches, tags, stashes. Printable.
    pub names: Vec<String>,
    /// A reference of the repository, or a file or directory of the state directory. Printable.
    pub at: String,
    /// Why it is no reference.
    pub refused: Option<String>,
}

/// So many names tell enough.
const NAMED: usize = 5;

impl std::fmt::Display for Beside {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = format!(
            "what is beside the branch ({}",
            self.names[..self.names.len().min(NAMED)].join(", ")
        );
        if self.names.len() > NAMED {
            text.push_str(&format!(" and {} more", self.names.len() - NAMED));
        }
        text.push_str(") ");
        if let Some(why) = &self.refused {
            text.push_str(&format!("did not come home: {why}; it "));
        }
        text.push_str(&format!("is kept at {}", self.at));
        f.write_str(&crate::text::printable_line(&text))
    }
}

/// What a run did.
#[derive(Debug, Clone, Serialize)]
pub struct RunReport {
    pub id: SandboxId,
    pub name: Slug,
    pub source_branch: String,
    pub target_branch: String,
    /// The source branch where it was made for the sandbox: `delete` removes it.
    pub made_branch: Option<String>,
    pub base: Oid,
    pub iterations: Vec<Iteration>,
    /// The completion signal that ended the run.
    pub completion: Option<String>,
    pub landing: Landing,
    pub beside: Vec<Beside>,
    /// What the gate noticed in the commits and let pass, in words.
    pub notes: Vec<String>,
    /// Newest last.
    pub commits: Vec<CommitLine>,
    /// Files that were the user's uncommitted work, and that the agent committed (`head` alone).
    #[serde(serialize_with = "crate::path_json::lossy_list")]
    pub taken: Vec<PathBuf>,
    /// Lines of `git diff --stat` from base to tip, sanitised.
    pub diffstat: String,
    pub usage: Usage,
    pub duration: Duration,
    #[serde(serialize_with = "crate::path_json::optional")]
    pub log: Option<PathBuf>,
    /// A worktree with uncommitted work that was left where it is.
    #[serde(serialize_with = "crate::path_json::optional")]
    pub preserved_worktree: Option<PathBuf>,
    /// What the wall refused, most often refused first; bounded.
    pub refused: Vec<Refused>,
}

/// What is kept when a run fails: everything that was made until then.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Kept {
    pub id: Option<SandboxId>,
    pub name: Option<Slug>,
    pub branch: Option<String>,
    /// What was checked out at the start.
    pub target_branch: Option<String>,
    /// As in [`RunReport::made_branch`].
    pub made_branch: Option<String>,
    pub base: Option<Oid>,
    /// `None` with an id: they are still in the sandbox, and `gc` brings them home.
    pub landing: Option<Landing>,
    pub beside: Vec<Beside>,
    /// As in [`RunReport::notes`].
    pub notes: Vec<String>,
    pub commits: Vec<CommitLine>,
    /// As in [`RunReport::taken`].
    #[serde(serialize_with = "crate::path_json::lossy_list")]
    pub taken: Vec<PathBuf>,
    pub iterations: Vec<Iteration>,
    #[serde(serialize_with = "crate::path_json::optional")]
    pub preserved_worktree: Option<PathBuf>,
    #[serde(serialize_with = "crate::path_json::optional")]
    pub log: Option<PathBuf>,
    /// As in [`RunReport::refused`].
    pub refused: Vec<Refused>,
}

/// A run that did not succeed. Nothing is lost: see [`Kept`].
#[derive(Debug, thiserror::Error)]
#[error("{kind}")]
pub struct RunError {
    #[source]
    pub kind: RunErrorKind,
    pub kept: Box<Kept>,
}

/// Why a run did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum RunErrorKind {
    #[error(transparent)]
    Repository(#[from] RepositoryError),
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error("{}", about_template(path, source))]
    Prompt {
        /// The template.
        path: PathBuf,
        source: PromptError,
    },
    #[error(transparent)]
    EnvFile(#[from] EnvFileError),
    #[error(transparent)]
    Login(#[from] LoginError),
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// What a dead command left where this one would work or land could not be finished.
    #[error(transparent)]
    Left(Box<ManageError>),
    /// It could not be left to live by itself.
    #[error(transparent)]
    Session(Box<SessionError>),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Git(#[from] GitError),
    #[error(transparent)]
    Worktree(#[from] WorktreeError),
    #[error(transparent)]
    Vault(#[from] VaultError),
    #[error(transparent)]
    Before(#[from] BeforeError),
    #[error(transparent)]
    Copy(#[from] CopyError),
    /// A step of preparing, with the module's own typed error as source.
    #[error("preparing the {step} failed: {source}")]
    Prepare {
        step: &'static str,
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error("{step} did not finish within {} s", limit.as_secs_f32())]
    StepTimedOut { step: &'static str, limit: Duration },
    #[error(transparent)]
    Hook(#[from] HookError),
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    #[error(transparent)]
    Expression(#[from] ExpressionError),
    #[error("{agent}, iteration {iteration}: {failure}")]
    Agent {
        agent: String,
        iteration: u32,
        failure: AgentFailure,
    },
    /// The agent's part may have gone well; bringing its commits home did not. They are kept.
    #[error(transparent)]
    Collect(#[from] CollectError),
    #[error("cancelled")]
    Cancelled,
}

/// What is wrong in which file; an error about the file itself names it already.
fn about_template(path: &Path, error: &PromptError) -> String {
    match error {
        PromptError::File(_) => error.to_string(),
        _ => format!("{}: {error}", path.display()),
    }
}
