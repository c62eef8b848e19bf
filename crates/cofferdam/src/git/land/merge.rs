//! The `merge-to-head` strategy: the accepted commits are merged in memory into the branch that was
//! checked out at the start, and a checkout of that branch follows where nothing stands in the way.

use std::path::Path;

use tokio_util::sync::CancellationToken;

use super::checkout::{Landed, Moved, some};
use super::journal::{Files, Move};
use super::landing::Landing;
use super::under_way::under_way;
use super::{Barred, Incoming, LandError, Worktree, kept_at, worktrees};
use crate::git::refs::{self, RefError, Transaction, as_identity};
use crate::git::{GitError, Head, Identity, Oid, Repository};
use crate::names::BranchName;
use crate::process::Input;
use crate::text::printable;

/// The branch moved under the merge so often that something else is wrong.
const TRIES: u32 = 5;

/// What is merged, where, and by whom.
#[derive(Debug, Clone)]
pub struct Merging<'a> {
    /// What was checked out at the start: that branch is the target, wherever the user is now.
    pub start: &'a Head,
    /// The branch that holds the commits, named where nothing could be merged.
    pub source: Option<&'a BranchName>,
    /// Author and committer of a merge commit.
    pub identity: &'a Identity,
    /// Message of a merge commit.
    pub message: &'a str,
    /// All of it is one commit on the target, and no merge.
    pub squash: bool,
    /// A commit behind it whose files the target has already, by another commit. Of a squash.
    pub has: Option<&'a Oid>,
}

/// Fast-forwards where possible, else makes a merge commit. On a conflict, or where the result
/// would overwrite local changes or untracked files, nothing moves.
pub async fn merge_to_head(
    repo: &Repository,
    target: &Merging<'_>,
    incoming: &Incoming,
    state: &Path,
    barred: Barred<'_>,
    cancel: &CancellationToken,
) -> Result<Landed, LandError> {
    let stay = |why: String| -> Landed {
        match (target.source, kept_at(incoming, why)) {
            (Some(branch), Landing::Kept { why, .. }) => Landing::Kept {
                reference: branch.as_str().to_owned(),
                why,
            }
            .into(),
            (_, landing) => landing.into(),
        }
    };
    let tip = incoming.tip();
    let mut last = String::new();
    for _ in 0..TRIES {
        let (reference, current) = match target.start {
            Head::Branch { name, .. } => {
                let full = name.full();
                match refs::read(repo, &full, cancel).await? {
                    Some(current) => (full, current),
                    None => return Ok(stay(format!("branch `{name}` is gone"))),
                }
            }
            Head::Detached { .. } => match refs::read(repo, "HEAD", cancel).await? {
                Some(current) => ("HEAD".to_owned(), current),
                None => return Ok(stay("HEAD has no commit any more".into())),
            },
        };
        let shown = reference
            .strip_prefix("refs/heads/")
            .unwrap_or(&reference)
            .to_owned();
        let result = match combine(repo, &current, incoming, target, cancel).await? {
            Combined::Already => {
                return Ok(Landing::Landed {
                    branch: shown,
                    tip: current,
                }
                .into());
            }
            Combined::Conflict(files) => {
                let mut why = format!("it conflicts with `{shown}` in {}", some(&files));
                // Nothing can be merged by hand before that is over.
                let tree = checkout_of(repo, &reference, cancel).await?;
                let busy = tree.as_ref().and_then(|tree| {
                    under_way(tree.git_dir.as_deref()?, &tree.path, reference == "HEAD")
                });
                if let Some(busy) = busy {
                    why.push_str("; ");
                    why.push_str(&busy);
                }
                return Ok(stay(why));
            }
            Combined::Commit(result) => result,
        };
        let Some(tree) = checkout_of(repo, &reference, cancel).await? else {
            let swap = Transaction::new(format!(
                "cofferdam {}: merge {}",
                incoming.id(),
                tip.short()
            ))
            .update(&reference, &result, Some(&current));
            match swap.commit(repo, cancel).await {
                Ok(()) => {
                    return Ok(Landing::Landed {
                        branch: shown,
                        tip: result,
                    }
                    .into());
                }
                Err(RefError::Moved { detail }) => last = detail,
                Err(error) => return Err(error.into()),
            }
            continue;
        };
        let Some(git_dir) = &tree.git_dir else {
            let at = printable(&tree.path.to_string_lossy());
            return Ok(stay(format!(
                "`{shown}` is checked out at {at}, which cannot be opened"
            )));
        };
        let mut step = Move::new(
            incoming.id(),
            Files::Update,
            reference.clone(),
            (&current, &result),
            git_dir,
            &tree.path,
        );
        let commits = || (incoming.base().clone(), tip.clone());
        step.lying = incoming.lies_there.then(commits);
        let moved = step.run(repo, state, barred, cancel).await?;
        match moved {
            Moved::Done { .. } | Moved::GrownOver(_) => return Ok(step.landed(moved)),
            // Only if the branch itself moved meanwhile is there a reason to merge again.
            Moved::InTheWay(why) => {
                if refs::read(repo, &reference, cancel).await?.as_ref() == Some(&current)
                    && checkout_of(repo, &reference, cancel).await?.as_ref() == Some(&tree)
                {
                    return Ok(stay(why));
                }
                last = why;
            }
        }
    }
    Ok(stay(last))
}

enum Combined {
    /// The target has the commits.
    Already,
    Commit(Oid),
    Conflict(Vec<String>),
}

async fn combine(
    repo: &Repository,
    current: &Oid,
    incoming: &Incoming,
    target: &Merging<'_>,
    cancel: &CancellationToken,
) -> Result<Combined, LandError> {
    let tip = incoming.tip();
    if target.squash {
        return Box::pin(squashed(repo, current, tip, target, cancel)).await;
    }
    if tip == current || repo.is_ancestor(tip, current, cancel).await? {
        return Ok(Combined::Already);
    }
    if repo.is_ancestor(current, tip, cancel).await? {
        return Ok(Combined::Commit(tip.clone()));
    }
    let tree = match merge_tree(repo, current, tip, cancel).await? {
        Merged::Conflict(files) => return Ok(Combined::Conflict(files)),
        Merged::Tree(tree) => tree,
    };
    let commit = commit(repo, &tree, &[current, tip], target, cancel).await?;
    Ok(Combined::Commit(commit))
}

/// The same files on top of the target alone.
async fn squashed(
    repo: &Repository,
    current: &Oid,
    tip: &Oid,
    target: &Merging<'_>,
    cancel: &CancellationToken,
) -> Result<Combined, LandError> {
    if repo.is_ancestor(tip, current, cancel).await? {
        return Ok(Combined::Already);
    }
    // As if the target had gone on from what it has of it.
    let ours = match target.has {
        Some(has) => {
            let tree = repo.tree_of(current, cancel).await?;
            commit(repo, &tree, &[has], target, cancel).await?
        }
        None => current.clone(),
    };
    let tree = match merge_tree(repo, &ours, tip, cancel).await? {
        Merged::Conflict(files) => return Ok(Combined::Conflict(files)),
        Merged::Tree(tree) => tree,
    };
    if tree == repo.tree_of(current, cancel).await? {
        return Ok(Combined::Already);
    }
    let commit = commit(repo, &tree, &[current], target, cancel).await?;
    Ok(Combined::Commit(commit))
}

async fn commit(
    repo: &Repository,
    tree: &Oid,
    parents: &[&Oid],
    target: &Merging<'_>,
    cancel: &CancellationToken,
) -> Result<Oid, LandError> {
    let parents = parents.iter().flat_map(|parent| ["-p", parent.as_str()]);
    let commit = as_identity(repo.command(), target.identity)
        .args(["commit-tree", tree.as_str()])
        .args(parents)
        .args(["-F", "-"])
        .input(Input::Bytes(target.message.as_bytes().to_vec()))
        .line(cancel)
        .await?;
    let commit = commit.parse().map_err(|_| GitError::Output {
        command: "commit-tree".into(),
        what: "no commit".into(),
    })?;
    Ok(commit)
}

/// What two commits are together.
pub(super) enum Merged {
    Tree(Oid),
    /// Printable.
    Conflict(Vec<String>),
}

pub(super) async fn merge_tree(
    repo: &Repository,
    ours: &Oid,
    theirs: &Oid,
    cancel: &CancellationToken,
) -> Result<Merged, GitError> {
    let done = repo
        .command()
        .args([
            "merge-tree",
            "--write-tree",
            "-z",
            "--name-only",
            "--no-messages",
        ])
        .args([ours.as_str(), theirs.as_str()])
        .answers(&[1])
        .run(cancel)
        .await?;
    let mut parts = done.stdout.split(|&b| b == 0).map(String::from_utf8_lossy);
    let tree = parts.next().unwrap_or_default().into_owned();
    if !done.exit.success() {
        let mut files: Vec<String> = parts
            .filter(|part| !part.is_empty())
            .map(|part| printable(&part))
            .collect();
        files.dedup();
        return Ok(Merged::Conflict(files));
    }
    let tree = tree.trim_end().parse().map_err(|_| GitError::Output {
        command: "merge-tree".into(),
        what: "no tree".into(),
    })?;
    Ok(Merged::Tree(tree))
}

/// The working tree in which `reference` is checked out; for a detached HEAD the repository's own.
async fn checkout_of(
    repo: &Repository,
    reference: &str,
    cancel: &CancellationToken,
) -> Result<Option<Worktree>, GitError> {
    if reference == "HEAD" {
        return Ok(Some(Worktree {
            path: repo.top.as_path().to_owned(),
            git_dir: Some(repo.git_dir.clone()),
            branch: None,
        }));
    }
    let all = worktrees(repo, cancel).await?;
    Ok(all
        .into_iter()
        .find(|tree| tree.branch.as_deref() == Some(reference)))
}
