//! Delete a sandbox: its worktree, its state and its branch. A tip that is nowhere else stays at
//! `refs/cofferdam/trash/<name>` for 30 days.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use super::branch::{delete_branch, keep_without_branch, relies_on};
use super::gc::{self, Recovered};
use super::risk::{Uncommitted, on_no_other_branch, own_branch, uncommitted_in, worktree_of};
use super::taken_out::{self, Destination};
use super::turn::take;
use super::{Lost, ManageError, SandboxRef, applying, half_merged, orphan};
use crate::git::Repository;
use crate::git::land::Landing;
use crate::git::refs;
use crate::git::refs_at::below_own;
use crate::git::worktree;
use crate::home::Home;
use crate::names::{BranchName, Slug};
use crate::registry::{self, Entry, Mode, Owned, Record, RegistryError, Setup};
use crate::runs;
use crate::sandbox::{self, BindMountProvider, Handle};
use crate::session::asked;

/// How long a run may take to stop, collect and dispose.
const STOP_LIMIT: Duration = Duration::from_secs(60);

/// How long nobody may listen who owns a sandbox: it was just begun.
const ASK_LIMIT: Duration = Duration::from_secs(3);

/// Between two looks at it.
const STEP: Duration = Duration::from_millis(20);

/// How much is deleted, and what is kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeleteOptions {
    /// Also while a run uses it (the run is asked to end, as by a cancel, and its commits come home first), with
    /// uncommitted work in its worktree, with packs that the gate refused, and purged with commits that are on no other branch.
    pub force: bool,
    /// Keep nothing: no trash reference either. Commits that are on no other branch go by force alone.
    pub purge: bool,
}

impl DeleteOptions {
    /// By force, with its commits kept.
    pub fn forced() -> Self {
        Self {
            force: true,
            ..Self::default()
        }
    }
}

/// What was deleted.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Deleted {
    /// The sandbox that there was.
    pub name: Slug,
    /// Where commits that are nowhere else stay for 30 days: the branch's, and those kept beside it.
    pub trash: Vec<String>,
    /// The sandbox's branch, which was left because another sandbox is on it too.
    pub kept_branch: Option<KeptBranch>,
    /// Files that were left because they are not the sandbox's alone.
    #[serde(serialize_with = "crate::path_json::optional")]
    pub kept_work: Option<PathBuf>,
    /// Below this are references in a repository that is gone, to what came home there: nobody can remove them now.
    pub left_behind: Option<String>,
}

/// A branch on which there are commits of more than one sandbox.
#[derive(Debug, Clone, Serialize)]
pub struct KeptBranch {
    /// Its short name.
    pub branch: BranchName,
    /// The newest of the others.
    pub of: Slug,
}

impl SandboxRef {
    /// Whether there is such a sandbox to delete, in this repository or left over from one that is gone.
    pub async fn check(&self) -> Result<(), ManageError> {
        match self.find().await {
            Ok(_) => Ok(()),
            Err(why) => orphan::find(self, &why)?.map(drop).ok_or(why),
        }
    }
}

/// Gives up the containers of a sandbox whose engine is gone for good, before [`delete()`] with `force`: it would have them
/// removed first. Says what may stay, for its user; `None`: there is nothing to give up. No work goes with that: it is in the
/// sandbox's files, and comes home as ever.
pub async fn let_go(target: &SandboxRef) -> Result<Option<String>, ManageError> {
    let entry = match target.find().await {
        Ok((_, entry)) => entry,
        Err(why) => match orphan::find(target, &why)? {
            Some(entry) => entry,
            // What is wrong is said by who deletes.
            None => return Ok(None),
        },
    };
    let record = &entry.record;
    // A run that is at work is told to stop, and ends its own.
    if !record.lives_on() && (entry.in_use || !record.phase.is_unfinished()) {
        return Ok(None);
    }
    let state = target.home.sandbox(record.id);
    let Ok(provider) = sandbox::provider_of(&record.provider, &state) else {
        return Ok(None);
    };
    let handle = Handle {
        id: record.id,
        state,
    };
    let left = provider.let_go(&handle).await;
    left.map_err(|source| ManageError::Alive {
        name: record.name.to_string(),
        source,
    })
}

/// Brings the commits of a sandbox home whose command died, as [`delete()`] does first. One that is gone by that is deleted, and its
/// references with it. `None`: there is nothing to bring.
pub async fn bring_home(
    target: &SandboxRef,
    options: DeleteOptions,
) -> Result<Option<Recovered>, ManageError> {
    let Some((repo, record, mut done)) = finished(target, options).await? else {
        return Ok(None);
    };
    if done.ended {
        let more = refs::delete_work(&repo, record.id, &record.name, &target.cancel).await?;
        done.trash.extend(more);
    }
    Ok(Some(done))
}

/// The same of one that is closed: what came home beside its branch keeps its name.
pub(in crate::session) async fn closed(
    target: &SandboxRef,
) -> Result<Option<Recovered>, ManageError> {
    let done = finished(target, DeleteOptions::default()).await?;
    Ok(done.map(|(_, _, done)| done))
}

async fn finished(
    target: &SandboxRef,
    options: DeleteOptions,
) -> Result<Option<(Repository, Record, Recovered)>, ManageError> {
    let (repo, record) = match target.find().await {
        Ok((repo, entry)) if !entry.in_use && entry.record.phase.is_unfinished() => {
            (repo, entry.record)
        }
        // What is wrong is said by who deletes.
        _ => return Ok(None),
    };
    match come_home(target, &repo, &record, options).await {
        Err(ManageError::Orphaned { .. }) => Ok(None),
        done => Ok(done?.map(|done| (repo, record, done))),
    }
}

async fn come_home(
    target: &SandboxRef,
    repo: &Repository,
    record: &Record,
    options: DeleteOptions,
) -> Result<Option<Recovered>, ManageError> {
    let home = target.caller_home.as_deref();
    let (known, purge) = (record.clone(), options.purge);
    match gc::recover_one(&target.home, repo, known, home, purge, &target.cancel).await {
        Ok(recovered) => Ok(Some(recovered)),
        // Another command may have been faster: what is true now is read by who asks.
        Err(ManageError::Registry(RegistryError::Gone(_) | RegistryError::InUse(_))) => Ok(None),
        // An agent may have left a repository that nobody can read: somebody must be able to
        // let go of it.
        Err(ManageError::Collect(_)) if options.purge => Ok(None),
        Err(ManageError::Collect(source)) => {
            let name = record.name.to_string();
            Err(ManageError::Uncollectable { name, source })
        }
        Err(error) => Err(error),
    }
}

/// Deletes a sandbox that nobody uses. One that lives on is ended first: [`crate::session::living::end_if_safe`].
pub async fn delete(target: &SandboxRef, options: DeleteOptions) -> Result<Deleted, ManageError> {
    let (repo, entry) = match target.find().await {
        Ok(found) => found,
        Err(why) => {
            let orphan = orphan::find(target, &why)?.ok_or(why)?;
            return delete_orphan(target, orphan, Lost::Gone, options).await;
        }
    };
    let cancel = &target.cancel;
    if let Some(lost) = orphan::lost(&repo, &entry.record, cancel).await? {
        return delete_orphan(target, entry, lost, options).await;
    }
    let mut record = entry.record;
    if entry.in_use {
        // One that lives on is ended by its own means, and nobody's process is told to stop.
        if !options.force || record.lives_on() {
            let name = record.name.to_string();
            return Err(ManageError::Running { name });
        }
        stop_owner(target, &record).await?;
        match target.find().await {
            Ok((_, entry)) => record = entry.record,
            Err(_) => return Ok(gone(record.name)),
        }
    }
    let mut trash = Vec::new();
    if record.phase.is_unfinished() {
        // Then it is a stopped one, or gone.
        let done = come_home(target, &repo, &record, options).await?;
        trash.extend(done.into_iter().flat_map(|done| done.trash));
        let Ok((_, entry)) = target.find().await else {
            trash.extend(refs::delete_work(&repo, record.id, &record.name, cancel).await?);
            return Ok(Deleted {
                trash,
                ..gone(record.name)
            });
        };
        record = entry.record;
    }
    let owned = Owned::adopt(&target.home, record)?;
    match half_merged::finish(&target.home, &repo, &owned, cancel).await {
        // The checkout may be gone: somebody must be able to let go of it.
        Err(ManageError::HalfMerged { .. }) if options.purge => {}
        done => drop(done?),
    }
    let record = &owned.record;
    let own_branch = own_branch(record);
    let user = target.caller_home.as_deref();
    let outcome = record.outcome.as_ref();
    let checkout = outcome.and_then(|outcome| outcome.checkout.as_ref());
    let found = uncommitted_in(&target.home, &repo, record, checkout, user, cancel).await?;
    if let Some(Uncommitted { path, files }) = found.filter(|_| !options.force) {
        return Err(ManageError::UncommittedWork {
            name: owned.record.name.to_string(),
            path,
            files,
        });
    }
    let copy = record.workspace(&target.home);
    let places = [Destination::Worktree, Destination::WorkingTree];
    let taken_out = places
        .iter()
        .any(|&place| taken_out::is_in(owned.directory(), place));
    if record.mode != Mode::Bind && copy.is_dir() && !taken_out && !options.force {
        // What stands on commits that the gate refused does not come out beside them.
        if let Some(Landing::Refused { why, pack }) = outcome.map(|outcome| &outcome.landing) {
            return Err(ManageError::Refused {
                name: owned.record.name.to_string(),
                why: why.clone(),
                pack: pack.clone(),
                has_files: true,
            });
        }
        return Err(ManageError::UncommittedWork {
            name: owned.record.name.to_string(),
            path: copy,
            files: Vec::new(),
        });
    }
    if options.purge
        && !options.force
        && let Some(risk) = on_no_other_branch(&target.home, &repo, record, cancel).await?
    {
        return Err(risk);
    }
    if taken_out::keeps_work(record, owned.directory(), taken_out) && !options.force {
        return Err(ManageError::KeptWork {
            name: owned.record.name.to_string(),
            path: owned.directory().to_owned(),
        });
    }
    if let Some(checkout) = applying::unfinished(owned.directory())
        && !options.force
    {
        return Err(ManageError::Applying {
            name: owned.record.name.to_string(),
            checkout,
        });
    }
    if let Some(worktree) = worktree_of(&repo, record)? {
        worktree::remove(&repo, &worktree)?;
    }
    let mut kept_branch = None;
    if !options.purge {
        trash.extend(keep_without_branch(&repo, record, cancel).await?);
    }
    // A branch that was there before the sandbox is the user's.
    if let Some(branch) = own_branch.filter(|_| record.branch_is_ours)
        && let Some(tip) = repo.resolve(&branch.full(), cancel).await?
    {
        if let Some(heir) = relies_on(&target.home, &repo, record, branch)? {
            kept_branch = Some(KeptBranch {
                branch: branch.clone(),
                of: heir.name.clone(),
            });
            hand_over(&target.home, heir, cancel).await?;
        } else {
            let left = |source| ManageError::BranchLeft {
                name: record.name.to_string(),
                branch: branch.clone(),
                source,
            };
            if options.purge || repo.is_elsewhere(&tip, branch, cancel).await? {
                let deleted = delete_branch(&repo, branch, &tip, cancel).await;
                deleted.map_err(|error| match error {
                    ManageError::Refs(source) => left(source),
                    other => other,
                })?;
            } else {
                let name = &record.name;
                let kept = refs::delete_branch_to_trash(&repo, branch, &tip, name, cancel).await;
                trash.push(kept.map_err(left)?);
            }
        }
    }
    if options.purge {
        runs::forget_of(&target.home, record.id)?;
        refs::purge_own(&repo, record.id, cancel).await?;
    } else {
        trash.extend(refs::delete_own(&repo, record.id, &record.name, cancel).await?);
    }
    let name = record.name.clone();
    owned.forget()?;
    Ok(Deleted {
        name,
        trash,
        kept_branch,
        kept_work: None,
        left_behind: None,
    })
}

/// Deletes one whose repository is gone from its place.
async fn delete_orphan(
    target: &SandboxRef,
    entry: Entry,
    lost: Lost,
    options: DeleteOptions,
) -> Result<Deleted, ManageError> {
    let record = entry.record;
    let given_up = options.force || options.purge;
    let others = record.lives_on() && orphan::is_others(&target.home, &record);
    if others && !options.purge {
        return Err(orphan::of_others(&record, target.home.sandbox(record.id)));
    }
    if record.lives_on() {
        // Nothing of it can come home, and its programs may be at work.
        if !given_up {
            let directory = target.home.sandbox(record.id);
            return Err(orphan::orphaned(&record, &directory, lost));
        }
        orphan::end_life(&target.home, &record, others).await?;
    } else if entry.in_use {
        if !options.force {
            let name = record.name.to_string();
            return Err(ManageError::Running { name });
        }
        stop_owner(target, &record).await?;
        if !target.home.sandbox(record.id).exists() {
            return Ok(gone(record.name));
        }
    }
    let owned = Owned::adopt(&target.home, record)?;
    if orphan::keeps_work(&owned.record, owned.directory()) && !given_up {
        return Err(orphan::orphaned(&owned.record, owned.directory(), lost));
    }
    let mut deleted = gone(owned.record.name.clone());
    // Where the checkout is still there without its `.git`, so may be the worktree in it.
    deleted.kept_work = owned.record.worktree.clone().filter(|path| path.is_dir());
    let came_home = owned.record.landed.is_some() || orphan::kept(&owned.record).is_some();
    deleted.left_behind = came_home.then(|| below_own(owned.record.id));
    if others {
        owned.forget()?;
    } else {
        orphan::forget(owned).await?;
    }
    Ok(deleted)
}

/// From now on the branch goes with that sandbox. One that is in use leaves it to the user at its end.
async fn hand_over(
    home: &Home,
    heir: Record,
    cancel: &tokio_util::sync::CancellationToken,
) -> Result<(), RegistryError> {
    match take(home, heir, cancel).await {
        Ok(mut heir) => {
            heir.record.branch_is_ours = true;
            heir.save()
        }
        Err(RegistryError::InUse(_) | RegistryError::Gone(_)) => Ok(()),
        Err(error) => Err(error),
    }
}

fn gone(name: Slug) -> Deleted {
    Deleted {
        name,
        trash: Vec::new(),
        kept_branch: None,
        kept_work: None,
        left_behind: None,
    }
}

/// Asks whoever owns the sandbox to end it, and waits until they have let go. Who only clears it up is waited for.
async fn stop_owner(target: &SandboxRef, record: &Record) -> Result<(), ManageError> {
    let name = || record.name.to_string();
    let directory = target.home.sandbox(record.id);
    let in_use = || registry::is_in_use(&target.home, record.id);
    let owner = || registry::owner(&target.home, record.id);
    let waiting = async {
        while in_use() {
            tokio::time::sleep(STEP).await;
        }
    };
    let ended = async {
        if let Some(process) = owner() {
            // One that is being made, or in which something is only tried, is its maker's to end.
            if record.is_check || record.setup == Setup::Making {
                return Err(ManageError::Running { name: name() });
            }
            let asking = async {
                while owner() == Some(process) && !asked::ask(&directory).await {
                    tokio::time::sleep(STEP).await;
                }
            };
            let asked = tokio::time::timeout(ASK_LIMIT, asking).await;
            asked.map_err(|_| ManageError::Unasked {
                name: name(),
                process,
            })?;
        }
        let waited = tokio::time::timeout(STOP_LIMIT, waiting).await;
        waited.map_err(|_| ManageError::Running { name: name() })
    };
    tokio::select! {
        () = target.cancel.cancelled() => Err(ManageError::Running { name: name() }),
        done = ended => done,
    }
}
