//! The `branch` strategy: commits land on a branch that is checked out nowhere but in the sandbox.

use std::path::Path;

use tokio_util::sync::CancellationToken;

use super::landing::Landing;
use super::{LandError, kept, worktrees};
use crate::git::gate::Accepted;
use crate::git::refs::{self, RefError, Transaction};
use crate::git::{Oid, Repository};
use crate::names::BranchName;

/// Moves `branch` from `expected` (`None`: it does not exist yet) to the accepted tip. Fast-forward
/// only. `own_worktree` is the sandbox's own: there the branch may be checked out.
pub async fn branch(
    repo: &Repository,
    branch: &BranchName,
    expected: Option<&Oid>,
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
    if let Some(old) = expected
        && old != accepted.base()
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
        .update(&full, tip, expected)
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
            let why = format!("branch `{branch}` was changed meanwhile: {detail}");
            Ok(kept(accepted, why))
        }
        Err(error) => Err(error.into()),
    }
}
