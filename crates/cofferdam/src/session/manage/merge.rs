//! Merge a sandbox's branch into the branch that is checked out.

use std::path::Path;

use super::{ManageError, Target, gc, half_merged};
use crate::git::land::{self, Incoming};
use crate::git::{Head, Identity, identity};
use crate::sandbox::registry::{self, Owned, Strategy};
use crate::session::collect::{CollectError, commits_between, merge_message};
use crate::session::report::{CommitLine, Landing};

/// What a merge came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Merge {
    /// [`Landing::Nothing`]: all of it was there already.
    pub landing: Landing,
    /// What the checked-out branch did not have, newest last; with [`Landing::Nothing`] what it has of the sandbox.
    pub commits: Vec<CommitLine>,
}

/// Merges what the sandbox's branch holds. Nothing moves on a conflict or where local changes
/// overlap. The branch stays; `delete` removes it. Calls `said` with what was done before about a dead run in the
/// checkout.
pub async fn merge(
    target: &Target,
    author: Option<Identity>,
    said: &(dyn Fn(&str) + Sync),
) -> Result<Merge, ManageError> {
    let (repo, entry) = target.find().await?;
    let cancel = &target.cancel;
    let name = entry.record.name.to_string();
    if entry.in_use {
        return Err(ManageError::Running { name });
    }
    if entry.record.phase.is_unfinished() {
        return Err(ManageError::Interrupted { name });
    }
    let owned = Owned::adopt(&target.home, entry.record)?;
    let (home, user) = (&target.home, target.caller_home.as_deref());
    // What an agent left in the checkout is moved out of it before git looks there.
    let recovered = gc::recover_in(home, &repo, repo.top.as_path(), user, cancel).await?;
    for line in &recovered {
        said(line);
    }
    let finished = half_merged::finish(home, &repo, &owned, cancel).await?;
    let repo = if finished.is_some() || !recovered.is_empty() {
        // What was read before may have moved.
        target.find().await?.0
    } else {
        repo
    };
    let record = &owned.record;
    let Head::Branch { name: into, .. } = &repo.head else {
        return Err(ManageError::DetachedTarget);
    };
    let tip = target.tip(&repo, record, false).await?;
    if land::is_ancestor(&repo, &tip, repo.head.commit(), cancel).await? {
        return Ok(Merge {
            landing: finished.unwrap_or(Landing::Nothing),
            commits: commits_between(&repo, &record.base, &tip, cancel).await?,
        });
    }
    let commits = commits_between(&repo, repo.head.commit(), &tip, cancel).await?;
    let author = match author {
        Some(author) => author,
        None => identity::identity(&repo, target.caller_home.as_deref(), cancel)
            .await?
            .ok_or(ManageError::NoIdentity)?,
    };
    let source = record
        .branch
        .as_ref()
        .filter(|_| record.strategy != Strategy::Head);
    let message = match source {
        Some(branch) => merge_message(branch, into),
        None => format!("Merge the work of sandbox '{name}' into {into}"),
    };
    let merge = land::Target {
        start: &repo.head,
        source,
        identity: &author,
        message: &message,
    };
    let incoming = if record.strategy == Strategy::Head {
        Incoming::from_head(record.id, record.base.clone(), tip)
    } else {
        Incoming::from_branch(record.id, record.base.clone(), tip)
    };
    let repo = repo.without_drivers(cancel).await?;
    let barred = |top: &Path| registry::barred(home, top);
    let state = owned.directory();
    let landed = land::merge_to_head(&repo, &merge, &incoming, state, &barred, cancel).await;
    Ok(Merge {
        landing: landed.map_err(CollectError::from)?.landing,
        commits,
    })
}
