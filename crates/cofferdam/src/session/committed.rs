//! What a run names of the checkout, its agent's program or its prompt, has to be committed: its sandbox has committed
//! files, and an older one of the same name would work unnoticed.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use tokio_util::sync::CancellationToken;

use super::error::RunErrorKind;
use super::options::{PromptSource, RunOptions};
use super::plan::{Plan, PlanError};
use crate::fsx::Named;
use crate::git::before::BeforeError;
use crate::git::{InTree, Oid, below, nested, status};
use crate::registry::Strategy;

/// Refuses a prompt file of the checkout that is in no commit, or was changed since. One of another place is only read.
pub(super) async fn check_prompt(options: &RunOptions, plan: &Plan) -> Result<(), RunErrorKind> {
    let PromptSource::Template { path, .. } = &options.task.prompt else {
        return Ok(());
    };
    let top = plan.repository.top.as_path();
    let real = Named::find(path).map_or_else(|_| path.clone(), |named| named.place());
    let Ok(path) = below::plain(top, &real) else {
        return Ok(());
    };
    if plan.record.strategy == Strategy::Head || is_copied(options, plan, &path) {
        return Ok(());
    }
    let (what, cancel) = ("prompt", &options.caller.cancel);
    let found = match found(plan, &path, cancel).await? {
        // It is only read: of a branch that has none, the checkout's own commit has it.
        Found::Missing => found_in(plan, plan.repository.head.commit(), &path, cancel).await?,
        found => found,
    };
    match found {
        Found::Committed => Ok(()),
        Found::Missing | Found::Changed => Err(PlanError::Uncommitted { what, path }.into()),
    }
}

/// Whether `--copy` brings it along as it is.
pub(super) fn is_copied(options: &RunOptions, plan: &Plan, path: &Path) -> bool {
    let top = plan.repository.top.as_path();
    let mut copies = options.session.copy.iter();
    copies.any(|copy| below::plain(top, copy).is_ok_and(|copy| path.starts_with(copy)))
}

/// What the sandbox gets for a path of the checkout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// The same, or something on purpose: it works on another commit, or the path leads elsewhere.
    Committed,
    /// Nothing is there.
    Missing,
    /// What was committed before it was changed.
    Changed,
}

/// `path`: below the top.
pub(super) async fn found(
    plan: &Plan,
    path: &Path,
    cancel: &CancellationToken,
) -> Result<Found, RunErrorKind> {
    found_in(plan, &plan.record.base, path, cancel).await
}

async fn found_in(
    plan: &Plan,
    commit: &Oid,
    path: &Path,
    cancel: &CancellationToken,
) -> Result<Found, RunErrorKind> {
    let repo = &plan.repository;
    let committed = match repo.look_up(commit, path, cancel).await? {
        InTree::Missing => return Ok(Found::Missing),
        InTree::Blob(id) => id,
        InTree::Other => return Ok(Found::Committed),
    };
    let there = repo.top.as_path().join(path);
    if commit != repo.head.commit() || is_same(&there, &committed, plan) {
        return Ok(Found::Committed);
    }
    if let Some(trap) = nested::trap_in(repo.top.as_path()).await? {
        return Err(BeforeError::Trap(repo.top.as_path().join(trap)).into());
    }
    // With its line ends and filters git may call it the same.
    let repo = repo.without_drivers(cancel).await?;
    let changes = status::uncommitted(&repo, &[path], cancel).await?;
    Ok(if changes.is_empty() {
        Found::Committed
    } else {
        Found::Changed
    })
}

/// Whether a file has the bytes of a blob. Where there is none, or it cannot be read, that is not for here to tell.
fn is_same(file: &PathBuf, committed: &Oid, plan: &Plan) -> bool {
    // A pipe in its place would hold up whoever opens it.
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(file);
    let hashed = opened.and_then(|mut file| {
        let found = file.metadata()?;
        if !found.is_file() {
            return Err(std::io::ErrorKind::InvalidInput.into());
        }
        Oid::of_blob(plan.repository.format, found.len(), &mut file)
    });
    hashed.is_ok_and(|id| id == *committed)
}
