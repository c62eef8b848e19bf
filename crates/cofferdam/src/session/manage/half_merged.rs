//! A merge whose command was killed in the middle. A stopped sandbox is collected no more, so nobody else
//! comes to its journal: every command that would change or remove such a sandbox finishes it first, and so does
//! every command that would work or land in the checkout, where its old files would pass for the user's changes.

use std::path::Path;

use tokio_util::sync::CancellationToken;

use super::ManageError;
use super::turn::take;
use crate::git::Repository;
use crate::git::land::{self, Landed};
use crate::home::Home;
use crate::registry::{self, Entry, Owned, RegistryError};
use crate::session::barred::{at_work, was_in};

/// Brings index and files of the checkout to the branch that has moved. `None`: nothing was begun. An error
/// leaves the journal where it is.
pub(super) async fn finish(
    home: &Home,
    repo: &Repository,
    owned: &Owned,
    cancel: &CancellationToken,
) -> Result<Option<Landed>, ManageError> {
    if !land::is_half_done(owned.directory()) {
        return Ok(None);
    }
    let repo = repo.without_drivers(cancel).await?;
    match land::finish(&repo, owned.directory(), &|top| at_work(home, top), cancel).await {
        Ok(landed) => Ok(landed),
        Err(source) => {
            let name = owned.record.name.to_string();
            Err(ManageError::HalfMerged { name, source })
        }
    }
}

/// Finishes every merge that was cut short in the checkout `top`. Says what it did; an error names the sandbox
/// whose merge still is, and nothing else may begin there.
pub(super) async fn finish_in(
    home: &Home,
    repo: &Repository,
    top: &Path,
    cancel: &CancellationToken,
) -> Result<Vec<String>, ManageError> {
    let mut said = Vec::new();
    for Entry { record, in_use } in registry::list(home, None)?.entries {
        if (in_use && !record.lives_on()) || !was_in(&home.sandbox(record.id), top) {
            continue;
        }
        let name = record.name.clone();
        let owned = match take(home, record, cancel).await {
            Ok(owned) => owned,
            // Another command is at it.
            Err(RegistryError::InUse(_) | RegistryError::Gone(_)) => continue,
            Err(error) => return Err(error.into()),
        };
        if let Some(done) = finish(home, repo, &owned, cancel).await? {
            let mut text = format!(
                "the merge of sandbox `{name}`, which was cut short here, was finished first: {}",
                done.landing
            );
            if !done.changed_outside.is_empty() {
                text.push_str("; ");
                text.push_str(&lacking(&done.changed_outside));
            }
            said.push(text);
        }
    }
    Ok(said)
}

/// What is to be said of files that someone changed before the landed commits came to them.
pub fn lacking(files: &[String]) -> String {
    format!(
        "changed meanwhile and left as they are, so they may lack what landed: {} (see `git diff`)",
        files.join(", ")
    )
}
