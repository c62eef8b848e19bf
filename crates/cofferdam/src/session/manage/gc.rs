//! Clean up after commands that died: commits are collected first, then what is left goes. So do
//! sandboxes whose work is merged.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::branch::keep_without_branch;
use super::tips::{made_branch, tips};
use super::turn::take;
use super::{Lost, ManageError, half_merged, merged, orphan};
use crate::git::discovery::{Start, is_one};
use crate::git::land::Landing;
use crate::git::lock::{Lock, LockError, lock};
use crate::git::refs::{EXTRA, Expired};
use crate::git::refs_at::below_own;
use crate::git::trees::Trimmed;
use crate::git::{Git, Identity, Oid, Repository, UserRules, gate, identity, land, refs};
use crate::home::Home;
use crate::names::SandboxId;
use crate::registry::written;
use crate::registry::{
    self, Entry, Mode, Outcome, Owned, Phase, Record, RegistryError, Setup, Strategy, belongs,
};
use crate::runs;
use crate::session::collect::{self, Collector, Reaches, Source};
use crate::session::dispose::{self, Disposal};
use crate::session::emitter::Emitter;
use crate::session::event::Notice;
use crate::session::layers;
use crate::session::report::Beside;
use crate::volumes;
use crate::wall::{self, WallError};

/// How long one interrupted sandbox may take to be collected.
const COLLECT_LIMIT: Duration = Duration::from_secs(600);

/// Bytes of the tree store that stay unless the caller says otherwise.
pub const KEEP_TREES: u64 = 10 << 30;

/// After so long one is told that another `gc` is at work.
const PATIENCE: Duration = Duration::from_secs(1);
/// Longer than this nobody waits for it: it may be stopped.
const WAIT_LIMIT: Duration = Duration::from_secs(600);

/// One interrupted sandbox whose work was brought home.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Recovered {
    /// By which people call it.
    pub name: String,
    /// The top of its repository: `gc` looks after all of them.
    #[serde(serialize_with = "crate::path_json::lossy")]
    pub repository: PathBuf,
    /// The branch that it worked on.
    pub branch: String,
    /// How many commits came home.
    pub commits: usize,
    /// Where the commits are now.
    pub landing: Landing,
    /// Where the agent started.
    pub base: Oid,
    /// What is checked out now.
    pub target_branch: String,
    /// The sandbox's branch, where it goes with the sandbox.
    pub made_branch: Option<String>,
    /// Commits that are not on the branch.
    pub beside: Vec<Beside>,
    /// The sandbox had nothing more to keep, and is gone.
    pub ended: bool,
    /// Where commits that only references of a sandbox that was deleted had stay for 30 days.
    pub trash: Vec<String>,
    /// Files of the landing that someone had changed meanwhile: left as they are. Printable.
    pub changed_outside: Vec<String>,
    /// Uncommitted work that was left where it is.
    #[serde(serialize_with = "crate::path_json::optional")]
    pub preserved: Option<PathBuf>,
    /// What became, since it began, of the user's own uncommitted work in the checkout that it shared with them.
    pub of_the_users: Vec<Notice>,
}

/// How `gc` goes about it.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct GcOptions {
    /// Say what would be done, and do nothing.
    pub dry_run: bool,
    /// Bytes of files of commits that stay on disk although no sandbox stands on them, all repositories together.
    pub keep_trees: u64,
}

impl Default for GcOptions {
    fn default() -> Self {
        Self {
            dry_run: false,
            keep_trees: KEEP_TREES,
        }
    }
}

/// What `gc` did, or would do.
#[derive(Debug, Clone, Default, Serialize)]
#[non_exhaustive]
pub struct GcReport {
    /// What came home of interrupted ones.
    pub recovered: Vec<Recovered>,
    /// Names or ids of sandboxes of which nothing is left.
    pub removed: Vec<String>,
    /// References whose time was over, by their full names.
    pub expired_refs: Vec<String>,
    /// Files of commits that no sandbox stands on.
    pub trees: Trimmed,
    /// Repositories whose last files lay on as many layers as there may be, and lie on one now.
    #[serde(serialize_with = "crate::path_json::lossy_list")]
    pub rewritten: Vec<PathBuf>,
    /// What could not be done.
    pub problems: Vec<Problem>,
}

/// What takes long, while `gc` is at it.
#[derive(Debug, Clone, Copy)]
pub enum Doing<'a> {
    /// Another one is at work.
    Waits,
    /// The files of a commit of this repository are written anew.
    Rewrites(&'a Path),
}

/// What could not be done, and is tried again the next time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Problem {
    /// A sentence.
    pub text: String,
    /// The sandbox that keeps work and whose repository is gone: only its user can give it up.
    #[serde(skip)]
    pub orphan: Option<SandboxId>,
}

impl Problem {
    fn new(error: &impl ToString) -> Self {
        let text = error.to_string();
        Self { text, orphan: None }
    }

    fn of(name: &impl Display, error: &impl Display) -> Self {
        Self::new(&format!("sandbox `{name}`: {error}"))
    }
}

/// Finishes what dead commands left, in all repositories, and expires old references in them and in
/// the repository around `repository`. Calls `doing` where another has been at it for a second, and before what takes long.
pub async fn gc(
    home: &Home,
    git: &Git,
    repository: Option<&Path>,
    caller_home: Option<&Path>,
    options: GcOptions,
    doing: &(dyn Fn(Doing<'_>) + Sync),
    cancel: &CancellationToken,
) -> Result<GcReport, ManageError> {
    let GcOptions {
        dry_run,
        keep_trees,
    } = options;
    // One at a time: a dead run that another has in hand would be in the way of what lands here.
    let _alone = if home.state().is_dir() && !dry_run {
        Some(one_at_a_time(home, &|| doing(Doing::Waits), cancel).await?)
    } else {
        None
    };
    let mut report = GcReport::default();
    let mut listing = registry::list(home, None)?;
    // Nothing lands in a checkout with what a dead run left there, so those come first.
    listing
        .entries
        .sort_by_key(|Entry { record, .. }| match record.strategy {
            _ if !record.phase.is_unfinished() => 2,
            Strategy::Head => 0,
            Strategy::Branch | Strategy::MergeToHead { .. } => 1,
        });
    report
        .problems
        .extend(listing.unreadable.iter().map(Problem::new));
    // Also of sandboxes whose records cannot be read.
    let alive = registry::ids(home)?;
    let unfinished = if dry_run {
        listing.unfinished
    } else {
        registry::remove_unfinished(home)?
    };
    report
        .removed
        .extend(unfinished.iter().map(|path| path.display().to_string()));
    if !dry_run {
        match volumes::clear_away(home) {
            Ok(0) => {}
            Ok(count) => {
                let what = if count == 1 { "volume" } else { "volumes" };
                report
                    .removed
                    .push(format!("what was left of {count} {what}"));
            }
            Err(error) => report.problems.push(Problem::new(&error)),
        }
    }
    let workspaces = registry::workspaces(home)?;
    let find = async |path: &Path| {
        let start = Start::find(path, &workspaces)?;
        Repository::discover(git, &start, caller_home, cancel).await
    };
    let mut repositories: BTreeMap<PathBuf, Repository> = BTreeMap::new();
    if let Some(path) = repository
        && let Ok(repo) = find(path).await
    {
        repositories.insert(repo.top.as_path().to_owned(), repo);
    }
    for Entry { record, in_use } in listing.entries {
        if belongs::is_gone(&record) {
            if !in_use {
                clear_orphan(home, &record, Lost::Gone, dry_run, &mut report).await;
            }
            continue;
        }
        // Its own may be gone, and the repository have others.
        let top = belongs::checkout(&record).unwrap_or_else(|| record.repository.clone());
        if !repositories.contains_key(&top) {
            match find(&top).await {
                Ok(repo) if repo.top.as_path() == top => {
                    repositories.insert(top.clone(), repo);
                }
                Ok(_) => {
                    let why = format!("{} is no longer a repository", top.display());
                    report.problems.push(Problem::of(&record.name, &why));
                }
                Err(error) => report.problems.push(Problem::of(&record.name, &error)),
            }
        }
        let Some(repo) = repositories.get(&top) else {
            continue;
        };
        if in_use {
            // A merge from one that lives on is a command of its own, and may have been cut short as any other.
            if record.lives_on() {
                finish_merge(home, repo, &record, dry_run, &mut report, cancel).await;
            }
            continue;
        }
        match orphan::lost(repo, &record, cancel).await {
            Ok(None) => {}
            Ok(Some(lost)) => {
                clear_orphan(home, &record, lost, dry_run, &mut report).await;
                continue;
            }
            Err(error) => {
                report.problems.push(Problem::of(&record.name, &error));
                continue;
            }
        }
        match record.phase {
            Phase::Creating | Phase::Active | Phase::Collected => {
                recover(
                    home,
                    repo,
                    record,
                    caller_home,
                    dry_run,
                    &mut report,
                    cancel,
                )
                .await;
            }
            Phase::Stopped => {
                finish_merge(home, repo, &record, dry_run, &mut report, cancel).await;
                let rules = UserRules {
                    config: None,
                    caller_home,
                };
                match merged::clear(home, repo, &record, rules, dry_run, cancel).await {
                    Ok(Some(removed)) => report.removed.push(removed),
                    Ok(None) => {
                        forget_if_empty(home, repo, record, dry_run, &mut report, cancel).await?;
                    }
                    Err(error) => report.problems.push(Problem::of(&record.name, &error)),
                }
            }
        }
    }
    for (top, repo) in &repositories {
        let begin = || doing(Doing::Rewrites(top));
        let begin: Option<&(dyn Fn() + Sync)> = (!dry_run).then_some(&begin);
        match layers::rebase(home, repo, keep_trees, begin, cancel).await {
            Ok(done) => report.rewritten.extend(done.then(|| top.clone())),
            Err(error) => report.problems.push(Problem::new(&error)),
        }
    }
    // After those that are gone now.
    match layers::trim(home, keep_trees, dry_run) {
        Ok(trimmed) => report.trees = trimmed,
        Err(error) => report.problems.push(Problem::new(&error)),
    }
    for repo in repositories.values() {
        if dry_run {
            continue;
        }
        match gate::remove_stale(repo) {
            Ok(stale) => report
                .removed
                .extend(stale.iter().map(|path| path.display().to_string())),
            Err(error) => report.problems.push(Problem::new(&error)),
        }
        let forgotten = async {
            let listed = refs::list(repo, "refs/cofferdam/", cancel).await?;
            let alive = registry::ids(home)?;
            Ok::<_, ManageError>(refs::forget_home(repo, listed, &alive, cancel).await?)
        };
        match forgotten.await {
            Ok(gone) => report.expired_refs.extend(gone),
            Err(error) => report.problems.push(Problem::new(&error)),
        }
        match refs::expire(repo, &alive, Timestamp::now(), cancel).await {
            Ok(expired) => {
                for Expired { reference, trash } in expired {
                    match trash {
                        Some(trash) => report
                            .removed
                            .push(format!("{reference}, which is {trash} from now on")),
                        None => report.expired_refs.push(reference),
                    }
                }
            }
            Err(error) => report.problems.push(Problem::new(&error)),
        }
    }
    if !dry_run && let Err(error) = written::forget_gone(home) {
        report.problems.push(Problem::new(&error));
    }
    remove_old_of_the_network(home, dry_run, &mut report);
    for run in runs::make_room(home, runs::OF_ALL, dry_run) {
        let text = format!("the conversation of run {run}, which made room for newer ones");
        report.removed.push(text);
    }
    Ok(report)
}

async fn one_at_a_time(
    home: &Home,
    waiting: &(dyn Fn() + Sync),
    cancel: &CancellationToken,
) -> Result<File, ManageError> {
    let path = home.path().join("gc.lock");
    let mut taken = pin!(lock(&path, Lock::Exclusive, cancel));
    let done = if let Ok(done) = timeout(PATIENCE, &mut taken).await {
        done
    } else {
        waiting();
        let done = timeout(WAIT_LIMIT, taken).await;
        done.map_err(|_| ManageError::OtherCleansUp)?
    };
    match done {
        Ok(file) => Ok(file),
        Err(LockError::Cancelled) => Err(ManageError::OtherCleansUp),
        Err(LockError::File(error)) => Err(error.into()),
    }
}

/// What is left of a sandbox whose repository is gone. One that keeps work is a problem that only its user can end.
async fn clear_orphan(
    home: &Home,
    record: &Record,
    lost: Lost,
    dry_run: bool,
    report: &mut GcReport,
) {
    match orphan::clear(home, record, lost, dry_run).await {
        Ok(removed) => report.removed.extend(removed),
        Err(error) => {
            let orphan = match &error {
                ManageError::Orphaned { id, .. } => Some(*id),
                _ => None,
            };
            let text = error.to_string();
            report.problems.push(Problem { text, orphan });
        }
    }
}

/// Logs that have had their time, and what gateways of other versions left.
fn remove_old_of_the_network(home: &Home, dry_run: bool, report: &mut GcReport) {
    let in_use = |id| registry::is_in_use(home, id);
    let logs = wall::remove_old_logs(home, in_use, Timestamp::now(), dry_run);
    let gateways = wall::remove_dead_gateways(home, dry_run);
    for done in [logs.map_err(WallError::from), gateways] {
        match done {
            Ok(paths) => report
                .removed
                .extend(paths.iter().map(|path| path.display().to_string())),
            Err(error) => report.problems.push(Problem::new(&error)),
        }
    }
}

async fn recover(
    home: &Home,
    repo: &Repository,
    record: Record,
    caller_home: Option<&Path>,
    dry_run: bool,
    report: &mut GcReport,
    cancel: &CancellationToken,
) {
    let name = record.name.to_string();
    if dry_run {
        report
            .recovered
            .push(without_commits(repo, &record, Landing::Nothing));
        return;
    }
    match recover_one(home, repo, record, caller_home, false, cancel).await {
        Ok(recovered) => report.recovered.push(recovered),
        // Another command is at it: fine.
        Err(ManageError::Registry(RegistryError::InUse(_) | RegistryError::Gone(_))) => {}
        Err(error) => report.problems.push(Problem::of(&name, &error)),
    }
}

/// Finishes the merge of a stopped sandbox whose command was killed in the middle.
async fn finish_merge(
    home: &Home,
    repo: &Repository,
    record: &Record,
    dry_run: bool,
    report: &mut GcReport,
    cancel: &CancellationToken,
) {
    if !land::is_half_done(&home.sandbox(record.id)) {
        return;
    }
    let finished = async {
        if dry_run {
            return Ok(Some(Landing::Nothing.into()));
        }
        let owned = take(home, record.clone(), cancel).await?;
        half_merged::finish(home, repo, &owned, cancel).await
    };
    match finished.await {
        Ok(Some(landed)) => report.recovered.push(Recovered {
            changed_outside: landed.changed_outside,
            ..without_commits(repo, record, landed.landing)
        }),
        // Another command is at it, or was.
        Ok(None) | Err(ManageError::Registry(RegistryError::InUse(_) | RegistryError::Gone(_))) => {
        }
        Err(error) => report.problems.push(Problem::of(&record.name, &error)),
    }
}

fn without_commits(repo: &Repository, record: &Record, landing: Landing) -> Recovered {
    Recovered {
        name: record.name.to_string(),
        repository: repo.top.as_path().to_owned(),
        branch: record.branch_text(),
        commits: 0,
        landing,
        base: record.base.clone(),
        target_branch: repo.head.branch_text(),
        made_branch: made_branch(record),
        beside: Vec::new(),
        ended: false,
        trash: Vec::new(),
        changed_outside: Vec::new(),
        preserved: None,
        of_the_users: Vec::new(),
    }
}

/// Finishes what dead commands left in the directory `workspace`, before another agent works there: what
/// theirs made must not count as the user's. Says what it did, or could not do; a merge that stays half done
/// there is an error, for its old files would count as the user's.
pub(in crate::session) async fn recover_in(
    home: &Home,
    repo: &Repository,
    workspace: &Path,
    caller_home: Option<&Path>,
    cancel: &CancellationToken,
) -> Result<Vec<String>, ManageError> {
    let entries = registry::list(home, None)?.entries.into_iter();
    // The checkout may be known by another name since.
    let dead = entries.filter(|Entry { record, in_use }| {
        !in_use
            && record.phase.is_unfinished()
            && record.mode == Mode::Bind
            && is_one(&record.repository, repo.top.as_path())
            && is_one(&record.workspace(home), workspace)
    });
    let mut said = Vec::new();
    for Entry { record, .. } in dead {
        let name = record.name.clone();
        let half_made = record.setup == Setup::Making;
        match recover_one(home, repo, record, caller_home, false, cancel).await {
            Ok(done) if half_made && done.ended && matches!(done.landing, Landing::Nothing) => {
                said.push(format!(
                    "the making of sandbox `{name}` was cut short here, and what there was of it is cleared up"
                ));
            }
            Ok(done) => said.push(format!(
                "sandbox `{name}`, whose command had died here, was finished first: {}",
                done.landing
            )),
            Err(ManageError::Registry(RegistryError::InUse(_) | RegistryError::Gone(_))) => {}
            Err(error) => said.push(format!(
                "sandbox `{name}`, whose command died here, could not be finished: {error}"
            )),
        }
    }
    said.extend(half_merged::finish_in(home, repo, workspace, cancel).await?);
    Ok(said)
}

/// Collects and disposes of one sandbox whose owner is dead. `purge`: nothing of it goes to the trash.
pub(super) async fn recover_one(
    home: &Home,
    repo: &Repository,
    record: Record,
    caller_home: Option<&Path>,
    purge: bool,
    cancel: &CancellationToken,
) -> Result<Recovered, ManageError> {
    let owned = Owned::adopt(home, record)?;
    if !owned.record.phase.is_unfinished() {
        // Another command has done it since the record was read.
        return Err(RegistryError::InUse(owned.record.name.clone()).into());
    }
    finish_one(home, repo, owned, caller_home, purge, cancel).await
}

/// As [`recover_one`], of one that its maker gives up. Where its commits are now.
pub(in crate::session) async fn give_up(
    home: &Home,
    repo: &Repository,
    owned: Owned,
    caller_home: Option<&Path>,
    cancel: &CancellationToken,
) -> Result<Landing, ManageError> {
    Ok(finish_one(home, repo, owned, caller_home, false, cancel)
        .await?
        .landing)
}

async fn finish_one(
    home: &Home,
    repo: &Repository,
    mut owned: Owned,
    caller_home: Option<&Path>,
    purge: bool,
    cancel: &CancellationToken,
) -> Result<Recovered, ManageError> {
    // All collecting of what a dead command left passes here, and its repository may be another by now.
    if let Some(lost) = orphan::lost(repo, &owned.record, cancel).await? {
        return Err(orphan::orphaned(&owned.record, owned.directory(), lost));
    }
    orphan::end(&owned).await?;
    let events = Emitter::silent();
    let fallback = Identity::fallback();
    let config = identity::user_config(repo, caller_home, cancel).await?;
    let collector = Collector {
        reaches: Reaches::OwnBranch(land::INTERRUPTED),
        home,
        repo,
        author: config.identity.as_ref().unwrap_or(&fallback),
        events: &events,
        limit: COLLECT_LIMIT,
        cancel,
        judge: None,
    };
    let (outcome, commits, beside, changed_outside) = match owned.record.outcome.clone() {
        // Something was tried in it: what it left is no work.
        _ if owned.record.is_check => (Outcome::nobodys(), 0, Vec::new(), Vec::new()),
        // Its command died while it cleaned up: what collecting needs may be gone already.
        Some(outcome) if owned.record.phase == Phase::Collected => {
            (outcome, 0, Vec::new(), Vec::new())
        }
        _ => {
            let collected = Box::pin(collector.collect(&mut owned, Source::State)).await?;
            let (commits, beside) = (collected.commits.len(), collected.beside.clone());
            let changed_outside = collected.changed_outside.clone();
            (collected.into_outcome(), commits, beside, changed_outside)
        }
    };
    let (name, branch) = (owned.record.name.to_string(), owned.record.branch_text());
    let landing = outcome.landing.clone();
    let (id, base) = (owned.record.id, owned.record.base.clone());
    let made_branch = made_branch(&owned.record);
    // As long as the record says of them: what disposes may be the end of it.
    let lost = if purge {
        None
    } else {
        keep_without_branch(repo, &owned.record, cancel).await?
    };
    let disposal = Disposal {
        home,
        repo,
        outcome,
        rules: UserRules {
            config: Some(&config),
            caller_home,
        },
        cancel,
    };
    let mut disposed = dispose::dispose(owned, &disposal).await?;
    let of_the_users = disposed.of_the_users(id, disposal.outcome.took_work);
    Ok(Recovered {
        name,
        repository: repo.top.as_path().to_owned(),
        branch,
        commits,
        landing,
        base,
        target_branch: repo.head.branch_text(),
        made_branch,
        beside,
        ended: !home.sandbox(id).exists(),
        trash: lost.into_iter().collect(),
        changed_outside,
        preserved: disposed.preserved,
        of_the_users,
    })
}

/// A stopped sandbox whose branch and files are all gone is forgotten.
async fn forget_if_empty(
    home: &Home,
    repo: &Repository,
    record: Record,
    dry_run: bool,
    report: &mut GcReport,
    cancel: &CancellationToken,
) -> Result<(), ManageError> {
    let directory = home.sandbox(record.id);
    let has_files = collect::keeps_work(&directory)
        || land::is_half_done(&directory)
        || record.worktree.as_ref().is_some_and(|path| path.exists());
    if has_files || !tips(repo, &record, cancel).await?.is_empty() {
        return Ok(());
    }
    let all = refs::list(repo, &below_own(record.id), cancel).await?;
    let extra = format!("/{EXTRA}");
    if all.iter().any(|one| one.reference.contains(&extra)) {
        return Ok(());
    }
    let mut removed = format!("sandbox {}", record.name);
    if !dry_run {
        if let Some(kept) = keep_without_branch(repo, &record, cancel).await? {
            removed.push_str(&format!(", whose commits are {kept} from now on"));
        }
        match Owned::adopt(home, record) {
            Ok(owned) => owned.forget()?,
            // Another command is at it.
            Err(RegistryError::InUse(_) | RegistryError::Gone(_)) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
    report.removed.push(removed);
    Ok(())
}
