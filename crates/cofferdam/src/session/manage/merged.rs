//! Sandboxes whose work has arrived: all that they committed is on the branch that it was meant for, and
//! there is nothing else of theirs. `gc` clears them; nothing that is not merged ever goes.

use std::path::PathBuf;

use tokio_util::sync::CancellationToken;

use super::branch::{delete_branch, relies_on};
use super::risk::worktree_of;
use super::taken_out::{self, Destination};
use super::tips::{self, refs_of, tips_at};
use super::{ManageError, SandboxRef};
use crate::git::land::Landing;
use crate::git::refs::{self, Own, RefError, Transaction};
use crate::git::refs_at::below_own;
use crate::git::worktree;
use crate::git::{Oid, Repository, UserRules, land};
use crate::home::Home;
use crate::names::BranchName;
use crate::registry::{Owned, Phase, Record, RegistryError, Strategy};
use crate::session::uncommitted::uncommitted;

/// Why [`super::gc()`] leaves a sandbox whose branch is merged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stays {
    /// It has uncommitted work, in a worktree or in files of its own.
    Uncommitted(PathBuf),
    /// Work that did not come home is only in its own directory.
    Kept(PathBuf),
    /// Something else of it is on no branch, or its branch is not on the one that it was meant for. References with
    /// commits that are not there, as far as they are known.
    Beside(Vec<String>),
}

/// Why `gc` would leave the sandbox. `None`: it clears it.
pub async fn stays(target: &SandboxRef) -> Result<Option<Stays>, ManageError> {
    let (repo, entry) = target.find().await?;
    let rules = UserRules {
        config: None,
        caller_home: target.caller_home.as_deref(),
    };
    let (home, cancel) = (&target.home, &target.cancel);
    Ok(look(home, &repo, &entry.record, rules, cancel).await?.err())
}

/// What was found to be merged.
struct Merged {
    /// Where its work is now.
    into: BranchName,
    /// A branch that was made for the sandbox and bears no name of the user's.
    temporary: Option<(BranchName, Oid)>,
    /// The sandbox's own references, but for the record of the user's work before it.
    own: Vec<refs::Listed>,
}

/// Removes a stopped sandbox whose work is merged, with a clean worktree; a branch that the user named
/// stays. Says what went, or would go; `None`: there is something to keep.
pub(super) async fn clear(
    home: &Home,
    repo: &Repository,
    record: &Record,
    rules: UserRules<'_>,
    dry_run: bool,
    cancel: &CancellationToken,
) -> Result<Option<String>, ManageError> {
    let Ok(found) = look(home, repo, record, rules, cancel).await? else {
        return Ok(None);
    };
    let said = format!("sandbox {}, whose work is on {}", record.name, found.into);
    if dry_run {
        return Ok(Some(said));
    }
    let owned = match Owned::adopt(home, record.clone()) {
        Ok(owned) => owned,
        // Another command is at it.
        Err(RegistryError::InUse(_) | RegistryError::Gone(_)) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    // What was true before the lock was ours may not be any more.
    let Ok(found) = look(home, repo, &owned.record, rules, cancel).await? else {
        return Ok(None);
    };
    if let Some(worktree) = worktree_of(repo, &owned.record)? {
        worktree::remove(repo, &worktree)?;
    }
    if let Some((branch, tip)) = &found.temporary {
        match delete_branch(repo, branch, tip, cancel).await {
            // The user is on it, or went on with it just now: then it is theirs.
            Ok(())
            | Err(ManageError::Refs(RefError::CheckedOut { .. } | RefError::Moved { .. })) => {}
            Err(error) => return Err(error),
        }
    }
    for one in &found.own {
        let delete = Transaction::new("cofferdam: merged").delete(&one.reference, &one.id);
        delete.commit(repo, cancel).await?;
    }
    owned.forget()?;
    Ok(Some(said))
}

/// Only a whole and certain answer is one: whatever cannot be read is kept.
async fn look(
    home: &Home,
    repo: &Repository,
    record: &Record,
    rules: UserRules<'_>,
    cancel: &CancellationToken,
) -> Result<Result<Merged, Stays>, ManageError> {
    let directory = home.sandbox(record.id);
    let files = record.workspace(home);
    let ended = record.mode.owns_files() && record.phase == Phase::Stopped;
    // What was applied can be taken back as long as its sandbox is there.
    let taken_out = taken_out::is_in(&directory, Destination::Worktree);
    if ended && files.is_dir() && !taken_out {
        return Ok(Err(Stays::Uncommitted(files)));
    }
    if taken_out::keeps_work(record, &directory, taken_out) {
        return Ok(Err(Stays::Kept(directory)));
    }
    if land::is_half_done(&directory) {
        return Ok(Err(Stays::Beside(Vec::new())));
    }
    let refused = record
        .outcome
        .as_ref()
        .is_some_and(|outcome| matches!(outcome.landing, Landing::Refused { .. }));
    let beside = (record.outcome.as_ref())
        .is_some_and(|outcome| outcome.keeps_repository || outcome.beside.is_some());
    if record.phase != Phase::Stopped || refused || beside {
        let refs = refs_of(repo, std::iter::once(record), cancel).await?;
        let ends = tips_at(repo, &refs, record, cancel).await?;
        let ends: Vec<Oid> = ends.into_iter().map(|tip| tip.id).collect();
        let kept = tips::beside(repo, &refs, record, &ends, cancel).await?;
        return Ok(Err(Stays::Beside(kept)));
    }
    let checked_out = repo.head.branch();
    let (into, branch) = match (&record.strategy, &record.branch) {
        (Strategy::MergeToHead { target }, Some(branch)) => (Some(target), Some(branch)),
        (Strategy::Branch, Some(branch)) => (checked_out, Some(branch)),
        _ => (checked_out, None),
    };
    // Who stands on the sandbox's branch has merged nothing by that.
    let Some(into) = into.filter(|&into| branch != Some(into)) else {
        return Ok(Err(Stays::Beside(Vec::new())));
    };
    let Some(target) = repo.resolve(&into.full(), cancel).await? else {
        return Ok(Err(Stays::Beside(Vec::new())));
    };
    let before = refs::own(record.id, Own::Before);
    let mut own = refs::list(repo, &below_own(record.id), cancel).await?;
    // Those of later agents have their number behind that.
    own.retain(|one| !one.reference.starts_with(&before));
    let tip = match branch {
        Some(branch) => repo.resolve(&branch.full(), cancel).await?,
        None => None,
    };
    // What was made of its work for its user to look at is none of it.
    let shown = [Own::Uncommitted, Own::Applied].map(|one| refs::own(record.id, one));
    // Those of linked worktrees have a name of theirs behind that.
    let is_shown = |one: &refs::Listed| shown.iter().any(|shown| one.reference.starts_with(shown));
    let work: Vec<Oid> = (tip.iter().cloned())
        .chain(
            own.iter()
                .filter(|one| !is_shown(one))
                .map(|one| one.id.clone()),
        )
        .collect();
    if work.is_empty() {
        return Ok(Err(Stays::Beside(Vec::new())));
    }
    for id in &work {
        if !repo.is_ancestor(id, &target, cancel).await? {
            return Ok(Err(Stays::Beside(Vec::new())));
        }
    }
    if let (Some(worktree), Some(tip)) = (worktree_of(repo, record)?, &tip) {
        let scratch = directory.join(format!("scratch-{}", std::process::id()));
        let ends = (tip, &work[..]);
        let changes = uncommitted(repo, &worktree, ends, rules, &scratch, cancel).await?;
        if !changes.is_empty() {
            return Ok(Err(Stays::Uncommitted(worktree.path.clone())));
        }
    }
    let temporary = match (&record.strategy, branch.cloned().zip(tip)) {
        (Strategy::MergeToHead { .. }, Some((branch, tip)))
            if record.branch_is_ours && relies_on(home, repo, record, &branch)?.is_none() =>
        {
            Some((branch, tip))
        }
        _ => None,
    };
    Ok(Ok(Merged {
        into: into.clone(),
        temporary,
        own,
    }))
}
