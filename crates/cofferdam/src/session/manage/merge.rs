//! Merge a sandbox's branch into the branch that is checked out.

use super::{ManageError, Target};
use crate::git::{Head, Identity, identity, land};
use crate::names::BranchName;
use crate::sandbox::registry::{Owned, Phase, Strategy};
use crate::session::collect::CollectError;
use crate::session::report::Landing;

/// Merges what the sandbox's branch holds. Nothing moves on a conflict or where local changes
/// overlap. The branch stays; `delete` removes it.
pub async fn merge(target: &Target, author: Option<Identity>) -> Result<Landing, ManageError> {
    let (repo, entry) = target.find().await?;
    let cancel = &target.cancel;
    let name = entry.record.name.to_string();
    if entry.in_use {
        return Err(ManageError::Running { name });
    }
    if matches!(entry.record.phase, Phase::Creating | Phase::Active) {
        return Err(ManageError::Interrupted { name });
    }
    let owned = Owned::adopt(&target.home, entry.record)?;
    let record = &owned.record;
    let Head::Branch { name: into, .. } = &repo.head else { return Err(ManageError::DetachedTarget) };
    let reference = match (&record.strategy, &record.branch) {
        (Strategy::Branch | Strategy::MergeToHead { .. }, Some(branch)) => branch.full(),
        _ => format!("refs/cofferdam/{}/tip", record.id),
    };
    let missing = || ManageError::NoBranch { name: name.clone(), branch: reference.clone() };
    let tip = repo.resolve(&reference, cancel).await?.ok_or_else(missing)?;
    let author = match author {
        Some(author) => Some(author),
        None => identity::identity(&repo, target.caller_home.as_deref(), cancel)
            .await
            .map_err(|error| ManageError::Step { what: "reading the author", source: Box::new(error) })?,
    };
    let label: BranchName = match &record.branch {
        Some(branch) => branch.clone(),
        None => into.clone(),
    };
    land::merge_to_head(&repo, record.id, &label, into, &tip, author.as_ref(), owned.directory(), cancel)
        .await
        .map_err(|error| CollectError::from(error).into())
}
