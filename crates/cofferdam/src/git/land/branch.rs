//! The `branch` strategy: commits land on a branch that is checked out nowhere but in the sandbox.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::landing::{Landing, NOT_MOVED};
use super::lock::left_behind;
use super::{LandError, Worktree, kept, worktrees};
use crate::fsx;
use crate::git::gate::Accepted;
use crate::git::refs::{self, RefError, Transaction};
use crate::git::{GitError, Oid, Repository};
use crate::names::BranchName;

/// Where a branch is that commits are to land on.
#[derive(Debug, Clone, Copy)]
pub enum Expected<'a> {
    /// Nowhere: it does not exist yet.
    New,
    /// There, and nowhere else.
    At(&'a Oid),
    /// The same, and what is there came from the sandbox alone: its agent may have rewritten it.
    OwnAt(&'a Oid),
}

impl<'a> Expected<'a> {
    fn commit(self) -> Option<&'a Oid> {
        match self {
            Self::New => None,
            Self::At(commit) | Self::OwnAt(commit) => Some(commit),
        }
    }
}

/// Between two looks at whether a git is at work.
const PAUSE: Duration = Duration::from_millis(10);
/// So long is waited for it.
const PATIENCE: Duration = Duration::from_secs(10);
/// So long after it had the index a git may go to a branch: it looks through the files in between.
const AFTER: Duration = Duration::from_secs(1);
/// Begins why nothing moved where it has the index for longer; the place follows.
pub(crate) const AT_WORK: &str = "a git is at work in";
/// A git that has had the index for longer goes nowhere soon.
const RECENT: Duration = Duration::from_secs(60);
/// No HEAD is longer.
const LONGEST: u64 = 4 << 10;

/// How it stands with the gits of their users.
enum Indexes {
    Free,
    /// One had an index a moment ago: it may be about to go to another branch.
    JustLeft,
    /// One has it still.
    Held(PathBuf),
}

/// Waits until no git of their users' writes the index of one of these.
async fn indexes(worktrees: &[Worktree], cancel: &CancellationToken) -> Indexes {
    let is_held = |one: &&Worktree| {
        let lock = one.git_dir.as_ref().map(|dir| dir.join("index.lock"));
        let lock = lock.filter(|lock| !left_behind(lock, None));
        let since = lock.and_then(|lock| lock.symlink_metadata().ok()?.modified().ok());
        // One that is older was left behind as well, or is a commit's whose message is being written.
        since.is_some_and(|since| since.elapsed().is_ok_and(|age| age < RECENT))
    };
    let began = Instant::now();
    let mut found = Indexes::Free;
    while let Some(held) = worktrees.iter().find(is_held) {
        if began.elapsed() >= PATIENCE || cancel.is_cancelled() {
            return Indexes::Held(held.path.clone());
        }
        found = Indexes::JustLeft;
        pause(cancel).await;
    }
    found
}

async fn pause(cancel: &CancellationToken) {
    tokio::select! {
        () = cancel.cancelled() => {}
        () = tokio::time::sleep(PAUSE) => {}
    }
}

/// Whether the branch is checked out there by who found it at `old`, before it moved to `tip`: the index has more of that one. What the log
/// of HEAD says is what the branch was at when HEAD went there, which is later.
async fn went_before(
    repo: &Repository,
    worktree: &Worktree,
    full: &str,
    (old, tip): (&Oid, &Oid),
    cancel: &CancellationToken,
) -> Result<bool, GitError> {
    let Some(git_dir) = &worktree.git_dir else {
        return Ok(false);
    };
    let head = fsx::read_bounded(&git_dir.join("HEAD"), LONGEST).unwrap_or_default();
    let named = head.strip_prefix(b"ref: ").map(<[u8]>::trim_ascii);
    if named != Some(full.as_bytes()) {
        return Ok(false);
    }
    let differs = async |from: &Oid| {
        let done = repo
            .command()
            .env("GIT_INDEX_FILE", git_dir.join("index"))
            .args([
                "diff-index",
                "--cached",
                "--name-only",
                "--no-renames",
                "-z",
            ])
            .arg(from.as_str())
            .run(cancel)
            .await?;
        Ok::<_, GitError>(done.stdout.split(|&byte| byte == 0).count())
    };
    Ok(differs(old).await? < differs(tip).await?)
}

/// Moves `branch` from where it is expected to the accepted tip, and nothing if it is elsewhere. Fast-forward only,
/// unless it is the sandbox's own. `own_worktree` is the sandbox's: there the branch may be checked out.
pub async fn branch(
    repo: &Repository,
    branch: &BranchName,
    expected: Expected<'_>,
    own_worktree: Option<&Path>,
    accepted: &Accepted,
    cancel: &CancellationToken,
) -> Result<Landing, LandError> {
    let full = branch.full();
    let own = own_worktree.and_then(|path| path.canonicalize().ok());
    let all_others = async || {
        let mut all = worktrees(repo, cancel).await?;
        all.retain(|one| own.is_none() || one.path.canonicalize().ok() != own);
        Ok::<_, GitError>(all)
    };
    let mut others = all_others().await?;
    // To one that is not there yet nobody goes.
    let found = match expected {
        Expected::New => Indexes::Free,
        Expected::At(_) | Expected::OwnAt(_) => indexes(&others, cancel).await,
    };
    let mut is_moving = !matches!(found, Indexes::Free);
    if let (Indexes::Held(path), Expected::At(_)) = (&found, expected) {
        let at = crate::text::printable(&path.to_string_lossy());
        return Ok(kept(accepted, format!("{AT_WORK} {at}")));
    }
    if is_moving {
        others = all_others().await?;
    }
    let checked_out = |worktree: &Worktree| {
        let at = crate::text::printable(&worktree.path.to_string_lossy());
        kept(
            accepted,
            format!("branch `{branch}` is checked out at {at}"),
        )
    };
    let has_it = |one: &&Worktree| one.branch.as_deref() == Some(full.as_str());
    if let Some(worktree) = others.iter().find(has_it) {
        return Ok(checked_out(worktree));
    }
    let tip = accepted.tip();
    if let Expected::At(old) = expected
        && !repo.is_ancestor(old, tip, cancel).await?
    {
        let why = format!(
            "branch `{branch}` is at {}, which {} does not contain",
            old.short(),
            tip.short()
        );
        return Ok(kept(accepted, why));
    }
    let moved = Transaction::new(format!("cofferdam {}", accepted.id()))
        .update(&full, tip, expected.commit())
        .commit(repo, cancel)
        .await;
    match moved {
        Ok(()) => {
            if let Some(old) = expected.commit() {
                // Its user's git looks at a branch first, writes the index and the files, and goes there a while later.
                is_moving = is_moving || !matches!(indexes(&others, cancel).await, Indexes::Free);
                let until = Instant::now() + if is_moving { AFTER } else { Duration::ZERO };
                loop {
                    for one in &others {
                        // What cannot be told is no reason to put it back: it has landed.
                        let went = went_before(repo, one, &full, (old, tip), cancel).await;
                        if went.unwrap_or(false) {
                            Transaction::new(format!("cofferdam {}", accepted.id()))
                                .update(&full, old, Some(tip))
                                .commit(repo, cancel)
                                .await?;
                            return Ok(checked_out(one));
                        }
                    }
                    if Instant::now() >= until || cancel.is_cancelled() {
                        break;
                    }
                    pause(cancel).await;
                }
            }
            Ok(Landing::Landed {
                branch: branch.as_str().to_owned(),
                tip: tip.clone(),
            })
        }
        Err(RefError::Moved { detail }) => {
            // A killed command may have come so far already.
            if refs::read(repo, &full, cancel).await?.as_ref() == Some(tip) {
                let branch = branch.as_str().to_owned();
                return Ok(Landing::Landed {
                    branch,
                    tip: tip.clone(),
                });
            }
            let why = format!("branch `{branch}`{NOT_MOVED}{detail}");
            Ok(kept(accepted, why))
        }
        Err(error) => Err(error.into()),
    }
}
