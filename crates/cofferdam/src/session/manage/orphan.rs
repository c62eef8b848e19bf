//! Sandboxes whose repository is gone from its place: removed or moved. Nothing of them can come home, so what is
//! left is their state directory; where that holds no work, it goes.

use std::path::Path;

use super::delete::{self, DeleteOptions, Deleted};
use super::{ManageError, Target};
use crate::git::{RepositoryError, land};
use crate::home::Home;
use crate::sandbox::native;
use crate::sandbox::registry::{self, Entry, Owned, Phase, Record, RegistryError};
use crate::session::collect;

/// Whether no repository is at the place that a record names. A disk that cannot be asked has not lost it.
pub(super) fn is_gone(repository: &Path) -> bool {
    let found = repository.join(".git").symlink_metadata();
    found.is_err_and(|error| {
        use std::io::ErrorKind::{NotADirectory, NotFound};
        matches!(error.kind(), NotFound | NotADirectory)
    })
}

/// The sandbox that a command means, if it is such a one: by its id from everywhere, by its name where there is no
/// repository in which that name could mean another.
pub(super) fn find(target: &Target, why: &ManageError) -> Result<Option<Entry>, ManageError> {
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
        .filter(|entry| is_gone(&entry.record.repository))
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

/// Deletes one.
pub(super) async fn delete(
    target: &Target,
    entry: Entry,
    options: DeleteOptions,
) -> Result<Deleted, ManageError> {
    let record = entry.record;
    if entry.in_use {
        if !options.force {
            let name = record.name.to_string();
            return Err(ManageError::Running { name });
        }
        delete::stop_owner(target, &record).await?;
        if !target.home.sandbox(record.id).exists() {
            return Ok(delete::gone(record.name));
        }
    }
    let owned = Owned::adopt(&target.home, record)?;
    if keeps_work(&owned.record, owned.directory()) && !options.force {
        return Err(ManageError::Orphaned {
            id: owned.record.id,
            name: owned.record.name.clone(),
            repository: owned.record.repository.clone(),
            path: owned.directory().to_owned(),
        });
    }
    let mut deleted = delete::gone(owned.record.name.clone());
    // Where the checkout is still there without its `.git`, so may be the worktree in it.
    deleted.kept_work = owned.record.worktree.clone().filter(|path| path.is_dir());
    forget(owned).await?;
    Ok(deleted)
}

/// Removes one that keeps no work, and says so; the error says what ends another.
pub(super) async fn clear(
    home: &Home,
    record: &Record,
    dry_run: bool,
) -> Result<Option<String>, ManageError> {
    let directory = home.sandbox(record.id);
    let orphaned = |record: &Record| ManageError::Orphaned {
        id: record.id,
        name: record.name.clone(),
        repository: record.repository.clone(),
        path: directory.clone(),
    };
    if keeps_work(record, &directory) {
        return Err(orphaned(record));
    }
    if !dry_run {
        let owned = match Owned::adopt(home, record.clone()) {
            Ok(owned) => owned,
            // Another command is at it, or was.
            Err(RegistryError::InUse(_) | RegistryError::Gone(_)) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        if keeps_work(&owned.record, &directory) {
            return Err(orphaned(&owned.record));
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

async fn forget(owned: Owned) -> Result<(), RegistryError> {
    native::remove_leftovers(owned.record.id).await;
    owned.forget()
}

/// Whether the state directory holds what is nowhere else: commits that nobody could collect, files, refused packs, and
/// how a checkout that may come back is brought to its end.
fn keeps_work(record: &Record, directory: &Path) -> bool {
    // Before that no agent has run.
    record.phase != Phase::Creating
        && (collect::keeps_work(directory) || land::is_half_done(directory))
}
