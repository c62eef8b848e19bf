//! Where the commits of a sandbox are: on its branch, and at a reference of ours where that branch moved under
//! them.

use tokio_util::sync::CancellationToken;

use crate::git::land::Landing;
use crate::git::refs::{self, Own};
use crate::git::{GitError, Oid, Repository};
use crate::names::BranchName;
use crate::registry::{Record, Strategy};

/// One end of a sandbox's work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tip {
    pub id: Oid,
    /// On the sandbox's branch; otherwise on the sandbox's own reference.
    pub on_branch: bool,
}

/// The ends of a sandbox's work, none of which contains another; the branch's is the first. None: it has
/// neither branch nor kept commits.
pub(super) async fn tips(
    repo: &Repository,
    record: &Record,
    cancel: &CancellationToken,
) -> Result<Vec<Tip>, GitError> {
    let branch = match branch(record) {
        Some(branch) => repo.resolve(&branch.full(), cancel).await?,
        None => None,
    };
    let kept = if keeps_commits(record) {
        repo.resolve(&refs::own(record.id, Own::Tip), cancel)
            .await?
    } else {
        None
    };
    let on = |on_branch| move |id| Tip { id, on_branch };
    if let (Some(branch), Some(kept)) = (&branch, &kept) {
        if repo.is_ancestor(kept, branch, cancel).await? {
            return Ok(vec![on(true)(branch.clone())]);
        }
        if repo.is_ancestor(branch, kept, cancel).await? {
            return Ok(vec![on(false)(kept.clone())]);
        }
    }
    let kept = kept.into_iter().map(on(false));
    Ok(branch.into_iter().map(on(true)).chain(kept).collect())
}

/// The branch that the sandbox worked on. One that worked in the checkout has none of its own.
pub(super) fn branch(record: &Record) -> Option<&BranchName> {
    (record.branch.as_ref()).filter(|_| record.strategy != Strategy::Head)
}

/// The same where it was made for the sandbox, so that it goes with it.
pub(in crate::session) fn made_branch(record: &Record) -> Option<String> {
    let made = branch(record).filter(|_| record.branch_is_ours);
    made.map(ToString::to_string)
}

/// Whether the commits that came home landed nowhere. Without that, the sandbox's own reference may be at a stash.
fn keeps_commits(record: &Record) -> bool {
    (record.outcome.as_ref()).is_some_and(|outcome| matches!(outcome.landing, Landing::Kept { .. }))
}
