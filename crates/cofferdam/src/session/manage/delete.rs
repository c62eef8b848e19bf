//! Delete a sandbox: its worktree, its state and its branch. A tip that is nowhere else stays at
//! `refs/cofferdam/trash/<name>` for 30 days.

use std::path::PathBuf;

use serde::Serialize;

use super::{ManageError, Target, gc};
use crate::git::{refs, worktree};
use crate::names::Slug;
use crate::sandbox::registry::{Owned, Phase, Strategy};
use crate::session::collect::own_references;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    /// Also with uncommitted work in the worktree.
    pub force: bool,
    /// Keep nothing: no trash reference either.
    pub purge: bool,
}

/// What was deleted.
#[derive(Debug, Clone, Serialize)]
pub struct Deleted {
    pub name: Slug,
    /// Where the branch's tip stays for 30 days.
    pub trash: Option<String>,
    /// Files that were left because they are not the sandbox's alone.
    pub kept_work: Option<PathBuf>,
}

/// Deletes a sandbox that nobody uses.
pub async fn delete(target: &Target, options: DeleteOptions) -> Result<Deleted, ManageError> {
    let (repo, entry) = target.find().await?;
    let cancel = &target.cancel;
    let mut record = entry.record;
    if entry.in_use {
        return Err(ManageError::Running { name: record.name.to_string() });
    }
    if matches!(record.phase, Phase::Creating | Phase::Active) {
        // Its commits come home first; then it is a stopped one, or gone.
        let home = target.caller_home.as_deref();
        gc::recover_one(&target.home, &repo, record.clone(), home, cancel).await?;
        match target.find().await {
            Ok((_, entry)) => record = entry.record,
            Err(_) => return Ok(Deleted { name: record.name, trash: None, kept_work: None }),
        }
    }
    let owned = Owned::adopt(&target.home, record)?;
    let record = &owned.record;
    if let Some(path) = record.worktree.as_ref().filter(|path| path.is_dir()) {
        let dirty = worktree::dirty(&repo, path, cancel).await.unwrap_or(true);
        if dirty && !options.force {
            return Err(ManageError::UncommittedWork { path: path.clone() });
        }
        worktree::remove(&repo, path, cancel)
            .await
            .map_err(|error| ManageError::Step { what: "removing the worktree", source: Box::new(error) })?;
    }
    let copy = owned.directory().join("work");
    if copy.is_dir() && !options.force {
        return Err(ManageError::UncommittedWork { path: copy });
    }
    let mut trash = None;
    if let (Some(branch), Strategy::Branch | Strategy::MergeToHead { .. }) = (&record.branch, &record.strategy) {
        // A branch that was there before the sandbox is the user's.
        if record.branch_is_ours {
            trash = refs::delete_branch_to_trash(&repo, branch, &record.name, options.purge, cancel)
                .await
                .map_err(|error| ManageError::Step { what: "deleting the branch", source: Box::new(error) })?;
        }
    }
    for reference in own_references(record.id) {
        if let Some(tip) = repo.resolve(&reference, cancel).await? {
            let gone = refs::to_trash(&repo, &reference, &tip, &record.name, options.purge, cancel)
                .await
                .map_err(|error| ManageError::Step { what: "deleting a reference", source: Box::new(error) })?;
            trash = trash.or(gone);
        }
    }
    let name = record.name.clone();
    owned.forget()?;
    Ok(Deleted { name, trash, kept_work: None })
}
