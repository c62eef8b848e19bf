//! What comes before a sandbox's work may come into its user's checkout: by a merge, or without a commit.

use super::turn::take;
use super::{ManageError, SandboxRef, gc, half_merged};
use crate::git::Repository;
use crate::git::land::Landed;
use crate::registry::Owned;

/// The right to a sandbox whose work is to come into the checkout that the command works in, and that checkout, once nobody
/// else's is half there. Calls `said` with what was done before about a dead run in the checkout; the last is a merge of the
/// sandbox's that was finished.
pub(super) async fn take_for_checkout(
    target: &SandboxRef,
    said: &(dyn Fn(&str) + Sync),
) -> Result<(Repository, Owned, Option<Landed>), ManageError> {
    let (repo, entry) = target.find_here().await?;
    let name = entry.record.name.to_string();
    if !entry.record.lives_on() {
        if entry.in_use {
            return Err(ManageError::Running { name });
        }
        if entry.record.phase.is_unfinished() {
            return Err(ManageError::Interrupted { name });
        }
    }
    let (home, user, cancel) = (&target.home, target.caller_home.as_deref(), &target.cancel);
    let owned = take(home, entry.record, cancel).await?;
    // What an agent left in the checkout is moved out of it before git looks there, and a merge that another
    // command left half done is finished before this one's own.
    let recovered = gc::recover_in(home, &repo, repo.top.as_path(), user, cancel).await?;
    for line in &recovered {
        said(line);
    }
    let finished = half_merged::finish(home, &repo, &owned, cancel).await?;
    let repo = if finished.is_some() || !recovered.is_empty() {
        // What was read before may have moved.
        target.find_here().await?.0
    } else {
        repo
    };
    Ok((repo, owned, finished))
}
