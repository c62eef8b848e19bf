//! Sandboxes whose repository is gone from its place: removed or moved, and another may be there now. Nothing of them
//! can come home, so what is left is their state directory; where they keep no work, it goes.

use std::path::{Path, PathBuf};

use super::SandboxRef;
use super::error::{Lost, ManageError};
use crate::git::land::Landing;
use crate::git::{GitError, Repository, RepositoryError, land};
use crate::home::Home;
use crate::registry::belongs::is_gone;
use crate::registry::{self, Entry, Mode, Owned, Phase, Record, RegistryError};
use crate::sandbox::{self, Handle};
use crate::session::collect;
use crate::wall::supervisor::Supervisor;
use tokio_util::sync::CancellationToken;

/// What is lost if the repository at the sandbox's place is not its own. Commits of the sandbox would miss their parents
/// in another, and its branches are not there.
pub(super) async fn lost(
    repo: &Repository,
    record: &Record,
    cancel: &CancellationToken,
) -> Result<Option<Lost>, GitError> {
    let found = repo.resolve(record.base.as_str(), cancel).await?;
    Ok(match found {
        Some(_) => None,
        None => Some(Lost::Other(record.base.clone())),
    })
}

/// Why a sandbox stays that has lost its repository.
pub(super) fn orphaned(record: &Record, directory: &Path, lost: Lost) -> ManageError {
    let (name, path) = (&record.name, directory.display());
    let work = match kept(record) {
        Some(kept) => format!("the one that was there keeps work of sandbox `{name}`: {kept}"),
        None => format!("what did not come home of sandbox `{name}` is only in {path}"),
    };
    ManageError::Orphaned {
        id: record.id,
        repository: record.repository.clone(),
        lost,
        work,
    }
}

/// The sandbox that a command means, if it is such a one: by its id from everywhere, by its name where there is no
/// repository in which that name could mean another.
pub(super) fn find(target: &SandboxRef, why: &ManageError) -> Result<Option<Entry>, ManageError> {
    let outside = matches!(
        why,
        ManageError::Repository(RepositoryError::NotARepository { .. })
    );
    let unknown = matches!(why, ManageError::Registry(RegistryError::Unknown { .. }));
    if !outside && !unknown {
        return Ok(None);
    }
    let name = target.name.as_str();
    let entries = registry::list(&target.home, None)?.entries;
    let mut orphans: Vec<Entry> = entries
        .into_iter()
        .filter(|entry| is_gone(&entry.record))
        .collect();
    let with_id = |entry: &Entry| entry.record.id.to_string() == name;
    if let Some(at) = orphans.iter().position(with_id) {
        return Ok(Some(orphans.swap_remove(at)));
    }
    orphans.retain(|entry| outside && entry.record.name.as_str() == name);
    if orphans.len() > 1 {
        let ids = orphans.iter().map(|entry| entry.record.id.to_string());
        return Err(ManageError::Ambiguous {
            name: name.to_owned(),
            ids: ids.collect(),
        });
    }
    Ok(orphans.pop())
}

/// Removes one that keeps no work, and says so; the error says what ends another.
pub(super) async fn clear(
    home: &Home,
    record: &Record,
    lost: Lost,
    dry_run: bool,
) -> Result<Option<String>, ManageError> {
    let directory = home.sandbox(record.id);
    if keeps_work(record, &directory) {
        return Err(orphaned(record, &directory, lost));
    }
    if !dry_run {
        let owned = match Owned::adopt(home, record.clone()) {
            Ok(owned) => owned,
            // Another command is at it, or was.
            Err(RegistryError::InUse(_) | RegistryError::Gone(_)) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        if keeps_work(&owned.record, &directory) {
            return Err(orphaned(&owned.record, &directory, lost));
        }
        forget(owned).await?;
    }
    let repository = record.repository.display();
    let removed = format!(
        "sandbox {}, whose repository {repository} is gone",
        record.name
    );
    Ok(Some(removed))
}

/// Whether its provider is one of a user's own, which alone can end it.
pub(super) fn is_others(home: &Home, record: &Record) -> bool {
    let provider = sandbox::provider_of(&record.provider, &home.sandbox(record.id));
    provider.is_ok_and(|provider| provider.name() != record.provider)
}

/// Why such a one stays.
pub(super) fn of_others(record: &Record, path: PathBuf) -> ManageError {
    ManageError::Others {
        name: record.name.to_string(),
        id: record.id,
        provider: record.provider.clone(),
        path,
    }
}

/// Ends one that lives on: its programs, unless it [is others'](is_others), and who keeps its place.
pub(super) async fn end_life(
    home: &Home,
    record: &Record,
    others: bool,
) -> Result<(), ManageError> {
    let state = home.sandbox(record.id);
    if !others {
        remove(record, &state).await?;
    }
    // Where it does not let go of the sandbox, that is what is said next.
    if let Ok(Some((supervisor, _))) = Supervisor::connect(&state).await {
        let _ = supervisor.stop().await;
    }
    Ok(())
}

pub(super) async fn forget(owned: Owned) -> Result<(), ManageError> {
    end(&owned).await?;
    Ok(owned.forget()?)
}

/// What may live of a sandbox whose command died: its control groups, and where it was to live on the sandbox itself.
/// Nothing of one that has its files inside: its provider alone ends it, and its work goes with it.
pub(super) async fn end(owned: &Owned) -> Result<(), ManageError> {
    if owned.record.mode == Mode::Inside {
        return Ok(());
    }
    remove(&owned.record, owned.directory()).await
}

async fn remove(record: &Record, state: &Path) -> Result<(), ManageError> {
    let handle = Handle {
        id: record.id,
        state: state.to_owned(),
    };
    let ended = match sandbox::provider_of(&record.provider, state) {
        Ok(provider) => provider.remove(&handle).await,
        Err(error) => Err(error),
    };
    ended.map_err(|source| ManageError::Alive {
        name: record.name.to_string(),
        source,
    })
}

/// Whether there is work of the sandbox that only its record or its state directory leads to: commits on a reference of
/// ours in a repository that may come back; commits that nobody could collect, files, refused packs, and how such a
/// checkout is brought to its end.
pub(super) fn keeps_work(record: &Record, directory: &Path) -> bool {
    // Before that no agent has run.
    record.phase != Phase::Creating
        && (kept(record).is_some()
            || collect::keeps_work(directory)
            || land::is_half_done(directory))
}

/// What is kept in the repository that is lost, in words.
pub(super) fn kept(record: &Record) -> Option<String> {
    // Its command may have died between the two.
    let outcome = record.outcome.as_ref();
    let landing = outcome.map(|outcome| &outcome.landing);
    let landing = landing.filter(|landing| matches!(landing, Landing::Kept { .. }));
    let beside = outcome.and_then(|outcome| outcome.beside.clone());
    let kept = record.kept.clone();
    kept.or_else(|| landing.map(ToString::to_string)).or(beside)
}
