//! What sandboxes exist and how they are.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Slot;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::future::join_all;
use jiff::Timestamp;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::merge::still_has;
use super::show::waits;
use super::tips::{beside, refs_of, tips_at};
use super::{ManageError, applying};
use crate::git::discovery::Start;
use crate::git::land::Landing;
use crate::git::refs_at::RefsAt;
use crate::git::worktree::Worktree;
use crate::git::{Git, Oid, Repository, UserRules, land};
use crate::home::Home;
use crate::names::{BranchName, SandboxId, Slug, VolumeName};
use crate::registry::{
    self, Entry, Mode, Phase, Record, RegistryError, Setup, Squashed, Strategy, belongs,
};
use crate::sandbox::{self, BindMountProvider, SandboxError};
use crate::session::collect;
use crate::session::dev;
use crate::session::layers;
use crate::session::living::{self, Condition};
use crate::session::uncommitted::uncommitted;

/// How long a sandbox may take to say how it is.
const ASKED: Duration = Duration::from_secs(5);
/// How long a look at the files of one that lives on may take.
const LOOKED: Duration = Duration::from_secs(5);

/// The states of a sandbox. Not `#[non_exhaustive]`, as [`SessionError`](crate::session::SessionError) is not, and for the same reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// It is being made.
    Creating,
    /// Programs run in it, or may.
    Active,
    /// Everything in it stands still.
    Paused,
    /// Nothing runs in it; it can be started.
    Stopped,
    /// A hook inside failed while it was made.
    FailedSetup,
    /// Its record exists; its branch does not, or its files, or its repository.
    Missing,
    /// It does not answer, so nobody knows what it does.
    Silent,
    /// It was started by another version, which says nothing to this one.
    OtherVersion,
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
            Self::Silent => "silent",
            Self::OtherVersion => "other-version",
        })
    }
}

/// One line of `list`.
#[derive(Debug, Clone, Serialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own, as `list --json` has it"
)]
#[non_exhaustive]
pub struct Summary {
    /// By which it is known; never given twice.
    pub id: SandboxId,
    /// By which people call it.
    pub name: Slug,
    /// "task": an agent works in it. "dev": a person lives in it.
    pub kind: &'static str,
    /// Who made it.
    pub provider: String,
    /// "layer", "bind", "copy" or "inside".
    pub mode: &'static str,
    /// It is a dev sandbox on a branch beside its checkout.
    #[serde(skip)]
    pub on_branch: bool,
    /// Its files are in no worktree.
    #[serde(skip)]
    pub owns_files: bool,
    /// How it is now.
    pub state: State,
    /// Its command died before it could collect; `gc` brings the commits home.
    pub interrupted: bool,
    /// The same while it was made, so that nobody has worked in it.
    #[serde(skip)]
    pub half_made: bool,
    /// A check or a prompt was tried in it, and nothing in it is work.
    #[serde(skip)]
    pub is_check: bool,
    /// It stays until it is deleted: only itself knows whether it is active, paused or stopped ([`ask`]).
    pub lives_on: bool,
    /// Its repository is gone from its place: nothing of it can come home.
    pub orphaned: bool,
    /// The branch that it works on.
    pub branch: String,
    /// Its commits since the base that what is checked out does not have: on its branch, and kept on a reference
    /// of ours. `None` where it has neither.
    pub ahead: Option<u64>,
    /// Its command died in the middle of a merge, which [`super::gc()`] finishes.
    pub half_merged: bool,
    /// The checkout into which an `apply` from it was cut short.
    #[serde(serialize_with = "crate::path_json::optional")]
    pub applying: Option<PathBuf>,
    /// What it keeps for its user that did not land, and where, in words.
    pub kept: Option<String>,
    /// What is in the way where that is commits for another branch.
    #[serde(skip)]
    pub landing: Option<Landing>,
    /// References with commits of its own that are on no branch, and that neither its branch nor what is checked out has.
    pub beside: Vec<String>,
    /// It lives on, and has commits that are not home; `None` where it does not live on, or that cannot be told now.
    pub uncollected: Option<bool>,
    /// Uncommitted changes in its worktree; `None` where it has none, or where it has commits that are not home and
    /// so cannot be told from changes.
    pub changes: Option<bool>,
    /// A worktree of its own that is there.
    #[serde(skip)]
    pub worktree: Option<PathBuf>,
    /// The directory that its agent works in, or worked in; `None` where that is gone. Of a dev sandbox on a branch the one inside.
    #[serde(serialize_with = "crate::path_json::optional")]
    pub workdir: Option<PathBuf>,
    /// Bytes that it has in memory ([`ask`]): where its memory has a limit or it is in a container with those of files there
    /// (`/tmp`), else what its programs have for themselves. Nothing where none run, or that cannot be told.
    pub memory: Option<u64>,
    /// What it has that outlives it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<VolumeName>,
    /// When its making began.
    pub created: Timestamp,
    /// The checkout that it was made from.
    #[serde(serialize_with = "crate::path_json::lossy")]
    pub repository: PathBuf,
    /// A checkout that is there: that one, unless it is gone.
    #[serde(skip)]
    pub checkout: PathBuf,
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
    let mut refs: BTreeMap<PathBuf, RefsAt> = BTreeMap::new();
    let mut summaries = Vec::with_capacity(listing.entries.len());
    for entry in &listing.entries {
        // One that was made from another checkout of the repository is looked at there, as long as there is one.
        let is_there = belongs::is_where_it_was_made(&entry.record);
        let repo = match &only {
            Some(repo) if !is_there || repo.top.as_path() == entry.record.repository => {
                Some(repo.clone())
            }
            _ => match belongs::checkout(&entry.record) {
                Some(top) => find(&top).await.ok(),
                None => find(&entry.record.repository).await.ok(),
            },
        };
        let there = match &repo {
            None => None,
            Some(repo) => Some((
                repo,
                match refs.entry(repo.common_dir.clone()) {
                    Slot::Occupied(known) => known.into_mut(),
                    Slot::Vacant(slot) => {
                        let records = listing.entries.iter().map(|entry| &entry.record);
                        slot.insert(refs_of(repo, records, cancel).await?)
                    }
                },
            )),
        };
        let there = there.map(|(repo, refs)| (repo, &*refs));
        // What is checked out where somebody asks, if that is a checkout of the same repository.
        let here = only
            .as_ref()
            .filter(|here| there.is_some_and(|(repo, _)| repo.common_dir == here.common_dir));
        summaries.push(summary(home, (there, here), entry, caller_home, cancel).await?);
    }
    Ok(summaries)
}

/// Asks the sandboxes that live on how they are, all at once. Bounded: 5 s. Returns those that did not answer, with why.
pub async fn ask(home: &Home, summaries: &mut [Summary]) -> Vec<(SandboxId, String)> {
    let living = summaries
        .iter_mut()
        .filter(|one| one.lives_on && !one.orphaned);
    let questions = living.map(async |one| {
        let handle = living::handle(home, one.id);
        let ask = async {
            let provider = sandbox::provider_of(&one.provider, &handle.state)?;
            // One of a user's own provider is not ours to ask.
            if provider.name() != one.provider {
                return Ok(None);
            }
            living::ask_with_memory(&provider, &handle).await.map(Some)
        };
        let asked = tokio::time::timeout(ASKED, ask).await;
        let asked = asked.unwrap_or(Err(SandboxError::TimedOut(ASKED.as_secs())));
        if let Ok(Some((_, used))) = asked {
            one.memory = used;
        }
        match asked.map(|answer| answer.map(|(condition, _)| condition)) {
            // What is wrong with it is said as long as it is.
            Ok(None) => {}
            Ok(_) if one.state == State::Missing => {}
            Ok(Some(Condition::Running)) if one.state == State::FailedSetup => {}
            Ok(Some(Condition::Running)) => one.state = State::Active,
            Ok(Some(Condition::Paused)) => one.state = State::Paused,
            Ok(Some(Condition::Stopped)) => one.state = State::Stopped,
            Err(error) => {
                // Neither its record nor its lock tells what it does.
                one.state = match (one.state, &error) {
                    (State::Missing, _) => State::Missing,
                    (_, SandboxError::OtherVersion { .. }) => State::OtherVersion,
                    _ => State::Silent,
                };
                let why = match error {
                    SandboxError::Unsupported { what, hint } => format!("{what}: {hint}"),
                    error => error.to_string(),
                };
                return Some((one.id, why));
            }
        }
        None
    });
    let answers = join_all(questions).await;
    answers.into_iter().flatten().collect()
}

/// What `list` cannot tell: each record that cannot be read.
pub fn unreadable(home: &Home) -> Result<Vec<RegistryError>, ManageError> {
    Ok(registry::list(home, None)?.unreadable)
}

async fn still_has_any(
    repo: &Repository,
    squashed: &Squashed,
    ends: &[Oid],
    cancel: &CancellationToken,
) -> Result<Option<Oid>, ManageError> {
    for end in ends {
        if let Some(has) = still_has(repo, squashed, end, cancel).await? {
            return Ok(Some(has));
        }
    }
    Ok(None)
}

async fn summary(
    home: &Home,
    (there, here): (Option<(&Repository, &RefsAt)>, Option<&Repository>),
    entry: &Entry,
    caller_home: Option<&Path>,
    cancel: &CancellationToken,
) -> Result<Summary, ManageError> {
    let in_use = entry.in_use;
    let record = entry.record.clone();
    let repo = there.map(|(repo, _)| repo);
    let unused = !in_use || record.lives_on();
    let orphaned = repo.is_none() && unused && belongs::is_gone(&record);
    let interrupted = !in_use && !orphaned && record.phase.is_unfinished();
    let ends = match there {
        Some((repo, refs)) => tips_at(repo, refs, &record, cancel).await?,
        None => Vec::new(),
    };
    let ends: Vec<Oid> = ends.into_iter().map(|tip| tip.id).collect();
    let ahead = match here.or(repo) {
        Some(repo) if !ends.is_empty() => {
            let known = [&record.base, repo.head.commit()];
            if ends.iter().all(|end| known.contains(&end)) {
                Some(0)
            } else {
                // What a merge has made one commit of is there.
                let has = match &record.squashed {
                    Some(squashed) => still_has_any(repo, squashed, &ends, cancel).await?,
                    None => None,
                };
                let from = has.as_ref().unwrap_or(&record.base);
                repo.count_ahead(from, &ends, cancel).await?
            }
        }
        _ => None,
    };
    let beside = match there {
        Some((repo, refs)) => beside(repo, refs, &record, &ends, cancel).await?,
        None => Vec::new(),
    };
    let kept = match repo {
        Some(repo) if record.kept.is_some() => still_kept(home, repo, &record, cancel).await?,
        _ => record.kept.clone(),
    };
    let half_merged = unused && land::is_half_done(&home.sandbox(record.id));
    // Another command may be at it.
    let applying = applying::unfinished(&home.sandbox(record.id)).filter(|_| unused);
    let lives_on = record.lives_on();
    // Uncommitted work alone keeps one that ended.
    let left_files = record.mode.owns_files() && record.has_files(home);
    let has_branch = record.strategy == Strategy::Head || ahead.is_some();
    let state = match record.phase {
        _ if orphaned => State::Missing,
        Phase::Creating if in_use => State::Creating,
        Phase::Active if in_use && record.setup == Setup::Making => State::Creating,
        _ if lives_on && !record.has_files(home) => State::Missing,
        _ if lives_on && record.setup == Setup::Failed => State::FailedSetup,
        Phase::Active | Phase::Collected if in_use => State::Active,
        Phase::Stopped if !has_branch && record.kept.is_none() && !left_files => State::Missing,
        _ => State::Stopped,
    };
    let uncollected = match there {
        Some((repo, refs)) if lives_on && record.setup != Setup::Making => {
            let looked = living::has_uncollected(home, repo, &record, refs, cancel);
            tokio::time::timeout(LOOKED, looked).await.ok().flatten()
        }
        _ => None,
    };
    let changes = match (repo, &record.worktree, &record.branch) {
        (Some(repo), Some(path), Some(branch)) if unused && path.is_dir() => {
            let branch = (path.as_path(), branch);
            let looked = changes(home, repo, &record, branch, &ends, caller_home, cancel);
            // Programs of one that lives on may write meanwhile, and make it last.
            let looked = if lives_on {
                tokio::time::timeout(LOOKED, looked).await.ok()
            } else {
                Some(looked.await)
            };
            let found = looked.and_then(Result::ok);
            // What is committed inside is nothing that anybody knows of here.
            found.filter(|&found| !found || uncollected != Some(true))
        }
        // Of files that are in no worktree the end of the sandbox has told.
        _ if !lives_on && record.mode.owns_files() => record
            .outcome
            .as_ref()
            .map(|outcome| outcome.copy_is_dirty && !outcome.no_agent),
        // What is there may be committed inside, or be ignored there: only its own git tells.
        _ if record.mode == Mode::Layer && layers::is_untouched(&home.sandbox(record.id)) => {
            Some(false)
        }
        _ => None,
    };
    Ok(Summary {
        id: record.id,
        kind: if record.dev.is_some() { "dev" } else { "task" },
        mode: record.mode.as_str(),
        on_branch: record.dev.as_ref().is_some_and(|of| of.branch.is_some()),
        owns_files: record.mode.owns_files(),
        state,
        interrupted,
        half_made: interrupted && record.setup == Setup::Making,
        is_check: record.is_check,
        lives_on,
        orphaned,
        branch: record.working_branch_text(),
        ahead,
        half_merged,
        kept: match &applying {
            _ if half_merged => Some("its merge was cut short".to_owned()),
            Some(checkout) => Some(format!(
                "an `apply` into {} was cut short",
                checkout.display()
            )),
            None => kept,
        },
        applying: applying.filter(|_| !half_merged),
        landing: record.outcome.as_ref().map(|one| one.landing.clone()),
        beside,
        uncollected,
        changes,
        worktree: record.worktree.clone().filter(|path| path.is_dir()),
        workdir: match (record.dev.as_ref(), repo) {
            (Some(of), Some(repo)) => Some(dev::workdir(&repo.top, of)),
            _ => workdir(&record, home),
        },
        volumes: record.volumes.iter().map(|one| one.name.clone()).collect(),
        memory: None,
        created: record.created,
        name: record.name,
        provider: record.provider,
        checkout: repo.map_or_else(
            || record.repository.clone(),
            |repo| repo.top.as_path().to_owned(),
        ),
        repository: record.repository,
    })
}

/// A worktree and a private copy go with their run; the user's own checkout is the place of `head` alone.
fn workdir(record: &Record, home: &Home) -> Option<PathBuf> {
    if record.mode == Mode::Layer {
        // What was changed alone is no place to work in.
        return None;
    }
    let own =
        record.mode != Mode::Bind || record.worktree.is_some() || record.strategy == Strategy::Head;
    own.then(|| record.workspace(home))
        .filter(|path| path.is_dir())
}

/// What the sandbox's record says is kept, as far as what is checked out has not got it meanwhile.
async fn still_kept(
    home: &Home,
    repo: &Repository,
    record: &Record,
    cancel: &CancellationToken,
) -> Result<Option<String>, ManageError> {
    let Some(outcome) = &record.outcome else {
        return Ok(record.kept.clone());
    };
    let has_files = collect::keeps_work(&home.sandbox(record.id));
    let waits = match &outcome.landing {
        Landing::Kept { reference, .. } => waits(repo, reference, cancel).await?,
        Landing::Refused { .. } => has_files,
        Landing::Nothing | Landing::Landed { .. } => false,
    };
    if waits {
        let of_the_moment = outcome.landing.was_of_the_moment()
            && record.kept.as_ref() == Some(&outcome.landing.to_string());
        return Ok(match &outcome.landing {
            Landing::Kept { reference, .. } if of_the_moment => {
                Some(format!("the commits are kept on {reference}"))
            }
            _ => record.kept.clone(),
        });
    }
    // What has a reference is told by that.
    Ok(outcome.beside.clone().filter(|_| has_files))
}

/// Whether a stopped sandbox's worktree has uncommitted changes.
async fn changes(
    home: &Home,
    repo: &Repository,
    record: &Record,
    (path, branch): (&Path, &BranchName),
    ends: &[Oid],
    caller_home: Option<&Path>,
    cancel: &CancellationToken,
) -> Result<bool, ManageError> {
    let worktree = Worktree::find(repo, path, branch.clone(), record.base.clone())?;
    let tips = (ends.first().unwrap_or(&record.base), ends);
    let rules = UserRules {
        config: None,
        caller_home,
    };
    let scratch = home
        .sandbox(record.id)
        .join(format!("scratch-{}", std::process::id()));
    let changes = uncommitted(repo, &worktree, tips, rules, &scratch, cancel).await?;
    Ok(!changes.is_empty())
}
