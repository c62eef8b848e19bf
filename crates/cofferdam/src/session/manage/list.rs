//! What sandboxes exist and how they are.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::{ManageError, orphan};
use crate::git::discovery::Start;
use crate::git::refs::{self, Own};
use crate::git::worktree::{self, Worktree};
use crate::git::{Git, Repository, UserRules};
use crate::home::Home;
use crate::names::{BranchName, SandboxId, Slug};
use crate::sandbox::registry::{self, Entry, Mode, Phase, Record, Strategy};

/// The states of a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    Creating,
    Active,
    Paused,
    Stopped,
    FailedSetup,
    /// Its record exists, its branch does not, or its repository.
    Missing,
}

impl std::fmt::Display for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Creating => "creating",
            Self::Active => "active",
            Self::Paused => "paused",
            Self::Stopped => "stopped",
            Self::FailedSetup => "failed-setup",
            Self::Missing => "missing",
        })
    }
}

/// One line of `list`.
#[derive(Debug, Clone, Serialize)]
pub struct Summary {
    pub id: SandboxId,
    pub name: Slug,
    /// "task": an agent works in it.
    pub kind: &'static str,
    pub provider: String,
    /// "bind" or "copy".
    pub mode: &'static str,
    pub state: State,
    /// Its command died before it could collect; `gc` brings the commits home.
    pub interrupted: bool,
    /// Its repository is gone from its place: nothing of it can come home.
    pub orphaned: bool,
    pub branch: String,
    /// Its commits since the base that what is checked out does not have: on its branch, or kept on a reference
    /// of ours. `None` where it has neither.
    pub ahead: Option<u64>,
    /// What it keeps for its user that did not land, and where, in words.
    pub kept: Option<String>,
    /// Uncommitted changes in its worktree; `None` where it has none.
    pub changes: Option<bool>,
    /// The directory that its agent works in, or worked in; `None` where that is gone.
    #[serde(serialize_with = "crate::session::path_json::optional")]
    pub workdir: Option<PathBuf>,
    pub created: Timestamp,
    #[serde(serialize_with = "crate::session::path_json::lossy")]
    pub repository: PathBuf,
}

/// The sandboxes of the repository around `repository`, or of all repositories, oldest first.
pub async fn list(
    home: &Home,
    git: &Git,
    repository: Option<&Path>,
    caller_home: Option<&Path>,
    cancel: &CancellationToken,
) -> Result<Vec<Summary>, ManageError> {
    let workspaces = registry::workspaces(home)?;
    let find = async |path: &Path| {
        let start = Start::find(path, &workspaces)?;
        Repository::discover(git, &start, caller_home, cancel).await
    };
    let only = match repository {
        None => None,
        Some(path) => Some(find(path).await?),
    };
    let listing = registry::list(home, only.as_ref().map(|repo| &repo.top))?;
    let mut summaries = Vec::with_capacity(listing.entries.len());
    for entry in listing.entries {
        let repo = match &only {
            Some(repo) => Some(repo.clone()),
            None => find(&entry.record.repository).await.ok(),
        };
        summaries.push(summary(home, repo.as_ref(), entry, caller_home, cancel).await?);
    }
    Ok(summaries)
}

/// What `list` cannot tell: each record that cannot be read, with what to do about it.
pub fn unreadable(home: &Home) -> Result<Vec<String>, ManageError> {
    let errors = registry::list(home, None)?.unreadable.into_iter();
    let hint = registry::unreadable_hint(home);
    Ok(errors.map(|error| format!("{error}; {hint}")).collect())
}

async fn summary(
    home: &Home,
    repo: Option<&Repository>,
    entry: Entry,
    caller_home: Option<&Path>,
    cancel: &CancellationToken,
) -> Result<Summary, ManageError> {
    let Entry { record, in_use } = entry;
    let orphaned = repo.is_none() && !in_use && orphan::is_gone(&record.repository);
    let interrupted = !in_use && !orphaned && record.phase.is_unfinished();
    // What the agent committed in the checkout itself is on a branch of its user's, or kept beside it.
    let holds = match (&record.strategy, &record.branch) {
        (Strategy::Head, _) if record.phase == Phase::Stopped => {
            Some(refs::own(record.id, Own::Tip))
        }
        (Strategy::Head, _) | (_, None) => None,
        (_, Some(branch)) => Some(branch.full()),
    };
    let ahead = match (repo, holds) {
        (Some(repo), Some(reference)) => {
            let range = format!("{}..{reference}", record.base);
            let done = repo
                .command()
                .args(["rev-list", "--count", "--end-of-options", &range, "^HEAD"])
                .answers(&[128])
                .run(cancel)
                .await?;
            String::from_utf8_lossy(&done.stdout).trim().parse().ok()
        }
        _ => None,
    };
    let has_branch = record.strategy == Strategy::Head || ahead.is_some();
    let state = match record.phase {
        _ if orphaned => State::Missing,
        Phase::Creating if in_use => State::Creating,
        Phase::Active | Phase::Collected if in_use => State::Active,
        Phase::FailedSetup => State::FailedSetup,
        Phase::Stopped if !has_branch && record.kept.is_none() => State::Missing,
        _ => State::Stopped,
    };
    let changes = match (repo, &record.worktree, &record.branch) {
        (Some(repo), Some(path), Some(branch)) if !in_use && path.is_dir() => {
            changes(home, repo, &record, path, branch, caller_home, cancel)
                .await
                .ok()
        }
        _ => None,
    };
    Ok(Summary {
        id: record.id,
        kind: "task",
        mode: record.mode.as_str(),
        state,
        interrupted,
        orphaned,
        branch: record.branch_text(),
        ahead,
        // Merged meanwhile, it is kept no longer.
        kept: record.kept.clone().filter(|_| ahead != Some(0)),
        changes,
        workdir: workdir(&record, home),
        created: record.created,
        name: record.name,
        provider: record.provider,
        repository: record.repository,
    })
}

/// A worktree and a private copy go with their run; the user's own checkout is the place of `head` alone.
fn workdir(record: &Record, home: &Home) -> Option<PathBuf> {
    let own =
        record.mode == Mode::Copy || record.worktree.is_some() || record.strategy == Strategy::Head;
    own.then(|| record.workspace(home))
        .filter(|path| path.is_dir())
}

/// Whether a stopped sandbox's worktree has uncommitted changes.
async fn changes(
    home: &Home,
    repo: &Repository,
    record: &Record,
    path: &Path,
    branch: &BranchName,
    caller_home: Option<&Path>,
    cancel: &CancellationToken,
) -> Result<bool, ManageError> {
    let worktree = Worktree::find(repo, path, branch.clone(), record.base.clone())?;
    let tip = repo
        .resolve(&branch.full(), cancel)
        .await?
        .unwrap_or_else(|| record.base.clone());
    let rules = UserRules {
        config: None,
        caller_home,
    };
    let scratch = home
        .sandbox(record.id)
        .join(format!("scratch-{}", std::process::id()));
    Ok(
        !worktree::dirty(repo, &worktree, &tip, rules, scratch, cancel)
            .await?
            .is_empty(),
    )
}
