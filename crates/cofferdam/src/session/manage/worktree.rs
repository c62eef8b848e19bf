//! A real worktree of a sandbox's work, for a sandbox that ended and whose files are in none.

use std::path::PathBuf;

use super::risk::own_branch;
use super::taken_out::{self, Destination};
use super::turn::take_ended;
use super::{ManageError, SandboxRef};
use crate::fsx;
use crate::git::worktree::{self, WorktreeError};
use crate::git::{Oid, UserRules, identity};

/// In the state directory, as long as the worktree is being made: after a death it has not all of the work.
const UNFINISHED: &str = "worktree-unfinished";

/// Makes a linked worktree of the sandbox's branch, and in it, uncommitted as it was, what `rest` has. From then on it is the
/// sandbox's own: `delete` removes both. Where there is one already, that one is it. `whole`: whether `rest` is all that the
/// sandbox left; then nothing keeps its own files any more.
pub async fn worktree(
    target: &SandboxRef,
    rest: Option<Oid>,
    whole: bool,
) -> Result<PathBuf, ManageError> {
    let (repo, mut owned) = take_ended(target).await?;
    let cancel = &target.cancel;
    let unfinished = owned.directory().join(UNFINISHED);
    if let Some(path) = owned.record.worktree.as_ref().filter(|path| path.is_dir()) {
        let path = path.clone();
        if unfinished.symlink_metadata().is_ok() {
            let why = "it was cut short, and has not all of the work";
            return Err(WorktreeError::InTheWay { path, why }.into());
        }
        return Ok(path);
    }
    let Some(branch) = own_branch(&owned.record).cloned() else {
        // It worked in the checkout itself.
        return Ok(repo.top.as_path().to_owned());
    };
    let repo = repo.without_drivers(cancel).await?;
    let home = target.caller_home.as_deref();
    let config = identity::user_config(&repo, home, cancel).await?;
    let rules = UserRules {
        config: Some(&config),
        caller_home: home,
    };
    let path = worktree::directory(&repo).join(worktree::directory_name(&branch));
    // What is there already is not this sandbox's: it must not be in the record.
    if std::fs::symlink_metadata(&path).is_err() {
        // An earlier one may have had it all, and is gone.
        taken_out::forget(owned.directory(), Destination::Worktree)?;
        fsx::write_private(&unfinished, b"")?;
        owned.record.worktree = Some(path);
        owned.save()?;
    }
    let outcome = owned.record.outcome.as_ref();
    let ended = outcome.and_then(|outcome| outcome.checkout.clone());
    let base = ended.unwrap_or_else(|| owned.record.base.clone());
    let made = match worktree::add(&repo, &branch, Some(&base), rules, cancel).await {
        Ok(made) => made,
        Err(error) => {
            owned.record.worktree = None;
            owned.save()?;
            return Err(error.into());
        }
    };
    if let Some(rest) = rest
        && let Err(error) = worktree::restore(&repo, &made, &rest, cancel).await
    {
        // Nobody knows it yet.
        worktree::remove(&repo, &made)?;
        owned.record.worktree = None;
        owned.save()?;
        return Err(error.into());
    }
    if whole {
        taken_out::note(owned.directory(), Destination::Worktree)?;
    }
    fsx::remove_file_if_exists(&unfinished)?;
    Ok(made.path)
}
