//! What keeps a directory from being worked in, below both who finds the way to a repository and who opens it.

use std::path::PathBuf;

use super::command::GitError;
use crate::names::{NameError, Slug};

/// Why a directory cannot be worked in.
#[derive(Debug, thiserror::Error)]
pub enum RepositoryError {
    /// It is not there, or cannot be entered.
    #[error("{} does not exist or cannot be entered: {source}", path.display())]
    Path {
        /// As it was given.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Neither it nor a directory above it is a git repository.
    #[error("{} is not in a git repository", path.display())]
    NotARepository {
        /// As it was given.
        path: PathBuf,
    },
    /// Found without asking git, which would obey it.
    #[error("{} may be an agent's own: sandbox `{sandbox}` works in {}", path.display(), workspace.display())]
    AgentsOwn {
        /// As it was given.
        path: PathBuf,
        /// Whose agent writes there.
        sandbox: Slug,
        /// The directory that the agent has.
        workspace: PathBuf,
        /// Its command still runs.
        in_use: bool,
    },
    /// A git directory, or one whose `core.worktree` leads elsewhere.
    #[error("{} is in a repository whose checkout is elsewhere: {}", path.display(), top.display())]
    Elsewhere {
        /// As it was given.
        path: PathBuf,
        /// Its working tree.
        top: PathBuf,
    },
    /// It has a history and no files.
    #[error("{} is a bare repository: there is no checkout to work in", path.display())]
    Bare {
        /// As it was given.
        path: PathBuf,
    },
    /// It has no commit that a sandbox could begin at.
    #[error("{} has no commit yet", path.display())]
    Unborn {
        /// Its top.
        path: PathBuf,
    },
    /// It belongs to somebody whom git's `safe.directory` does not trust.
    #[error("{} belongs to another user, and git does not trust it", path.display())]
    ForeignOwner {
        /// As it was given.
        path: PathBuf,
    },
    /// The checked-out branch has a name that no sandbox takes.
    #[error("the checked-out branch cannot be used: {0}")]
    BranchName(#[from] NameError),
    /// Git is older than the options and formats that Cofferdam uses.
    #[error("git {found} is too old: 2.39 or newer is needed")]
    OldGit {
        /// The version that it says it is.
        found: String,
    },
    /// Git failed in it.
    #[error(transparent)]
    Git(#[from] GitError),
}
