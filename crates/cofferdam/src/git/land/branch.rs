//! The `branch` strategy: commits land on a branch that is checked out nowhere but in the sandbox.

use std::path::Path;

use tokio_util::sync::CancellationToken;

use super::landing::{Landing, NOT_MOVED};
use super::{LandError, kept, worktrees};
use crate::git::gate::Accepted;
use crate::git::refs::{self, RefError, Transaction};
use crate::git::{Oid, Repository};
use crate::names::BranchName;

/// Where a branch is that commits are to land on.
#[derive(Debug, Clone, Copy)]
pub enum Expected<'a> {
    /// Nowhere: it does not exist yet.
    New,
    At(&'a Oid),
    /// The same, and what is there came from the sandbox alone: its agent may have rewritten it.
    OwnAt(&'a Oid),
}

impl<'a> Expected<'a> {
    fn commit(self) -> Option<&'a Oid> {
        match self {
            Self::New => None,
            Self::At(commit) | Self::OwnAt(commit) => Some(commit),
        }
    }
}

/// Moves `branch` from where it is expected to the accepted tip, and nothing if it is elsewhere. Fast-forward only,
/// unless it is the sandbox's own. `own_worktree` is the sandbox's: there the branch may be checked out.
pub async fn branch(
    repo: &Repository,
    branch: &BranchName,
    expected: Expected<'_>,
    own_worktree: Option<&Path>,
    accepted: &Accepted,
    cancel: &CancellationToken,
) -> Result<Landing, LandError> {
    let full = branch.full();
    let own = own_worktree.and_then(|path| path.canonicalize().ok());
    for worktree in worktrees(repo, cancel).await? {
        let is_own = own.is_some() && worktree.path.canonicalize().ok() == own;
        if worktree.branch.as_deref() == Some(full.as_str()) && !is_own {
            let at = crate::text::printable(&worktree.path.to_string_lossy());
            return Ok(kept(
                accepted,
                format!("branch `{branch}` is checked out at {at}"),
            ));
        }
    }
    let tip = accepted.tip();
    if let Expected::At(old) = expected
        && !repo.is_ancestor(old, tip, cancel).await?
    {
        let why = format!(
            "branch `{branch}` is at {}, which {} does not contain",
            old.short(),
            tip.short()
        );
        return Ok(kept(accepted, why));
    }
    let moved = Transaction::new(format!("cofferdam {}", accepted.id()))
        .update(&full, tip, expected.commit())
        .commit(repo, cancel)
        .await;
    match moved {
        Ok(()) => Ok(Landing::Landed {
            branch: branch.as_str().to_owned(),
            tip: tip.clone(),
        }),
        Err(RefError::Moved { detail }) => {
            // A killed command may have come so far already.
            if refs::read(repo, &full, cancel).await?.as_ref() == Some(tip) {
                let branch = branch.as_str().to_owned();
                return Ok(Landing::Landed {
                    branch,
                    tip: tip.clone(),
                });
            }
            let why = format!("branch `{branch}`{NOT_MOVED}{detail}");
            Ok(kept(accepted, why))
        }
        Err(error) => Err(error.into()),
    }
}
