//! What in a worktree is in no commit. Where its branch moved while an agent worked there, a file may be as the
//! agent committed it or as the branch has it: neither is work that would be lost with the worktree.

use std::path::Path;

use tokio_util::sync::CancellationToken;

use crate::git::nested;
use crate::git::status::{Change, ChangeKind, Changes};
use crate::git::worktree::{self, Worktree, WorktreeError};
use crate::git::{Oid, Repository, UserRules};

/// What is neither as `tip` has it nor as one of `others` has it; where git would wait at a pipe for ever, that pipe alone.
/// `scratch`: as for [`worktree::dirty`].
pub(super) async fn uncommitted(
    repo: &Repository,
    worktree: &Worktree,
    (tip, others): (&Oid, &[Oid]),
    rules: UserRules<'_>,
    scratch: &Path,
    cancel: &CancellationToken,
) -> Result<Changes, WorktreeError> {
    if let Some(path) = nested::trap_in(&worktree.path).await? {
        let kind = ChangeKind::Trap;
        return Ok(Changes(vec![Change { path, kind }]));
    }
    let look = |tip| worktree::dirty(repo, worktree, tip, rules, scratch.to_owned(), cancel);
    let mut found = look(tip).await?;
    for other in others.iter().filter(|&other| other != tip) {
        if found.is_empty() {
            break;
        }
        let there = look(other).await?;
        found.0.retain(|one| {
            let mut there = there.0.iter();
            there.any(|other| overlap(&one.path, &other.path))
        });
    }
    Ok(found)
}

/// An untracked directory stands for what is in it.
fn overlap(one: &Path, other: &Path) -> bool {
    one.starts_with(other) || other.starts_with(one)
}
