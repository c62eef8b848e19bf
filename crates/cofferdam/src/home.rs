//! Where Cofferdam keeps its own files on the host. The frontend chooses the directory
//! (`~/.cofferdam`, or `COFFERDAM_HOME`); this module only knows the layout below it.

use std::path::{Path, PathBuf};

use crate::names::{RepoPath, SandboxId};

/// The host-owned state of one user. Everything below it is 0700/0600.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home(PathBuf);

impl Home {
    /// `path` must be absolute; it is created on first use.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// One directory for each sandbox, named by its id.
    pub fn state(&self) -> PathBuf {
        self.0.join("state")
    }

    pub fn sandbox(&self, id: SandboxId) -> PathBuf {
        self.state().join(id.to_string())
    }

    /// The login of the agent of that name.
    pub fn login(&self, agent: &str) -> PathBuf {
        self.0.join("logins").join(format!("{agent}.json"))
    }

    /// The packs that were exported from `repo`.
    pub fn vault(&self, repo: &RepoPath) -> PathBuf {
        self.0.join("vault").join(repo.hash8())
    }
}
