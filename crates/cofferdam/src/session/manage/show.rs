//! A sandbox's work as people look at it. Only host-owned objects that passed the gate are read.

use super::sandbox_ref::Work;
use super::{ManageError, SandboxRef};
use crate::git::CommitLine;
use crate::git::land::Landing;
use crate::git::refs::{self, Own};
use crate::git::{DiffStyle, Oid, Repository};
use crate::registry::{Entry, Record};

/// What came home of a sandbox, as it is shown.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Shown<T> {
    pub what: T,
    /// References with commits of the sandbox that are on no branch: they are not in it.
    pub beside: Vec<String>,
    /// Why the gate refused what its run committed last, and so it is not in it either.
    pub refused: Option<String>,
}

/// The difference between the sandbox's base and its branch, control bytes escaped. Commits that are kept
/// beside a branch that moved follow as a difference of their own.
pub async fn diff(target: &SandboxRef, style: DiffStyle) -> Result<Shown<String>, ManageError> {
    let (repo, entry) = target.find().await?;
    let mut text = String::new();
    let Work { tips, beside } = at_home(target, &repo, &entry).await?;
    for tip in tips {
        let base = &entry.record.base;
        text += &repo.diff(base, &tip.id, style, &target.cancel).await?;
    }
    Ok(Shown {
        what: text,
        beside,
        refused: refused(&entry.record),
    })
}

/// What a commit of [`Rest`](super::Rest) has otherwise than its parent: the sandbox's uncommitted work, control bytes escaped.
pub async fn diff_rest(
    target: &SandboxRef,
    rest: &Oid,
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
    Ok(repo.diff(&from, rest, style, cancel).await?)
}

/// The commits of the sandbox's branch since its base, and those kept beside it, newest last.
pub async fn log(target: &SandboxRef) -> Result<Shown<Vec<CommitLine>>, ManageError> {
    let (repo, entry) = target.find().await?;
    let Work { tips, beside } = at_home(target, &repo, &entry).await?;
    let tips: Vec<Oid> = tips.into_iter().map(|tip| tip.id).collect();
    let commits = repo.commits_since(&entry.record.base, &tips, &target.cancel);
    Ok(Shown {
        what: commits.await?,
        beside,
        refused: refused(&entry.record),
    })
}

fn refused(record: &Record) -> Option<String> {
    match &record.outcome.as_ref()?.landing {
        Landing::Refused { why, .. } => Some(why.clone()),
        _ => None,
    }
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
