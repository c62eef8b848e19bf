//! What would be lost with a sandbox that lives on.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use tokio_util::sync::CancellationToken;

use super::branch::relies_on;
use super::error::ManageError;
use super::tips::{refs_of, tips, tips_at};
use crate::git::refs::{EXTRA, EXTRA_STASH};
use crate::git::refs_at::below_own;
use crate::git::status::ChangeKind;
use crate::git::worktree::Worktree;
use crate::git::{Oid, Repository, UserRules, identity};
use crate::home::Home;
use crate::names::BranchName;
use crate::registry::{Record, Strategy};
use crate::session::collect;
use crate::session::uncommitted::uncommitted;

/// What would be lost with a sandbox that lives on and was just collected, as an error that says so: uncommitted work in
/// its worktree, and what did not come home. `checkout`: the commit that is checked out inside.
pub(in crate::session) async fn at_risk(
    home: &Home,
    repo: &Repository,
    record: &Record,
    checkout: &Oid,
    caller_home: Option<&Path>,
    cancel: &CancellationToken,
) -> Result<Option<ManageError>, ManageError> {
    let name = record.name.to_string();
    let directory = home.sandbox(record.id);
    let checkout = Some(checkout);
    let found = uncommitted_in(home, repo, record, checkout, caller_home, cancel).await?;
    if let Some(Uncommitted { path, files }) = found {
        return Ok(Some(ManageError::UncommittedWork { name, path, files }));
    }
    let kept = collect::set_aside(&directory);
    Ok(kept.map(|path| ManageError::KeptWork { name, path }))
}

/// Commits of a sandbox that nothing keeps when it goes without a trace, as an error that says so: no branch, tag or remote branch has
/// them, or only the branch that goes with it.
pub(in crate::session) async fn on_no_other_branch(
    home: &Home,
    repo: &Repository,
    record: &Record,
    cancel: &CancellationToken,
) -> Result<Option<ManageError>, ManageError> {
    let refs = refs_of(repo, std::iter::once(record), cancel).await?;
    let ends = tips_at(repo, &refs, record, cancel).await?;
    let mut ends: Vec<Oid> = ends.into_iter().map(|tip| tip.id).collect();
    let own = below_own(record.id);
    let [beside, stashes] = [EXTRA, EXTRA_STASH].map(|begin| format!("{own}{begin}"));
    for (reference, id) in refs.below(&own) {
        if reference.starts_with(&beside) && !reference.starts_with(&stashes) {
            ends.push(id.clone());
        }
    }
    let mut goes = own_branch(record).filter(|_| record.branch_is_ours);
    if let Some(branch) = goes
        && relies_on(home, repo, record, branch)?.is_some()
    {
        goes = None;
    }
    let commits = repo
        .count_only_there(&ends, &record.base, goes, cancel)
        .await?;
    let name = record.name.to_string();
    Ok((commits > 0).then_some(ManageError::OnNoOtherBranch { name, commits }))
}

/// A worktree with work that is in no commit.
#[derive(Debug)]
pub(super) struct Uncommitted {
    pub(super) path: PathBuf,
    /// Below it, printable.
    pub(super) files: Vec<String>,
}

/// The worktree, where it has uncommitted work. `checkout`: the commit that was checked out inside, where it is known.
pub(super) async fn uncommitted_in(
    home: &Home,
    repo: &Repository,
    record: &Record,
    checkout: Option<&Oid>,
    caller_home: Option<&Path>,
    cancel: &CancellationToken,
) -> Result<Option<Uncommitted>, ManageError> {
    let (Some(worktree), Some(path)) = (worktree_of(repo, record)?, &record.worktree) else {
        return Ok(None);
    };
    let config = identity::user_config(repo, caller_home, cancel).await?;
    let ends = tips(repo, record, cancel).await?;
    let ends: Vec<Oid> = ends.into_iter().map(|tip| tip.id).collect();
    let rules = UserRules {
        config: Some(&config),
        caller_home,
    };
    let scratch = home.sandbox(record.id).join("scratch");
    let at = checkout.or(ends.first()).unwrap_or(&record.base);
    let ends = (at, &ends[..]);
    let changes = uncommitted(repo, &worktree, ends, rules, &scratch, cancel).await?;
    if changes.is_empty() {
        return Ok(None);
    }
    // What could not be looked at has no name.
    let files = changes
        .0
        .iter()
        .filter(|one| !one.path.as_os_str().is_empty());
    let files = files.map(|one| {
        let name = crate::text::printable_bytes_line(one.path.as_os_str().as_bytes());
        match one.kind {
            ChangeKind::Trap => format!("{name} (a pipe, at which git would wait for ever)"),
            _ => name,
        }
    });
    Ok(Some(Uncommitted {
        path: path.clone(),
        files: files.collect(),
    }))
}

pub(super) fn own_branch(record: &Record) -> Option<&BranchName> {
    match &record.strategy {
        Strategy::Branch | Strategy::MergeToHead { .. } => record.branch.as_ref(),
        Strategy::Head => None,
    }
}

pub(super) fn worktree_of(
    repo: &Repository,
    record: &Record,
) -> Result<Option<Worktree>, ManageError> {
    let path = record.worktree.as_ref().filter(|path| path.is_dir());
    let (Some(path), Some(branch)) = (path, own_branch(record)) else {
        return Ok(None);
    };
    let found = Worktree::find(repo, path, branch.clone(), record.base.clone())?;
    Ok(Some(found))
}
