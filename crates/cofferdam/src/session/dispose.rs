//! Dispose: remove what a sandbox needed to live, keep what its user should still see.

use std::path::{Path, PathBuf};

use tokio_util::sync::CancellationToken;

use super::event::Notice;
use super::layers;
use super::uncommitted::uncommitted;
use crate::fsx::{self, beneath};
use crate::git::land::Landing;
use crate::git::private_clone::PrivateClone;
use crate::git::refs::{self, Own, Transaction};
use crate::git::status::ChangeKind;
use crate::git::worktree::{self, Worktree, WorktreeError};
use crate::git::{Repository, UserRules, before, copied, recorded, unseen};
use crate::home::Home;
use crate::names::SandboxId;
use crate::registry::{Mode, Outcome, Owned, Phase, RegistryError, Strategy};
use crate::sandbox::engine::Kind;
use crate::sandbox::{self, Handle, SandboxError};

/// What was left for the user.
#[derive(Debug, Default)]
pub(super) struct Disposed {
    /// A worktree or private copy with uncommitted work.
    pub preserved: Option<PathBuf>,
    /// Uncommitted files of the user's that are not as they were before the agent, with the record that has them.
    pub changed: Vec<(String, Vec<PathBuf>)>,
    /// What could not be removed, in words. The record stays, so that `gc` tries again.
    pub problems: Vec<String>,
}

impl Disposed {
    /// What became of the user's uncommitted work in the checkout that an agent shared with them. `took`: its commits hold some.
    pub(super) fn of_the_users(&mut self, id: SandboxId, took: bool) -> Vec<Notice> {
        if self.changed.is_empty() && took {
            let reference = before::reference(id);
            return vec![Notice::UncommittedTaken { reference }];
        }
        let changed = std::mem::take(&mut self.changed).into_iter();
        changed
            .map(|(reference, paths)| Notice::UncommittedChanged { reference, paths })
            .collect()
    }
}

/// What disposing needs to know beyond the record.
#[derive(Debug)]
pub(super) struct Disposal<'a> {
    pub home: &'a Home,
    pub repo: &'a Repository,
    pub outcome: Outcome,
    pub rules: UserRules<'a>,
    pub cancel: &'a CancellationToken,
}

/// Disposes of a collected sandbox.
pub(super) async fn dispose(
    mut owned: Owned,
    disposal: &Disposal<'_>,
) -> Result<Disposed, RegistryError> {
    let mut disposed = Disposed::default();
    let landing = &disposal.outcome.landing;
    if owned.record.phase != Phase::Creating {
        // What collecting needs goes now: whoever comes after a death must not collect again.
        owned.record.outcome = Some(disposal.outcome.clone());
        owned.set_phase(Phase::Collected)?;
    }
    if let Err(error) = end_what_an_engine_has(&owned).await {
        // The record stays as it is, unfinished: whoever finishes it asks the engine first.
        let problem = "its container may be there still, and the record stays";
        disposed.problems.push(format!("{problem}: {error}"));
        return Ok(disposed);
    }
    remove_made_directories(&mut owned, disposal);
    if owned.record.strategy == Strategy::Head {
        let took = disposal.outcome.took_work || owned.record.took_work;
        let id = owned.record.id;
        // What cannot be told is kept.
        let changed = recorded::drop_untouched(disposal.repo, id, took, disposal.cancel).await;
        disposed.changed = changed.unwrap_or_default();
    }
    dispose_worktree(&mut owned, disposal, &mut disposed).await;
    let directory = owned.directory().to_owned();
    let in_it = |name: &str| directory.join(name);
    let clone = PrivateClone::at(&directory);
    let mut gone: Vec<PathBuf> = ["modules", "reader"].map(in_it).into();
    // Of a sandbox without git.
    gone.extend(["known", "known-tree", "known-copies", "changes"].map(in_it));
    if disposed.preserved.is_none() && !disposal.outcome.copy_is_dirty {
        gone.push(in_it(copied::NOTE));
    }
    if owned.record.mode != Mode::Bind {
        if disposal.outcome.copy_is_dirty && !disposal.outcome.no_agent {
            disposed.preserved = Some(owned.record.workspace(disposal.home));
        } else {
            gone.push(in_it("work"));
            gone.extend(layers::OWN.map(in_it));
        }
    }
    // Uncommitted work that is in no worktree is looked at with the sandbox's own git, when its user asks for it.
    let asked = disposed.preserved.is_some() && owned.record.mode != Mode::Bind;
    if !disposal.outcome.keeps_repository && !asked {
        gone.extend([clone.git_dir, clone.vault]);
    }
    if !asked {
        gone.extend([clone.hooks, clone.pointer]);
    }
    for path in gone {
        if let Err(error) = fsx::remove_tree_or_file(&path) {
            disposed.problems.push(error.to_string());
        }
    }
    if !matches!(landing, Landing::Kept { .. } | Landing::Refused { .. }) {
        remove_tip(&owned, disposal, &mut disposed).await;
    }
    let branch_stays = remove_temporary_branch(&mut owned, disposal, &mut disposed).await;
    let keeps_work = match landing {
        Landing::Kept { .. } | Landing::Refused { .. } => true,
        Landing::Nothing | Landing::Landed { .. } => branch_stays,
    };
    let beside = &disposal.outcome.beside;
    let moved_out = directory.join("nested").is_dir();
    if keeps_work
        || beside.is_some()
        || disposal.outcome.keeps_repository
        || moved_out
        || disposed.preserved.is_some()
        || !disposed.problems.is_empty()
    {
        owned.record.kept = match landing {
            Landing::Kept { .. } | Landing::Refused { .. } => Some(landing.to_string()),
            _ => beside.clone().or(owned.record.kept.clone()),
        };
        owned.set_phase(Phase::Stopped)?;
    } else {
        owned.forget()?;
    }
    Ok(disposed)
}

/// An engine that went away in the middle of a step may have a container that its maker never heard of.
async fn end_what_an_engine_has(owned: &Owned) -> Result<(), SandboxError> {
    let record = &owned.record;
    if Kind::named(&record.provider).is_none() || record.mode == Mode::Inside {
        return Ok(());
    }
    let state = owned.directory().to_owned();
    let provider = sandbox::provider_of(&record.provider, &state)?;
    let id = record.id;
    provider.remove(&Handle { id, state }).await
}

/// Removes protective directories that are still empty. Not while another sandbox works in the same checkout: what
/// covers them there would go with them, and the last one removes them ([`super::protect`] puts them into its record).
fn remove_made_directories(owned: &mut Owned, disposal: &Disposal<'_>) {
    if owned.record.mode != Mode::Bind || owned.record.made_directories.is_empty() {
        return;
    }
    drop(owned.held.take());
    // In a worktree nobody else is.
    let alone = match owned.record.worktree {
        Some(_) => None,
        None => match unseen(&disposal.repo.git_dir) {
            Ok(Some(alone)) => Some(alone),
            _ => return,
        },
    };
    // An agent may have put a symlink in the place of what lies above.
    if let Ok(root) = beneath::root(&owned.record.workspace(disposal.home)) {
        for name in &owned.record.made_directories {
            // Fails if something is in it, and that is right.
            let _ = beneath::remove_directory(&root, Path::new(name));
        }
    }
    drop(alone);
}

async fn dispose_worktree(owned: &mut Owned, disposal: &Disposal<'_>, disposed: &mut Disposed) {
    let repo = disposal.repo;
    let (Some(path), Some(branch)) = (owned.record.worktree.clone(), owned.record.branch.clone())
    else {
        return;
    };
    // Before the agent started there is nothing in it that the user does not have, but for what their hooks made:
    // they make it again.
    let untouched = owned.record.phase == Phase::Creating || disposal.outcome.no_agent;
    let result = async {
        if !path.is_dir() {
            worktree::prune(repo)?;
            return Ok(None);
        }
        let worktree = Worktree::find(repo, &path, branch.clone(), owned.record.base.clone())?;
        if !untouched {
            // Somebody may have moved the branch meanwhile, in this worktree itself.
            let on_branch = repo.resolve(&branch.full(), disposal.cancel).await?;
            let on_branch = on_branch.as_slice();
            let tip = (disposal.outcome.checkout.as_ref())
                .or(on_branch.first())
                .unwrap_or(&owned.record.base);
            let changes = uncommitted(
                repo,
                &worktree,
                (tip, on_branch),
                disposal.rules,
                &owned.directory().join("scratch"),
                disposal.cancel,
            )
            .await?;
            let top = repo.top.as_path();
            let lost = changes.0.iter().any(|change| {
                let copied = change.kind == ChangeKind::Untracked
                    && is_same(
                        &path.join(&change.path),
                        &top.join(&change.path),
                        &mut Budget::default(),
                    );
                !copied
            });
            if lost {
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
    let Disposal { repo, cancel, .. } = disposal;
    let landing = &disposal.outcome.landing;
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
    let holds_only = match landing {
        Landing::Landed { .. } if disposal.outcome.checkout.as_ref() == Some(&tip) => true,
        // The user may have committed to it meanwhile.
        Landing::Landed { tip: landed, .. } => repo
            .is_ancestor(&tip, landed, cancel)
            .await
            .unwrap_or(false),
        _ => tip == owned.record.base,
    };
    if !holds_only {
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
    let nothing = matches!(disposal.outcome.landing, Landing::Nothing);
    if nothing && owned.record.mode == Mode::Bind {
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

/// How much [`is_same`] may read before it says no.
#[derive(Debug)]
struct Budget {
    entries: u32,
    bytes: u64,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            entries: 20_000,
            bytes: 256 << 20,
        }
    }
}

/// Whether all that is at `here`, which an agent may have made, is also in the user's directory: then
/// removing it loses nothing. So files that were copied in do not make every worktree one to keep.
fn is_same(here: &Path, there: &Path, budget: &mut Budget) -> bool {
    let (Ok(found), Ok(other)) = (here.symlink_metadata(), there.symlink_metadata()) else {
        return false;
    };
    if budget.entries == 0 || found.len() > budget.bytes {
        return false;
    }
    budget.entries -= 1;
    if found.is_dir() && other.is_dir() {
        let Ok(entries) = std::fs::read_dir(here) else {
            return false;
        };
        return entries.into_iter().all(|entry| {
            entry.is_ok_and(|entry| is_same(&entry.path(), &there.join(entry.file_name()), budget))
        });
    }
    if found.is_symlink() && other.is_symlink() {
        let (link, other) = (std::fs::read_link(here), std::fs::read_link(there));
        return link.is_ok_and(|link| other.is_ok_and(|other| link == other));
    }
    if !found.is_file() || !other.is_file() || found.len() != other.len() {
        return false;
    }
    budget.bytes -= found.len();
    let (mine, other) = (
        fsx::read_bounded(here, found.len()),
        fsx::read_bounded(there, found.len()),
    );
    mine.is_ok_and(|mine| other.is_ok_and(|other| mine == other))
}
