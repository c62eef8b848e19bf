//! The branch of a sandbox: who else relies on it, and its end.

use tokio_util::sync::CancellationToken;

use super::error::ManageError;
use super::tips;
use crate::git::refs::{self, RefError, Transaction, Was};
use crate::git::{Oid, Repository, land};
use crate::home::Home;
use crate::names::BranchName;
use crate::registry::{self, Record, RegistryError, Strategy};

/// The newest other sandbox of the repository that works, or has worked, on `branch`.
pub(super) fn relies_on(
    home: &Home,
    repo: &Repository,
    record: &Record,
    branch: &BranchName,
) -> Result<Option<Record>, RegistryError> {
    let entries = registry::list(home, Some(&repo.top))?.entries;
    let mut newest_first = entries.into_iter().rev().map(|entry| entry.record);
    Ok(newest_first.find(|other| {
        other.id != record.id
            && other.strategy != Strategy::Head
            && other.branch.as_ref() == Some(branch)
    }))
}

/// Deletes a branch that is checked out nowhere.
pub(super) async fn delete_branch(
    repo: &Repository,
    branch: &BranchName,
    tip: &Oid,
    cancel: &CancellationToken,
) -> Result<(), ManageError> {
    let full = branch.full();
    for worktree in land::worktrees(repo, cancel).await? {
        // One whose directory is gone has nothing checked out; where the disk cannot be asked, it may be there.
        let gone = worktree.path.symlink_metadata();
        let gone = gone.is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound);
        if worktree.branch.as_deref() == Some(full.as_str()) && !gone {
            let at = crate::text::printable(&worktree.path.to_string_lossy());
            return Err(RefError::CheckedOut {
                branch: branch.clone(),
                at,
            }
            .into());
        }
    }
    let delete = Transaction::new("cofferdam: deleted").delete(&full, tip);
    Ok(delete.commit(repo, cancel).await?)
}

/// Keeps what came home on a branch that its user has deleted since, as far as it is in nothing else: until now the sandbox
/// had it too.
pub(super) async fn keep_without_branch(
    repo: &Repository,
    record: &Record,
    cancel: &CancellationToken,
) -> Result<Option<String>, ManageError> {
    let (Some(branch), Some(last)) = (tips::branch(record), tips::last_home(record)) else {
        return Ok(None);
    };
    if repo.resolve(&branch.full(), cancel).await?.is_some() {
        return Ok(None);
    }
    let Some(tip) = repo.resolve(last.as_str(), cancel).await? else {
        return Ok(None);
    };
    if repo.is_in_sight(&tip, cancel).await? {
        return Ok(None);
    }
    if refs::is_in_trash(repo, &tip, cancel).await? {
        return Ok(None);
    }
    let kept = refs::to_trash(repo, &record.name, (Was::Commits, &tip), &[], cancel).await?;
    Ok(Some(kept))
}
