//! The before-ref: the user's working state, recorded before an agent works in their own directory.
//!
//! `refs/cofferdam/<id>/before` is a commit of everything that was there, untracked files included;
//! its first parent is HEAD and, as with `git stash`, its second holds what was staged. The user's
//! index and files are only read, and nothing that the tree names is executed: submodules are not
//! entered and no filter runs, so files are recorded byte for byte as they lie on the disk.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::command::{GitCommand, GitError};
use super::refs::{self, Listed, Own};
use super::refs_at::below_own;
use super::scratch::{Scratch, UserRules};
use super::status::{Change, ChangeKind, Changes, Untracked, ignored, status};
use super::walked::Walked;
use super::{Oid, Repository, own_files};
use crate::fsx::FileError;
use crate::names::SandboxId;
use crate::process::Input;

/// Hashing a lot of untracked files takes its time.
const LIMIT: Duration = Duration::from_mins(30);

/// With more, git compares each file with so many paths that a look at all files is sooner over.
const MOST_PATHS: usize = 64;
/// More that git does not track it is not asked about one by one.
const MOST_UNTRACKED: usize = 10_000;

/// Bounds of what is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BeforeLimits {
    /// Bytes of one untracked file.
    pub file: u64,
    /// Bytes of all untracked files.
    pub total: u64,
}

impl Default for BeforeLimits {
    fn default() -> Self {
        Self {
            file: 512 << 20,
            total: 4 << 30,
        }
    }
}

/// Why a path was not recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotRecorded {
    /// It could not be read.
    Unreadable,
    /// A repository of its own.
    Repository,
    /// Neither file nor symlink.
    Special,
    /// It is larger than a record takes.
    TooLarge,
}

impl std::fmt::Display for NotRecorded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Unreadable => "it cannot be read",
            Self::Repository => "it is a repository of its own",
            Self::Special => "it is neither a file nor a link",
            Self::TooLarge => "it is too large",
        })
    }
}

/// What was recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Before {
    /// At `refs/cofferdam/<id>/before`, or at the name that [`record_again`] gives.
    pub commit: Oid,
    /// Whether the second parent holds what was staged. An index in conflict has no tree.
    pub staged: bool,
    /// Paths below the top that are not in the record, and why.
    pub not_recorded: Vec<(PathBuf, NotRecorded)>,
}

/// The working state could not be recorded.
#[derive(Debug, thiserror::Error)]
pub enum BeforeError {
    /// A file of the checkout or the record could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// Git could not say or store it.
    #[error(transparent)]
    Git(#[from] GitError),
    /// Git would wait for ever at it.
    #[error("{} is a pipe, at which git would wait for ever", .0.display())]
    Trap(PathBuf),
}

/// The full name of a sandbox's first before-ref.
pub fn reference(id: SandboxId) -> String {
    refs::own(id, Own::Before)
}

/// Those of sandbox `id` that are there, the newest last.
pub async fn references(
    repo: &Repository,
    id: SandboxId,
    cancel: &CancellationToken,
) -> Result<Vec<Listed>, GitError> {
    let first = reference(id);
    let mut found = refs::list(repo, &below_own(id), cancel).await?;
    found.retain(|one| one.reference.starts_with(&first));
    found.sort_by_key(|one| number(&one.reference));
    Ok(found)
}

fn number(reference: &str) -> u32 {
    let number = reference.rsplit_once("/before-");
    number
        .and_then(|(_, number)| number.parse().ok())
        .unwrap_or(1)
}

/// The user's directory as it was looked at, to be recorded.
#[derive(Debug)]
pub struct Seen {
    scratch: Scratch,
    changes: Changes,
}

impl Seen {
    /// What differs from HEAD, every untracked file by itself.
    pub fn changes(&self) -> &Changes {
        &self.changes
    }
}

/// Looks at what differs from HEAD in the user's directory. What is Cofferdam's own and what is below
/// `hidden` is left out: no agent can reach it, and its values have no business in a ref. `scratch`: a
/// private directory that is made and removed with the value. Git looks where
/// what a walk found leaves a doubt; without one everywhere.
pub async fn look(
    repo: &Repository,
    rules: UserRules<'_>,
    hidden: &[PathBuf],
    scratch: PathBuf,
    walked: Option<&Walked>,
    cancel: &CancellationToken,
) -> Result<Seen, BeforeError> {
    if walked.is_none() {
        not_trapped(repo).await?;
    }
    let head = repo.head.commit();
    let scratch = Scratch::create(scratch, repo, head, rules)?;
    let doubtful = match walked {
        Some(walked) if repo.tree_of(head, cancel).await? == walked.tree => {
            doubtful(&scratch, walked, cancel).await?
        }
        _ => None,
    };
    if doubtful.as_ref().is_some_and(BTreeSet::is_empty) {
        let changes = Changes::default();
        return Ok(Seen { scratch, changes });
    }
    let only = doubtful.filter(|paths| paths.len() <= MOST_PATHS);
    let only: Vec<PathBuf> = only.unwrap_or_default().into_iter().collect();
    scratch.copy_index(&repo.git_dir.join("index"))?;
    let mut changes = status(scratch.command(), Untracked::Files, &only, cancel).await?;
    let out_of_reach = |path: &Path| {
        path.starts_with(own_files::DIRECTORY) || hidden.iter().any(|one| path.starts_with(one))
    };
    let (left_out, kept) = changes
        .0
        .into_iter()
        .partition(|change: &Change| out_of_reach(&change.path));
    changes = Changes(kept);
    unstage(&scratch, &left_out, cancel).await?;
    Ok(Seen { scratch, changes })
}

/// A walk that found its way to an end has met none.
async fn not_trapped(repo: &Repository) -> Result<(), BeforeError> {
    let top = repo.top.as_path();
    match super::nested::trap_in(top).await? {
        Some(trap) => Err(BeforeError::Trap(top.join(trap))),
        None => Ok(()),
    }
}

/// Where git has to look, and nowhere else: nothing is staged. `None`: it has to look everywhere.
async fn doubtful(
    scratch: &Scratch,
    walked: &Walked,
    cancel: &CancellationToken,
) -> Result<Option<BTreeSet<PathBuf>>, GitError> {
    if walked.untracked.len() > MOST_UNTRACKED {
        return Ok(None);
    }
    let asked = ignored(scratch.command(), &walked.untracked, cancel).await?;
    Ok(asked.map(|ignored| {
        let untracked = walked.untracked.difference(&ignored);
        walked.doubtful.iter().chain(untracked).cloned().collect()
    }))
}

/// How many paths differ from `head` or are untracked and not ignored, a directory with nothing tracked in it as one. What is
/// Cofferdam's own is left out, and what is at or below the paths `but`. `scratch`: as for [`look`].
pub async fn count(
    repo: &Repository,
    head: &Oid,
    (rules, but): (UserRules<'_>, &[PathBuf]),
    scratch: PathBuf,
    cancel: &CancellationToken,
) -> Result<usize, BeforeError> {
    not_trapped(repo).await?;
    let scratch = Scratch::create(scratch, repo, head, rules)?;
    scratch.copy_index(&repo.git_dir.join("index"))?;
    let changes = status(scratch.command(), Untracked::Directories, &[], cancel).await?;
    let theirs = |change: &&Change| {
        let is_below = |path: &PathBuf| change.path.starts_with(path);
        !change.path.starts_with(own_files::DIRECTORY) && !but.iter().any(is_below)
    };
    Ok(changes.0.iter().filter(theirs).count())
}

/// Puts HEAD's entries in the place of what was staged at these paths, in the scratch index.
async fn unstage(
    scratch: &Scratch,
    changes: &[Change],
    cancel: &CancellationToken,
) -> Result<(), GitError> {
    let mut paths = Vec::new();
    for change in changes {
        if change.kind != ChangeKind::Untracked {
            paths.extend_from_slice(change.path.as_os_str().as_bytes());
            paths.push(0);
        }
    }
    if paths.is_empty() {
        return Ok(());
    }
    scratch
        .command()
        .env("GIT_LITERAL_PATHSPECS", "1")
        .args([
            "reset",
            "-q",
            "--pathspec-from-file=-",
            "--pathspec-file-nul",
        ])
        .input(Input::Bytes(paths))
        .run(cancel)
        .await?;
    Ok(())
}

/// Records the working state that was seen, if it differs from HEAD.
pub async fn record(
    repo: &Repository,
    seen: Seen,
    id: SandboxId,
    limits: BeforeLimits,
    cancel: &CancellationToken,
) -> Result<Option<Before>, BeforeError> {
    let Some(made) = make(repo, seen, id, limits, cancel).await? else {
        return Ok(None);
    };
    name(repo, id, &reference(id), &made.commit, cancel).await?;
    Ok(Some(made))
}

/// As [`record`], where another agent begins in a sandbox that goes on: what was recorded before stays, and this has a name of its own,
/// unless the newest record says the same (`None`). Returns that name, too.
pub async fn record_again(
    repo: &Repository,
    seen: Seen,
    id: SandboxId,
    limits: BeforeLimits,
    cancel: &CancellationToken,
) -> Result<Option<(String, Before)>, BeforeError> {
    let Some(made) = make(repo, seen, id, limits, cancel).await? else {
        return Ok(None);
    };
    let there = references(repo, id, cancel).await?;
    let next = match there.last() {
        None => reference(id),
        Some(newest) if is_same(repo, &newest.id, &made.commit, cancel).await? => {
            return Ok(None);
        }
        Some(newest) => refs::own(id, Own::BeforeAgain(number(&newest.reference) + 1)),
    };
    name(repo, id, &next, &made.commit, cancel).await?;
    Ok(Some((next, made)))
}

/// Whether two records are of the same commit, files and index.
async fn is_same(
    repo: &Repository,
    one: &Oid,
    other: &Oid,
    cancel: &CancellationToken,
) -> Result<bool, GitError> {
    let mut said = Vec::new();
    for commit in [one, other] {
        let names = ["^{tree}", "^1", "^2^{tree}"].map(|what| format!("{commit}{what}"));
        let call = repo.command().arg("rev-parse").args(&names);
        said.push(call.run(cancel).await.ok().map(|done| done.stdout));
    }
    // Of an index in conflict there is no tree to compare.
    Ok(said[0].is_some() && said[0] == said[1])
}

/// Makes the commit of what was seen, if it differs from HEAD. It has no name yet.
async fn make(
    repo: &Repository,
    seen: Seen,
    id: SandboxId,
    limits: BeforeLimits,
    cancel: &CancellationToken,
) -> Result<Option<Before>, BeforeError> {
    let head = repo.head.commit();
    let Seen { scratch, changes } = seen;
    if changes.is_empty() {
        return Ok(None);
    }
    let staged = if changes.unmerged() > 0 {
        None
    } else if changes.staged() > 0 {
        Some(tree(&scratch, cancel).await?)
    } else {
        Some(repo.tree_of(head, cancel).await?)
    };
    let (paths, not_recorded) = choose(repo.top.as_path(), &changes, limits);
    scratch
        .command()
        // One flush at the end instead of one for each object.
        .config("core.fsyncMethod=batch")
        .args([
            "update-index",
            "--add",
            "--remove",
            "--replace",
            "-z",
            "--stdin",
        ])
        .input(Input::Bytes(paths))
        .limit(LIMIT)
        .run(cancel)
        .await?;
    let working = tree(&scratch, cancel).await?;
    let index_commit = match &staged {
        Some(tree) => Some(commit(&scratch, tree, &[head], "staged", id, cancel).await?),
        None => None,
    };
    let parents: Vec<&Oid> = std::iter::once(head).chain(&index_commit).collect();
    let commit = commit(&scratch, &working, &parents, "working state", id, cancel).await?;
    Ok(Some(Before {
        commit,
        staged: staged.is_some(),
        not_recorded,
    }))
}

async fn name(
    repo: &Repository,
    id: SandboxId,
    reference: &str,
    commit: &Oid,
    cancel: &CancellationToken,
) -> Result<(), GitError> {
    let null = Oid::null(repo.format);
    let message = format!("cofferdam {id}: before");
    repo.command()
        .args([
            "update-ref",
            "--no-deref",
            "--create-reflog",
            "-m",
            &message,
        ])
        .args([reference, commit.as_str(), null.as_str()])
        .run(cancel)
        .await?;
    Ok(())
}

/// The paths to record, each followed by NUL, and those that cannot be.
fn choose(
    top: &Path,
    changes: &Changes,
    limits: BeforeLimits,
) -> (Vec<u8>, Vec<(PathBuf, NotRecorded)>) {
    let (mut paths, mut not_recorded) = (Vec::new(), Vec::new());
    let mut total = 0u64;
    // A directory that was replaced by a file or symlink: its files are below something untracked,
    // git refuses to look there, and adding what took its place removes them.
    let added: HashSet<&Path> = (changes.0.iter())
        .filter(|change| change.kind == ChangeKind::Untracked)
        .map(|change| change.path.as_path())
        .collect();
    let replaced = |path: &Path| path.ancestors().skip(1).any(|above| added.contains(above));
    for change in &changes.0 {
        if replaced(&change.path) {
            continue;
        }
        let untracked = match change.kind {
            ChangeKind::Submodule { .. }
            | ChangeKind::Trap
            | ChangeKind::Tracked {
                unstaged: false, ..
            } => continue,
            ChangeKind::Tracked { .. } | ChangeKind::Unmerged => false,
            ChangeKind::Untracked => true,
        };
        let why = if change.path.as_os_str().as_bytes().ends_with(b"/") {
            Some(NotRecorded::Repository)
        } else {
            let room = untracked.then(|| limits.file.min(limits.total - total.min(limits.total)));
            match size_of(&top.join(&change.path), room) {
                Ok(size) => {
                    total += if untracked { size } else { 0 };
                    None
                }
                Err(why) => Some(why),
            }
        };
        if let Some(why) = why {
            not_recorded.push((change.path.clone(), why));
        } else {
            paths.extend_from_slice(change.path.as_os_str().as_bytes());
            paths.push(0);
        }
    }
    (paths, not_recorded)
}

/// The size of what can be recorded. A missing file can: as deleted. One path that git cannot read
/// would end the recording of all.
fn size_of(path: &Path, room: Option<u64>) -> Result<u64, NotRecorded> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) => {
            let gone = matches!(
                error.kind(),
                std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory
            );
            return if gone {
                Ok(0)
            } else {
                Err(NotRecorded::Unreadable)
            };
        }
    };
    if found.is_symlink() {
        return Ok(0);
    }
    if found.is_dir() {
        // A tracked file was replaced by a directory: its files are entries of their own.
        return Ok(0);
    }
    if !found.is_file() {
        return Err(NotRecorded::Special);
    }
    if room.is_some_and(|room| found.size() > room) {
        return Err(NotRecorded::TooLarge);
    }
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    match fs::OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path)
    {
        Ok(_) => Ok(found.size()),
        Err(_) => Err(NotRecorded::Unreadable),
    }
}

async fn tree(scratch: &Scratch, cancel: &CancellationToken) -> Result<Oid, GitError> {
    oid(
        "write-tree",
        scratch.command().arg("write-tree").limit(LIMIT),
        cancel,
    )
    .await
}

async fn commit(
    scratch: &Scratch,
    tree: &Oid,
    parents: &[&Oid],
    what: &str,
    id: SandboxId,
    cancel: &CancellationToken,
) -> Result<Oid, GitError> {
    let mut call = scratch.command();
    for role in ["AUTHOR", "COMMITTER"] {
        call = call
            .env(&format!("GIT_{role}_NAME"), "cofferdam")
            .env(&format!("GIT_{role}_EMAIL"), "cofferdam@localhost");
    }
    call = call.args([
        "commit-tree",
        "-m",
        &format!("cofferdam {id}: {what} before it started"),
    ]);
    for parent in parents {
        call = call.args(["-p", parent.as_str()]);
    }
    oid("commit-tree", call.arg(tree.as_str()), cancel).await
}

async fn oid(name: &str, call: GitCommand, cancel: &CancellationToken) -> Result<Oid, GitError> {
    let text = call.line(cancel).await?;
    text.parse().map_err(|_| GitError::Output {
        command: name.to_owned(),
        what: "it is no object id".into(),
    })
}
