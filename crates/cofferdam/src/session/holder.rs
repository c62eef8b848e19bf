//! Who has a branch: git lets one worktree have it, and of two sandboxes with files of their own one would be surprised.

use std::fmt;
use std::path::PathBuf;

use crate::home::Home;
use crate::names::{BranchName, RepoPath, Slug};
use crate::registry::{self, Entry, Lifetime, RegistryError};

/// The sandbox that works on a branch, or in whose worktree it is checked out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// By which people call it.
    pub name: Slug,
    /// What it is doing.
    pub state: Holding,
    /// Its worktree, or the files of its own.
    pub at: PathBuf,
}

/// What the holder of a branch is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holding {
    /// An agent works in it.
    Running,
    /// It stays until it is deleted.
    LivesOn,
    /// Its command died, and its commits are not collected yet.
    Interrupted,
    /// It ended, and left work in its worktree that is in no commit.
    Ended,
}

impl Holder {
    /// The newest sandbox of this repository that holds `branch`.
    pub(super) fn of(
        home: &Home,
        repository: &RepoPath,
        branch: &BranchName,
    ) -> Result<Option<Self>, RegistryError> {
        let entries = registry::list(home, Some(repository))?.entries;
        let mut newest_first = entries.into_iter().rev();
        Ok(newest_first.find_map(|Entry { record, in_use }| {
            let at = record.holds_branch_at(home, in_use)?;
            let lives_on = record.lifetime == Lifetime::UntilDeleted;
            (record.branch.as_ref() == Some(branch)).then_some(Self {
                name: record.name,
                state: match (in_use, record.phase.is_unfinished()) {
                    (true, _) if lives_on => Holding::LivesOn,
                    (true, _) => Holding::Running,
                    (false, true) => Holding::Interrupted,
                    (false, false) => Holding::Ended,
                },
                at,
            })
        }))
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, state, at } = self;
        match state {
            Holding::Running => write!(f, "in use by the running sandbox `{name}`"),
            Holding::LivesOn => write!(
                f,
                "in use by sandbox `{name}`, which stays until it is deleted"
            ),
            Holding::Interrupted => {
                write!(f, "held by sandbox `{name}`, whose run was interrupted")
            }
            Holding::Ended => write!(
                f,
                "held by sandbox `{name}`, which left work without a commit in {}",
                at.display()
            ),
        }
    }
}
