//! What keeps a directory from being worked in, below both who finds the way to a repository and who opens it.

use std::path::PathBuf;

use super::command::GitError;
use crate::names::{NameError, Slug};

/// Why a directory cannot be worked in.
#[derive(Debug, thiserror::Error)]
pub enum RepositoryError {
    #[error("{} does not exist or cannot be entered: {source}", path.display())]
    Path {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{} is not in a git repository", path.display())]
    NotARepository { path: PathBuf },
    /// Found without asking git, which would obey it.
    #[error("{} may be an agent's own: sandbox `{sandbox}` works in {}", path.display(), workspace.display())]
    AgentsOwn {
        path: PathBuf,
        sandbox: Slug,
        workspace: PathBuf,
        /// Its command still runs.
        in_use: bool,
    },
    #[error("{} is in a repository whose checkout is elsewhere: {}", path.display(), top.display())]
    Elsewhere { path: PathBuf, top: PathBuf },
    #[error("{} is a bare repository: there is no checkout to work in", path.display())]
    Bare { path: PathBuf },
    #[error("{} has no commit yet", path.display())]
    Unborn { path: PathBuf },
    #[error("{} belongs to another user, and git does not trust it", path.display())]
    ForeignOwner { path: PathBuf },
    #[error("the checked-out branch cannot be used: {0}")]
    BranchName(#[from] NameError),
    #[error("git {found} is too old: 2.39 or newer is needed")]
    OldGit { found: String },
    #[error(transparent)]
    Git(#[from] GitError),
}
