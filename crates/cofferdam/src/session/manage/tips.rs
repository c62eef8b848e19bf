//! Where the commits of a sandbox are: on its branch, and at a reference of ours where that branch moved under
//! them.

use tokio_util::sync::CancellationToken;

use crate::git::land::Landing;
use crate::git::refs::{self, EXTRA, Own};
use crate::git::refs_at::{RefsAt, below_own, names_of};
use crate::git::{GitError, Oid, Repository};
use crate::names::BranchName;
use crate::registry::{Outcome, Record, Strategy};

/// One end of a sandbox's work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tip {
    pub id: Oid,
    /// On the sandbox's branch; otherwise on the sandbox's own reference.
    pub on_branch: bool,
}

/// The references that tell where the work of these sandboxes is.
pub(super) async fn refs_of(
    repo: &Repository,
    records: impl Iterator<Item = &Record>,
    cancel: &CancellationToken,
) -> Result<RefsAt, GitError> {
    let names = records.flat_map(|record| {
        let on_shelf = record.shelf_branch().map(BranchName::full);
        let names = names_of(record.id, record.branch.as_ref());
        names.into_iter().chain(on_shelf)
    });
    RefsAt::read(repo, names.collect(), cancel).await
}

/// [`tips_at`], asked now.
pub(super) async fn tips(
    repo: &Repository,
    record: &Record,
    cancel: &CancellationToken,
) -> Result<Vec<Tip>, GitError> {
    let refs = refs_of(repo, std::iter::once(record), cancel).await?;
    tips_at(repo, &refs, record, cancel).await
}

/// The ends of a sandbox's work, none of which contains another; the branch's is the first. None: it has
/// neither branch nor kept commits.
pub(super) async fn tips_at(
    repo: &Repository,
    refs: &RefsAt,
    record: &Record,
    cancel: &CancellationToken,
) -> Result<Vec<Tip>, GitError> {
    let branch = branch(record).and_then(|branch| refs.get(&branch.full()).cloned());
    let tip = refs::own(record.id, Own::Tip);
    let kept = refs.get(&tip).filter(|_| keeps_commits(record)).cloned();
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

/// Where commits of a sandbox are that came home and are on no branch, and that neither `ends` nor what is checked out has.
pub(super) async fn beside(
    repo: &Repository,
    refs: &RefsAt,
    record: &Record,
    ends: &[Oid],
    cancel: &CancellationToken,
) -> Result<Vec<String>, GitError> {
    let own = below_own(record.id);
    let extra = format!("{own}{EXTRA}");
    let extras = refs.below(&own);
    let mut found = Vec::new();
    for (reference, id) in extras.filter(|(reference, _)| reference.starts_with(&extra)) {
        let mut is_there = false;
        for end in ends.iter().chain([repo.head.commit()]) {
            is_there = is_there || repo.is_ancestor(id, end, cancel).await?;
        }
        if !is_there {
            found.push(reference.to_owned());
        }
    }
    Ok(found)
}

/// The branch that the sandbox worked on. One that worked in the checkout has none of its own; one that is lived in beside it brings its
/// branch home by pushes.
pub(super) fn branch(record: &Record) -> Option<&BranchName> {
    match record.strategy {
        Strategy::Head => record.shelf_branch().filter(|_| record.lives_on()),
        Strategy::Branch | Strategy::MergeToHead { .. } => record.branch.as_ref(),
    }
}

/// The commit at which that was when something came home last.
pub(super) fn last_home(record: &Record) -> Option<&Oid> {
    let own = branch(record)?;
    let landing = record.outcome.as_ref().map(|outcome| &outcome.landing);
    match landing {
        Some(Landing::Landed { branch, tip }) if own.as_str() == branch => Some(tip),
        _ => record.landed.as_ref(),
    }
}

/// The same where it was made for the sandbox, so that it goes with it.
pub(in crate::session) fn made_branch(record: &Record) -> Option<String> {
    let made = branch(record).filter(|_| record.branch_is_ours);
    made.map(ToString::to_string)
}

/// Whether the commits that came home landed nowhere. Without that, the sandbox's own reference may be at a stash.
fn keeps_commits(record: &Record) -> bool {
    (record.outcome.as_ref()).is_some_and(|Outcome { landing, .. }| {
        matches!(landing, Landing::Kept { .. }) && !landing.is_to_be_looked_at()
    })
}
