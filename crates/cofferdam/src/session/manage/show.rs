//! A sandbox's work as people look at it. Only host-owned objects that passed the gate are read.

use std::path::PathBuf;

use super::sandbox_ref::Work;
use super::{ManageError, SandboxRef};
use crate::git::CommitLine;
use crate::git::land::Landing;
use crate::git::refs::{self, Own};
use crate::git::{DiffStyle, GitError, Oid, Repository};
use crate::registry::{Entry, Record};
use crate::session::on_shelf::Unpushed;
use tokio_util::sync::CancellationToken;

/// What came home of a sandbox, as it is shown.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Shown<T> {
    /// The text, or the commits.
    pub what: T,
    /// References with commits of the sandbox that are on no branch: they are not in it.
    pub beside: Vec<String>,
    /// Why the gate refused what its run committed last, and so it is not in it either.
    pub refused: Option<String>,
    /// What is only on the shelf, and so it is not in it.
    pub unpushed: Option<Unpushed>,
    /// Why what came home last did not go where it should, as long as what is checked out has not got it.
    pub kept: Option<String>,
}

/// The difference between the sandbox's base and its branch, control bytes escaped. Commits that are kept
/// beside a branch that moved follow as a difference of their own.
pub async fn diff(target: &SandboxRef, style: DiffStyle) -> Result<Shown<String>, ManageError> {
    diff_of(target, &[], style).await
}

/// The same of these files alone, and of what is in these directories, from the top of the repository; of none named, of all.
pub async fn diff_of(
    target: &SandboxRef,
    paths: &[PathBuf],
    style: DiffStyle,
) -> Result<Shown<String>, ManageError> {
    let (repo, entry) = target.find().await?;
    let mut text = String::new();
    let Work { tips, base, beside } = at_home(target, &repo, &entry).await?;
    for tip in tips {
        text += &repo
            .diff_of(&base, &tip.id, paths, style, &target.cancel)
            .await?;
    }
    let nothing = paths.is_empty() && text.is_empty();
    let unpushed = target.refuse_unpushed(&repo, &entry.record, nothing);
    Ok(Shown {
        unpushed: unpushed.await?,
        what: text,
        beside,
        refused: refused(&entry.record),
        kept: kept(&repo, &entry.record, &target.cancel)
            .await?
            .and_then(why),
    })
}

/// What a commit of [`Rest`](super::Rest) has otherwise than its parent: the sandbox's uncommitted work, control bytes escaped.
pub async fn diff_rest(
    target: &SandboxRef,
    rest: &Oid,
    paths: &[PathBuf],
    style: DiffStyle,
) -> Result<String, ManageError> {
    let (repo, entry) = target.find().await?;
    let cancel = &target.cancel;
    let record = entry.record;
    let parent = repo.resolve(&format!("{rest}^"), cancel).await?;
    let own = refs::own(record.id, Own::Uncommitted);
    // A sandbox makes the commit, and may make it on one that no branch has: nobody was shown what that one changed.
    let from = match parent {
        Some(parent) if repo.is_at_home(&parent, &own, cancel).await? => parent,
        _ => record.base,
    };
    Ok(repo.diff_of(&from, rest, paths, style, cancel).await?)
}

/// The commits of the sandbox's branch since its base, and those kept beside it, newest last.
pub async fn log(target: &SandboxRef) -> Result<Shown<Vec<CommitLine>>, ManageError> {
    let (repo, entry) = target.find().await?;
    let Work { tips, base, beside } = at_home(target, &repo, &entry).await?;
    let tips: Vec<Oid> = tips.into_iter().map(|tip| tip.id).collect();
    let commits = repo.commits_since(&base, &tips, &target.cancel).await?;
    let unpushed = target.refuse_unpushed(&repo, &entry.record, commits.is_empty());
    Ok(Shown {
        unpushed: unpushed.await?,
        what: commits,
        beside,
        refused: refused(&entry.record),
        kept: kept(&repo, &entry.record, &target.cancel)
            .await?
            .and_then(why),
    })
}

/// What came home before, did not go where it should, and is not in what is checked out: [`Landing::Kept`].
/// With its commits.
pub async fn still_kept(
    target: &SandboxRef,
) -> Result<Option<(Landing, Vec<CommitLine>)>, ManageError> {
    let (repo, entry) = target.find().await?;
    let Some(kept) = kept(&repo, &entry.record, &target.cancel).await? else {
        return Ok(None);
    };
    let tips: Vec<Oid> = match kept {
        Landing::Kept { reference, .. } => {
            let full = full(reference);
            repo.resolve(&full, &target.cancel)
                .await?
                .into_iter()
                .collect()
        }
        _ => Vec::new(),
    };
    let commits = if tips.is_empty() {
        Vec::new()
    } else {
        let head = repo.head.commit();
        repo.commits_since(head, &tips, &target.cancel).await?
    };
    Ok(Some((kept.clone(), commits)))
}

async fn kept<'a>(
    repo: &Repository,
    record: &'a Record,
    cancel: &CancellationToken,
) -> Result<Option<&'a Landing>, GitError> {
    let landing = record.outcome.as_ref().map(|outcome| &outcome.landing);
    match landing {
        Some(kept @ Landing::Kept { reference, .. }) if !kept.is_held_back() => {
            let waits = waits(repo, reference, cancel).await?;
            Ok(waits.then_some(kept))
        }
        _ => Ok(None),
    }
}

fn why(landing: &Landing) -> Option<String> {
    match landing {
        Landing::Kept { why, .. } | Landing::Refused { why, .. } => Some(why.clone()),
        Landing::Nothing | Landing::Landed { .. } => None,
    }
}

/// Whether what is checked out has not got what a landing kept there.
pub(super) async fn waits(
    repo: &Repository,
    reference: &str,
    cancel: &CancellationToken,
) -> Result<bool, GitError> {
    match repo.resolve(&full(reference), cancel).await? {
        Some(tip) => Ok(!repo.is_ancestor(&tip, repo.head.commit(), cancel).await?),
        None => Ok(true),
    }
}

/// A landing names a branch as people do.
fn full(reference: &str) -> String {
    if reference.starts_with("refs/") {
        reference.to_owned()
    } else {
        format!("refs/heads/{reference}")
    }
}

fn refused(record: &Record) -> Option<String> {
    let landing = &record.outcome.as_ref()?.landing;
    matches!(landing, Landing::Refused { .. }).then(|| why(landing))?
}

/// What can be shown. The commits of a dead run are in its own repository, and nobody reads that but the gate.
async fn at_home(
    target: &SandboxRef,
    repo: &Repository,
    entry: &Entry,
) -> Result<Work, ManageError> {
    let Entry { record, in_use } = entry;
    if !in_use && record.phase.is_unfinished() {
        let name = record.name.to_string();
        return Err(ManageError::Interrupted { name });
    }
    target.work(repo, record, *in_use).await
}
