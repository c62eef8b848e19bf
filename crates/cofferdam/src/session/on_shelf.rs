//! Commits that are only on the shelf, as they are told.

use crate::names::BranchName;

/// Commits of a branch that are only on the shelf.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unpushed {
    /// Its short name.
    pub branch: BranchName,
    /// How many there are; nothing where nobody can tell.
    pub commits: Option<usize>,
    /// What `git push host` is to be given.
    pub refspec: String,
    /// The host's branch has commits that the shelf's has not: a push comes after a merge inside.
    pub diverged: bool,
}
