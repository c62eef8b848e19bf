//! Dispose: remove what a sandbox needed to live, keep what its user should still see.

use std::path::PathBuf;

use tokio_util::sync::CancellationToken;

use super::report::Landing;
use crate::fsx;
use crate::git::refs::{self, Own, Transaction};
use crate::git::worktree::{self, Worktree, WorktreeError};
use crate::git::{Oid, Repository, UserRules};
use crate::home::Home;
use crate::sandbox::registry::{Mode, Owned, Phase, RegistryError, Strategy};

/// What was left for the user.
#[derive(Debug, Default)]
pub(super) struct Disposed {
    /// A worktree or private copy with uncommitted work.
    pub preserved: Option<PathBuf>,
    /// What could not be removed, in words. The record stays, so that `gc` tries again.
    pub problems: Vec<String>,
}

/// What disposing needs to know beyond the record.
#[derive(Debug)]
pub(super) struct Disposal<'a> {
    pub home: &'a Home,
    pub repo: &'a Repository,
    pub landing: &'a Landing,
    /// The commit that the agent's checkout ended at, where it is known.
    pub checkout: Option<&'a Oid>,
    pub rules: UserRules<'a>,
    /// The private copy has uncommitted work (copy mode).
    pub copy_is_dirty: bool,
    pub cancel: &'a CancellationToken,
}

/// Disposes of a collected sandbox.
pub(super) async fn dispose(
    mut owned: Owned,
    disposal: &Disposal<'_>,
) -> Result<Disposed, RegistryError> {
    let mut disposed = Disposed::default();
    remove_made_directories(&owned, disposal.home);
    dispose_worktree(&mut owned, disposal, &mut disposed).await;
    let directory = owned.directory().to_owned();
    let mut gone = vec!["git", "vault", "hooks", "pointer"];
    if owned.record.mode == Mode::Copy {
        if disposal.copy_is_dirty {
            disposed.preserved = Some(directory.join("work"));
        } else {
            gone.push("work");
        }
    }
    for name in gone {
        if let Err(error) = fsx::remove_tree_or_file(&directory.join(name)) {
            disposed.problems.push(error.to_string());
        }
    }
    if !matches!(
        disposal.landing,
        Landing::Kept { .. } | Landing::Refused { .. }
    ) {
        remove_tip(&owned, disposal, &mut disposed).await;
    }
    let branch_stays = remove_temporary_branch(&mut owned, disposal, &mut disposed).await;
    let keeps_work = match disposal.landing {
        Landing::Kept { .. } | Landing::Refused { .. } => true,
        Landing::Nothing | Landing::Landed { .. } => branch_stays,
    };
    let moved_out = directory.join("nested").is_dir();
    if keeps_work || moved_out || disposed.preserved.is_some() || !disposed.problems.is_empty() {
        owned.record.kept = match disposal.landing {
            Landing::Kept { .. } | Landing::Refused { .. } => Some(disposal.landing.to_string()),
            _ => owned.record.kept.clone(),
        };
        owned.set_phase(Phase::Stopped)?;
    } else {
        owned.forget()?;
    }
    Ok(disposed)
}

/// Removes protective directories that are still empty.
fn remove_made_directories(owned: &Owned, home: &Home) {
    if owned.record.mode == Mode::Copy {
        return;
    }
    let workspace = owned.record.workspace(home);
    for name in &owned.record.made_directories {
        // Fails if something is in it, and that is right.
        let _ = std::fs::remove_dir(workspace.join(name));
    }
}

async fn dispose_worktree(owned: &mut Owned, disposal: &Disposal<'_>, disposed: &mut Disposed) {
    let repo = disposal.repo;
    let (Some(path), Some(branch)) = (owned.record.worktree.clone(), owned.record.branch.clone())
    else {
        return;
    };
    // Before the agent started there is nothing in it that the user does not have.
    let untouched = owned.record.phase == Phase::Creating;
    let result = async {
        if !path.is_dir() {
            worktree::prune(repo)?;
            return Ok(None);
        }
        let worktree = Worktree::find(repo, &path, branch.clone(), owned.record.base.clone())?;
        if !untouched {
            let tip = match disposal.checkout {
                Some(tip) => Some(tip.clone()),
                None => repo.resolve(&branch.full(), disposal.cancel).await?,
            };
            let tip = tip.as_ref().unwrap_or(&owned.record.base);
            let scratch = owned.directory().join("scratch");
            let changes = worktree::dirty(
                repo,
                &worktree,
                tip,
                disposal.rules,
                scratch,
                disposal.cancel,
            )
            .await?;
            if !changes.is_empty() {
                return Ok(Some(path.clone()));
            }
        }
        worktree::remove(repo, &worktree)?;
        Ok::<_, WorktreeError>(None)
    };
    match result.await {
        Ok(None) => owned.record.worktree = None,
        Ok(Some(kept)) => disposed.preserved = Some(kept),
        // Better a worktree too many than work lost.
        Err(error) => {
            disposed.problems.push(error.to_string());
            disposed.preserved = Some(path);
        }
    }
}

/// Removes a branch that was made for this sandbox and holds nothing that is not elsewhere.
/// Returns whether a branch of the sandbox's own stays.
async fn remove_temporary_branch(
    owned: &mut Owned,
    disposal: &Disposal<'_>,
    disposed: &mut Disposed,
) -> bool {
    let Disposal {
        repo,
        landing,
        cancel,
        ..
    } = disposal;
    let Some(branch) = owned.record.branch.clone() else {
        return false;
    };
    let removable = match (&owned.record.strategy, landing) {
        (Strategy::Head, _) => return false,
        // The user's own branch, as it was: nothing of the sandbox's stays.
        (Strategy::Branch, Landing::Nothing) if !owned.record.branch_is_ours => return false,
        (Strategy::MergeToHead { .. }, Landing::Landed { .. }) | (_, Landing::Nothing) => true,
        _ => false,
    };
    if !removable || disposed.preserved.is_some() {
        return true;
    }
    let Ok(tip) = repo.resolve(&branch.full(), cancel).await else {
        return true;
    };
    let Some(tip) = tip else { return false };
    if matches!(landing, Landing::Nothing) && tip != owned.record.base {
        return true;
    }
    let message = format!("cofferdam {}: done", owned.record.id);
    match Transaction::new(message)
        .delete(&branch.full(), &tip)
        .commit(repo, cancel)
        .await
    {
        Ok(()) => false,
        Err(error) => {
            disposed.problems.push(error.to_string());
            true
        }
    }
}

/// The gate's own reference goes once a branch of the user's has the commits.
async fn remove_tip(owned: &Owned, disposal: &Disposal<'_>, disposed: &mut Disposed) {
    // Nothing came through the gate, but for what an isolated sandbox had in no commit.
    if matches!(disposal.landing, Landing::Nothing) && owned.record.mode == Mode::Bind {
        return;
    }
    let Disposal { repo, cancel, .. } = disposal;
    let reference = refs::own(owned.record.id, Own::Tip);
    let result = async {
        if let Some(tip) = refs::read(repo, &reference, cancel).await? {
            let done = Transaction::new("cofferdam: landed").delete(&reference, &tip);
            done.commit(repo, cancel).await?;
        }
        Ok::<_, refs::RefError>(())
    };
    if let Err(error) = result.await {
        disposed.problems.push(error.to_string());
    }
}
