//! The working trees of a repository and what is checked out in each.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use tokio_util::sync::CancellationToken;

use crate::fsx;
use crate::git::{GitError, Repository};

/// One working tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worktree {
    /// Its top directory.
    pub path: PathBuf,
    /// Its own git directory; `None` where that cannot be found (then it must not be touched).
    pub git_dir: Option<PathBuf>,
    /// `refs/heads/…`, or `None`: detached or bare. During a rebase or bisect: the branch that it
    /// will come back to.
    pub branch: Option<String>,
}

/// Every working tree, the main one first.
pub async fn worktrees(
    repo: &Repository,
    cancel: &CancellationToken,
) -> Result<Vec<Worktree>, GitError> {
    let done = repo
        .command()
        .args(["worktree", "list", "--porcelain", "-z"])
        .run(cancel)
        .await?;
    let admin = admin_directories(&repo.common_dir);
    let mut found: Vec<Worktree> = Vec::new();
    for line in done.stdout.split(|&b| b == 0) {
        if let Some(path) = line.strip_prefix(b"worktree ") {
            let path = PathBuf::from(OsString::from_vec(path.to_vec()));
            let git_dir = if found.is_empty() {
                Some(repo.common_dir.clone())
            } else {
                admin
                    .iter()
                    .find(|(tree, _)| *tree == path)
                    .map(|(_, dir)| dir.clone())
            };
            // Only git's own view of a main working tree elsewhere (core.worktree) is a guess.
            let own = git_dir.as_ref() == Some(&repo.git_dir);
            let path = if own {
                repo.top.as_path().to_owned()
            } else {
                path
            };
            found.push(Worktree {
                path,
                git_dir,
                branch: None,
            });
        } else if let Some(name) = line.strip_prefix(b"branch ")
            && let Some(last) = found.last_mut()
        {
            last.branch = Some(String::from_utf8_lossy(name).into_owned());
        }
    }
    for worktree in &mut found {
        if worktree.branch.is_none() {
            worktree.branch = worktree.git_dir.as_deref().and_then(interrupted);
        }
    }
    Ok(found)
}

/// `<worktree path> → <common dir>/worktrees/<name>`.
fn admin_directories(common_dir: &Path) -> Vec<(PathBuf, PathBuf)> {
    let Ok(entries) = std::fs::read_dir(common_dir.join("worktrees")) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for entry in entries.flatten() {
        let Ok(text) = fsx::read_bounded(&entry.path().join("gitdir"), 16 << 10) else {
            continue;
        };
        let text = text.strip_suffix(b"\n").unwrap_or(&text);
        let pointer = entry.path().join(std::ffi::OsStr::from_bytes(text));
        if let Some(tree) = pointer.parent() {
            let tree = tree.canonicalize().unwrap_or_else(|_| tree.to_owned());
            found.push((tree, entry.path()));
        }
    }
    found
}

/// The branch that a rebase or bisect in this working tree will move.
fn interrupted(git_dir: &Path) -> Option<String> {
    let read = |name: &str| {
        let text = fsx::read_bounded(&git_dir.join(name), 4096).ok()?;
        Some(String::from_utf8_lossy(&text).trim_end().to_owned())
    };
    read("rebase-merge/head-name")
        .or_else(|| read("rebase-apply/head-name"))
        .or_else(|| read("BISECT_START").map(|name| format!("refs/heads/{name}")))
        .filter(|name| name.starts_with("refs/heads/"))
}
