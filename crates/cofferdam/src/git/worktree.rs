//! Linked worktrees of ours, under `.cofferdam/worktrees/` of the main checkout: one per branch a sandbox works
//! on. Their git side (the admin directory in the repository) is the host's; a sandbox gets the
//! files only.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

use super::command::GitError;
use super::lock::{Lock, LockError, lock};
use super::progress::Progress;
use super::scratch::{CheckOutError, Scratch, Sparse, UserRules};
use super::status::{Change, ChangeKind, Changes, Untracked, status_and_gaps};
use super::{Oid, Repository, ref_words};
use crate::fsx::{self, Context, FileError};
use crate::names::{BranchName, RepoPath};

/// Why there is no worktree for a branch.
#[derive(Debug, thiserror::Error)]
pub enum WorktreeError {
    /// The branch is checked out, and git has a branch in one working tree only.
    #[error("branch `{branch}` is checked out at {}", at.display())]
    CheckedOut {
        /// Its short name.
        branch: BranchName,
        /// The working tree that has it.
        at: PathBuf,
    },
    /// An earlier sandbox of ours left uncommitted edits there.
    #[error("branch `{branch}` has a preserved worktree at {}", at.display())]
    Preserved {
        /// Its short name.
        branch: BranchName,
        /// Where the edits are.
        at: PathBuf,
    },
    /// Another branch bars the name: git cannot have both `a` and `a/b`.
    #[error("branch `{branch}` cannot exist beside branch `{other}`")]
    NameConflict {
        /// The one that is wanted.
        branch: BranchName,
        /// The one that is there.
        other: String,
    },
    /// Git does not make it.
    #[error("there can be no branch `{branch}`: {why}")]
    NotMade {
        /// Its short name.
        branch: BranchName,
        /// In git's words, safe for a terminal.
        why: String,
    },
    /// The branch was to be there, and is not.
    #[error("there is no branch `{branch}`")]
    NoBranch {
        /// Its short name.
        branch: BranchName,
    },
    /// Something else is at its place; nothing is overwritten.
    #[error("{} is in the way: {why}", path.display())]
    InTheWay {
        /// What is there.
        path: PathBuf,
        /// What it is, as a sentence fragment.
        why: &'static str,
    },
    /// It is no worktree of ours; nothing there is removed.
    #[error("{} is not a worktree of ours", path.display())]
    NotOurs {
        /// What was to be removed.
        path: PathBuf,
    },
    /// The caller cancelled it.
    #[error("cancelled while a worktree was to be made")]
    Cancelled,
    /// Something could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// Git did not make or remove it.
    #[error(transparent)]
    Git(#[from] GitError),
}

impl From<LockError> for WorktreeError {
    fn from(error: LockError) -> Self {
        match error {
            LockError::Cancelled => Self::Cancelled,
            LockError::File(error) => error.into(),
        }
    }
}

impl From<CheckOutError> for WorktreeError {
    fn from(error: CheckOutError) -> Self {
        match error {
            CheckOutError::File(error) => error.into(),
            CheckOutError::Git(error) => error.into(),
        }
    }
}

/// A linked worktree of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worktree {
    /// Its top.
    pub path: PathBuf,
    /// Its git directory, `<common>/worktrees/<name>`. No sandbox can write it.
    pub admin: PathBuf,
    /// The branch that it was made for.
    pub branch: BranchName,
    /// Where the branch stood when the worktree was made.
    pub start: Oid,
    /// Whether the branch did not exist before.
    pub created_branch: bool,
}

/// One line of `git worktree list`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its top, as git has it.
    pub path: PathBuf,
    /// Full name; raw bytes.
    pub branch: Option<Vec<u8>>,
}

impl Worktree {
    /// The repository as seen from this worktree.
    pub fn repository(&self, repo: &Repository) -> Result<Repository, FileError> {
        let top = RepoPath::resolve(&self.path).context("find", &self.path)?;
        let head = super::Head::Branch {
            name: self.branch.clone(),
            commit: self.start.clone(),
        };
        Ok(Repository {
            top,
            git_dir: self.admin.clone(),
            head,
            ..repo.clone()
        })
    }

    /// Finds the worktree at `path` again, by the host's own records only.
    pub fn find(
        repo: &Repository,
        path: &Path,
        branch: BranchName,
        start: Oid,
    ) -> Result<Self, WorktreeError> {
        let not_ours = || WorktreeError::NotOurs {
            path: path.to_owned(),
        };
        if !is_ours(repo, path) {
            return Err(not_ours());
        }
        let admin = admin_of(repo, path)?.ok_or_else(not_ours)?;
        Ok(Self {
            path: path.to_owned(),
            admin,
            branch,
            start,
            created_branch: false,
        })
    }
}

/// `.cofferdam/worktrees` of the main checkout.
pub fn directory(repo: &Repository) -> PathBuf {
    repo.kept_dir().join("worktrees")
}

/// Whether a worktree at `path` is one of ours. Earlier versions kept those of a linked checkout in that one.
fn is_ours(repo: &Repository, path: &Path) -> bool {
    let places = [repo.kept_dir(), repo.config_dir()];
    let mut places = places.iter().map(|place| place.join("worktrees"));
    places.any(|place| path.parent() == Some(&place))
}

/// The directory name of a branch's worktree. Different branches have different names.
pub fn directory_name(branch: &BranchName) -> String {
    const LONGEST: usize = 80;
    let text = branch.as_str();
    let safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let mut name: String = text
        .chars()
        .map(|c| if safe(c) { c } else { '-' })
        .take(LONGEST)
        .collect();
    // A name that looks hashed gets a hash of its own: no branch can be named like another's.
    if name != text || looks_hashed(text) {
        let digest = Sha256::digest(text.as_bytes());
        name.push('-');
        name.push_str(&super::hex::hex(&digest[..4]));
    }
    name
}

fn looks_hashed(text: &str) -> bool {
    text.rsplit_once('-').is_some_and(|(_, hash)| {
        hash.len() == 8 && hash.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    })
}

/// Makes `.cofferdam/<name>` of the main checkout whose content never shows in the user's `git status`, without
/// touching a tracked file.
pub fn ignored_directory(repo: &Repository, name: &str) -> Result<PathBuf, WorktreeError> {
    let mut path = repo.kept_dir();
    for last in [false, true] {
        if last {
            path.push(name);
        }
        match fs::create_dir(&path) {
            Ok(()) => continue,
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(FileError::new("create", path, error).into()),
        }
        let found = fs::symlink_metadata(&path).context("look at", &path)?;
        let why = if found.is_symlink() {
            "it is a symbolic link"
        } else if found.is_dir() {
            continue;
        } else {
            "it is no directory"
        };
        return Err(WorktreeError::InTheWay { path, why });
    }
    let ignore = path.join(".gitignore");
    if fs::symlink_metadata(&ignore).is_err() {
        fsx::write_with_mode(&ignore, b"*\n", 0o644)?;
    }
    Ok(path)
}

/// Refuses a branch that is checked out, as far as git's files tell without git: where a repository keeps its
/// references in tables, [`add`] finds it.
pub fn check_free(repo: &Repository, branch: &BranchName) -> Result<(), WorktreeError> {
    let full = branch.full();
    let is_at = |git_dir: &Path| {
        let head = fsx::read_bounded(&git_dir.join("HEAD"), 1 << 12).unwrap_or_default();
        let named = head.strip_prefix(b"ref: ").map(<[u8]>::trim_ascii);
        named == Some(full.as_bytes())
    };
    let mut all = admin_entries(repo)?;
    if repo.common_dir.ends_with(".git") {
        let main = repo.common_dir.parent().map(Path::to_owned);
        all.extend(main.map(|main| (repo.common_dir.clone(), main)));
    }
    for (git_dir, at) in all {
        // One whose directory is gone may be one that is cleared away.
        if !is_at(&git_dir) || !at.is_dir() {
            continue;
        }
        let branch = branch.clone();
        return Err(if is_ours(repo, &at) {
            WorktreeError::Preserved { branch, at }
        } else {
            WorktreeError::CheckedOut { branch, at }
        });
    }
    Ok(())
}

/// Adds a worktree for `branch`. A branch that exists is checked out at its tip; one that does not
/// starts at `base`, or is an error without one. No filter runs: LFS files stay pointers.
pub async fn add(
    repo: &Repository,
    branch: &BranchName,
    base: Option<&Oid>,
    rules: UserRules<'_>,
    cancel: &CancellationToken,
) -> Result<Worktree, WorktreeError> {
    add_watched(repo, branch, base, rules, None, cancel).await
}

/// As [`add`], and tells how many files are written.
pub async fn add_watched(
    repo: &Repository,
    branch: &BranchName,
    base: Option<&Oid>,
    rules: UserRules<'_>,
    progress: Option<&Progress>,
    cancel: &CancellationToken,
) -> Result<Worktree, WorktreeError> {
    let parent = ignored_directory(repo, "worktrees")?;
    // Between looking and registering nobody else of us may do the same: what fails is undone.
    let registering = lock(&parent.join(".lock"), Lock::Exclusive, cancel).await?;
    prune(repo)?;
    let path = parent.join(directory_name(branch));
    for listed in list(repo, cancel).await? {
        if listed.branch.as_deref() != Some(branch.full().as_bytes()) {
            continue;
        }
        let (branch, at) = (branch.clone(), listed.path);
        return Err(if is_ours(repo, &at) {
            WorktreeError::Preserved { branch, at }
        } else {
            WorktreeError::CheckedOut { branch, at }
        });
    }
    if fs::symlink_metadata(&path).is_ok() {
        return Err(WorktreeError::InTheWay {
            path,
            why: "it is no worktree of this branch",
        });
    }
    let existing = existing(repo, branch, cancel).await?;
    let start = match (&existing, base) {
        (Some(tip), _) => tip.clone(),
        (None, Some(base)) => base.clone(),
        (None, None) => {
            return Err(WorktreeError::NoBranch {
                branch: branch.clone(),
            });
        }
    };
    let created_branch = existing.is_none();
    if created_branch {
        // Created by compare-and-swap: a branch that the user makes now is never taken for ours.
        // Not to be cancelled: whether it happened must be known.
        if cancel.is_cancelled() {
            return Err(WorktreeError::Cancelled);
        }
        let (full, null) = (branch.full(), Oid::null(repo.format));
        let call = repo
            .command()
            .args(["update-ref", "--no-deref", "-m", "cofferdam: created"]);
        let call = call.args([&full, start.as_str(), null.as_str()]);
        match call.run(&CancellationToken::new()).await {
            Err(GitError::Failed { stderr, .. }) if ref_words::is_about_one(&stderr) => {
                return Err(WorktreeError::NotMade {
                    branch: branch.clone(),
                    why: ref_words::told(&stderr),
                });
            }
            done => done.map(drop)?,
        }
    }
    let planned = Planned {
        path,
        branch,
        start,
        created_branch,
    };
    let done = match register(repo, &planned, cancel).await {
        Ok(admin) => {
            drop(registering);
            fill(repo, &planned, &admin, rules, progress, cancel)
                .await
                .map(|()| admin)
        }
        Err(error) => Err(error),
    };
    match done {
        Ok(admin) => {
            let Planned { path, start, .. } = planned;
            Ok(Worktree {
                path,
                admin,
                branch: branch.clone(),
                start,
                created_branch,
            })
        }
        Err(error) => {
            // git was killed, or failed half way: what was made is ours to take back.
            undo(repo, &planned).await?;
            Err(error)
        }
    }
}

struct Planned<'a> {
    path: PathBuf,
    branch: &'a BranchName,
    start: Oid,
    created_branch: bool,
}

async fn register(
    repo: &Repository,
    planned: &Planned<'_>,
    cancel: &CancellationToken,
) -> Result<PathBuf, WorktreeError> {
    let path = &planned.path;
    let call = repo
        .command()
        .args(["worktree", "add", "--quiet", "--no-checkout", "--"]);
    call.arg(path)
        .arg(planned.branch.as_str())
        .run(cancel)
        .await?;
    admin_of(repo, path)?.ok_or(WorktreeError::NotOurs { path: path.clone() })
}

async fn fill(
    repo: &Repository,
    planned: &Planned<'_>,
    admin: &Path,
    rules: UserRules<'_>,
    progress: Option<&Progress>,
    cancel: &CancellationToken,
) -> Result<(), WorktreeError> {
    let Planned { path, start, .. } = planned;
    let sparse = sparse(repo, admin, cancel).await?;
    let seen = Repository {
        git_dir: admin.to_owned(),
        ..repo.clone()
    };
    let scratch = Scratch::create(admin.join("cofferdam"), &seen, start, rules)?;
    scratch
        .check_out(
            start,
            path,
            &admin.join("index"),
            sparse.as_ref(),
            progress,
            cancel,
        )
        .await?;
    Ok(())
}

/// The user's sparse patterns, which `git worktree add` has copied where they are in force.
async fn sparse(
    repo: &Repository,
    admin: &Path,
    cancel: &CancellationToken,
) -> Result<Option<Sparse>, WorktreeError> {
    let patterns = match fsx::read_bounded(&admin.join("info/sparse-checkout"), 64 << 20) {
        Ok(patterns) => patterns,
        Err(error) if error.is_not_found() => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let mut set = [false; 2];
    for (name, value) in ["core.sparseCheckout", "core.sparseCheckoutCone"]
        .into_iter()
        .zip(&mut set)
    {
        let call = repo.git.at(admin, &repo.common_dir);
        let call = call
            .args(["config", "--type=bool", "--get", name])
            .answers(&[1]);
        *value = call.line(cancel).await? == "true";
    }
    let [in_force, cone] = set;
    Ok(in_force.then_some(Sparse { patterns, cone }))
}

/// Whether the working tree whose own git directory is `admin` leaves files of its commit out.
pub async fn is_sparse(
    repo: &Repository,
    admin: &Path,
    cancel: &CancellationToken,
) -> Result<bool, WorktreeError> {
    Ok(sparse(repo, admin, cancel).await?.is_some())
}

async fn undo(repo: &Repository, planned: &Planned<'_>) -> Result<(), WorktreeError> {
    fsx::remove_tree(&planned.path)?;
    if let Some(admin) = admin_of(repo, &planned.path)? {
        fsx::remove_tree(&admin)?;
    }
    if planned.created_branch {
        // Deleted only where it still is what was made; it may not have come so far. The run may
        // have been cancelled, and this must happen all the same.
        let _ = repo
            .command()
            .args(["update-ref", "--no-deref", "-d", &planned.branch.full()])
            .arg(planned.start.as_str())
            .run(&CancellationToken::new())
            .await;
    }
    Ok(())
}

/// The tip of `branch`, after looking for branches that it cannot exist beside.
async fn existing(
    repo: &Repository,
    branch: &BranchName,
    cancel: &CancellationToken,
) -> Result<Option<Oid>, WorktreeError> {
    let full = branch.full();
    let done = repo
        .command()
        .args([
            "for-each-ref",
            "--count=2",
            "--format=%(objectname) %(refname)",
            &full,
        ])
        .run(cancel)
        .await?;
    let text = String::from_utf8_lossy(&done.stdout);
    let mut below = None;
    for line in text.lines() {
        let Some((oid, name)) = line.split_once(' ') else {
            continue;
        };
        if name == full {
            return Ok(oid.parse().ok());
        }
        below = name.strip_prefix("refs/heads/").map(str::to_owned);
    }
    let conflict = |other| {
        Err(WorktreeError::NameConflict {
            branch: branch.clone(),
            other,
        })
    };
    if let Some(other) = below {
        return conflict(other);
    }
    let mut above = branch.as_str();
    while let Some((parent, _)) = above.rsplit_once('/') {
        if repo
            .resolve(&format!("refs/heads/{parent}"), cancel)
            .await?
            .is_some()
        {
            return conflict(parent.to_owned());
        }
        above = parent;
    }
    Ok(None)
}

/// All working trees of the repository, the main one first.
pub async fn list(repo: &Repository, cancel: &CancellationToken) -> Result<Vec<Listed>, GitError> {
    let done = repo
        .command()
        .args(["worktree", "list", "--porcelain", "-z"])
        .run(cancel)
        .await?;
    let mut listed = Vec::new();
    for field in done.stdout.split(|&b| b == 0) {
        if let Some(path) = field.strip_prefix(b"worktree ") {
            listed.push(Listed {
                path: OsStr::from_bytes(path).into(),
                branch: None,
            });
        } else if let (Some(name), Some(last)) = (field.strip_prefix(b"branch "), listed.last_mut())
        {
            last.branch = Some(name.to_owned());
        }
    }
    Ok(listed)
}

/// Removes the worktree with everything in it. The tree goes first: what a crash leaves is an admin
/// entry without a tree, which [`prune`] knows.
pub fn remove(repo: &Repository, worktree: &Worktree) -> Result<(), WorktreeError> {
    let ours = is_ours(repo, &worktree.path)
        && admin_of(repo, &worktree.path)?.is_none_or(|admin| admin == worktree.admin);
    if !ours {
        return Err(WorktreeError::NotOurs {
            path: worktree.path.clone(),
        });
    }
    fsx::remove_tree(&worktree.path)?;
    if let Some(admin) = admin_of(repo, &worktree.path)? {
        fsx::remove_tree(&admin)?;
        // git keeps the directory only while it has entries.
        let _ = fs::remove_dir(repo.common_dir.join("worktrees"));
    }
    Ok(())
}

/// Removes admin entries of worktrees of ours that do not exist any more; never the user's.
pub fn prune(repo: &Repository) -> Result<(), FileError> {
    for (admin, path) in admin_entries(repo)? {
        let gone = fs::symlink_metadata(&path)
            .is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound);
        if is_ours(repo, &path) && gone && !admin.join("locked").exists() {
            fsx::remove_tree(&admin)?;
        }
    }
    Ok(())
}

/// Edits in the worktree that `tip` does not have, untracked files included. Runs nothing that the
/// tree or any configuration names. `scratch`: a directory that is made and removed.
pub async fn dirty(
    repo: &Repository,
    worktree: &Worktree,
    tip: &Oid,
    rules: UserRules<'_>,
    scratch: PathBuf,
    cancel: &CancellationToken,
) -> Result<Changes, WorktreeError> {
    let seen = worktree.repository(repo)?;
    let scratch = Scratch::create(scratch, &seen, tip, rules)?;
    scratch.copy_index(&worktree.admin.join("index"))?;
    // What a merge has left undecided there is as it is in the files.
    scratch
        .command()
        .args(["read-tree", "-i", "--reset", tip.as_str()])
        .run(cancel)
        .await?;
    let (mut changes, gaps) =
        status_and_gaps(scratch.command(), Untracked::Directories, &[], cancel).await?;
    if gaps {
        // There may be work in it: as if there were.
        let (path, kind) = (PathBuf::new(), ChangeKind::Untracked);
        changes.0.push(Change { path, kind });
    }
    Ok(changes)
}

/// Writes into the worktree what `commit` has, without its index: all of it is uncommitted there. `repo`: one whose
/// drivers do not run.
pub async fn restore(
    repo: &Repository,
    worktree: &Worktree,
    commit: &Oid,
    cancel: &CancellationToken,
) -> Result<(), WorktreeError> {
    let there = worktree.repository(repo)?;
    there
        .command_in_tree()
        .args(["restore", "--worktree", "--no-overlay"])
        .arg("--ignore-skip-worktree-bits")
        .arg(format!("--source={commit}"))
        .args(["--", "."])
        .run(cancel)
        .await?;
    Ok(())
}

/// Brings the worktree's index to `tip`, after the branch moved there. Files are not touched.
pub async fn advance_index(
    repo: &Repository,
    worktree: &Worktree,
    tip: &Oid,
    cancel: &CancellationToken,
) -> Result<(), GitError> {
    repo.git
        .at(&worktree.admin, &repo.common_dir)
        .work_tree(&worktree.path)
        .args(["read-tree", "-i", "-m", tip.as_str()])
        .run(cancel)
        .await?;
    Ok(())
}

fn admin_of(repo: &Repository, path: &Path) -> Result<Option<PathBuf>, FileError> {
    Ok(admin_entries(repo)?
        .into_iter()
        .find(|(_, at)| at == path)
        .map(|(admin, _)| admin))
}

/// The admin directories with the working trees that they name.
fn admin_entries(repo: &Repository) -> Result<Vec<(PathBuf, PathBuf)>, FileError> {
    let all = repo.common_dir.join("worktrees");
    let entries = match fs::read_dir(&all) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(FileError::new("list", all, error)),
    };
    let mut found = Vec::new();
    for entry in entries.flatten() {
        let admin = entry.path();
        let Ok(bytes) = fsx::read_bounded(&admin.join("gitdir"), 1 << 16) else {
            continue;
        };
        let named = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
        // Relative since git 2.48 where the user asked for it.
        let pointer = admin.join(OsStr::from_bytes(named));
        if let Some(path) = pointer.parent() {
            found.push((admin, lexical(path)));
        }
    }
    Ok(found)
}

/// Resolves `.` and `..` in an absolute path whose directories are no symlinks.
fn lexical(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for component in path.components() {
        match component {
            std::path::Component::ParentDir => {
                out.pop();
            }
            std::path::Component::CurDir => {}
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(branch: &str) -> String {
        directory_name(&branch.parse().unwrap())
    }

    #[test]
    fn directory_names_are_injective() {
        assert_eq!(name("a-b"), "a-b");
        let slash = name("a/b");
        assert!(slash.starts_with("a-b-") && slash.len() == 12, "{slash}");
        assert_ne!(name(&slash), slash);
        let long = "x".repeat(200);
        assert!(name(&long).len() < 100);
        assert_ne!(name(&long), name(&"x".repeat(199)));
        assert_ne!(name("größe"), name("gr-ße"));
    }
}
