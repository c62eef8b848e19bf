//! How accepted commits reach the user's branches: [`branch()`], [`head()`], [`merge_to_head()`]. Each
//! takes an [`Accepted`], which only the gate makes, moves at most one branch by compare-and-swap,
//! and where something stands in the way moves nothing: the commits stay at the sandbox's tip ref. A
//! checkout in which the user is in the middle of a merge, a rebase or the like is such a case.
//!
//! What changes a checkout is journalled before it begins; [`finish`] completes it after a crash.

mod apply;
mod branch;
mod catch_up;
mod checkout;
mod head;
mod index;
mod journal;
mod landing;
mod leftovers;
mod lock;
mod merge;
mod nested;
mod orphans;
mod restore;
mod settle;
mod under_way;
mod worktrees;

pub use apply::{Applied, TakenBack, apply, take_back};
pub(crate) use branch::AT_WORK;
pub use branch::{Expected, branch};
pub use checkout::{Landed, finish};
pub use head::head;
pub use journal::{half_done_in, is_half_done};
pub use landing::Landing;
pub(crate) use landing::{
    CHECKS_CANCELLED, FAILED, INTERRUPTED, LIVES, NOT_CHECKED, SEEN, STOPPED, UNCHECKED,
    UNDERMINED, stop_first,
};
pub use merge::{Merging, merge_to_head};
pub use nested::{MovedOut, move_out};
pub use worktrees::{Worktree, worktrees};

use std::path::Path;

use super::refs::{self, RefError};
use super::{GitError, Oid};
use crate::fsx::FileError;
use crate::git::gate::Accepted;
use crate::names::SandboxId;

/// Says why nothing may be done to the files of a working tree, if so: an agent wrote there, and what it
/// left has not been looked at yet. Asked when no new one can begin there any more.
pub type Barred<'a> = &'a (dyn Fn(&Path) -> Option<String> + Sync);

/// Why a landing could not even be decided. What passed the gate is at the sandbox's tip ref.
#[derive(Debug, thiserror::Error)]
pub enum LandError {
    /// Git failed on the host.
    #[error(transparent)]
    Git(#[from] GitError),
    /// A ref did not move.
    #[error(transparent)]
    Ref(#[from] RefError),
    /// Something could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// The journal of an earlier landing cannot be understood.
    #[error("the journal {} cannot be understood: {why}", path.display())]
    Journal {
        /// The journal.
        path: std::path::PathBuf,
        /// What is wrong there.
        why: String,
    },
    /// The branch has moved and its checkout has not: the journal stays for whoever comes next.
    #[error("a landing that was cut short could not be finished: {why}")]
    HalfDone {
        /// What stood in the way.
        why: String,
    },
}

/// Commits in the repository that the gate has let in: just now, or when a sandbox's branch was
/// landed.
#[derive(Debug, Clone)]
pub struct Incoming {
    id: SandboxId,
    base: Oid,
    tip: Oid,
    /// The agent worked in the checkout itself, so files of the commits may lie in it.
    lies_there: bool,
}

impl Incoming {
    /// What a sandbox's branch on the host holds. Only the gate moves such a branch, or the user.
    pub(crate) fn from_branch(id: SandboxId, base: Oid, tip: Oid) -> Self {
        let lies_there = false;
        Self {
            id,
            base,
            tip,
            lies_there,
        }
    }

    /// As [`Self::from_branch`], for a sandbox that worked in the checkout: what lies there as the tip
    /// has it is no work of the user's and gives way to the merge.
    pub(crate) fn from_head(id: SandboxId, base: Oid, tip: Oid) -> Self {
        let lies_there = true;
        Self {
            lies_there,
            ..Self::from_branch(id, base, tip)
        }
    }

    fn id(&self) -> SandboxId {
        self.id
    }

    fn base(&self) -> &Oid {
        &self.base
    }

    /// The newest of the commits that are to land.
    pub fn tip(&self) -> &Oid {
        &self.tip
    }
}

impl From<&Accepted> for Incoming {
    fn from(accepted: &Accepted) -> Self {
        let (base, tip) = (accepted.base().clone(), accepted.tip().clone());
        Self {
            id: accepted.id(),
            base,
            tip,
            lies_there: false,
        }
    }
}

fn kept(accepted: &Accepted, why: impl Into<String>) -> Landing {
    Landing::Kept {
        reference: accepted.tip_ref(),
        why: why.into(),
    }
}

fn kept_at(incoming: &Incoming, why: impl Into<String>) -> Landing {
    Landing::Kept {
        reference: refs::own(incoming.id, refs::Own::Tip),
        why: why.into(),
    }
}
