//! What a sandbox that ended left in no commit.

use super::risk::uncommitted_in;
use super::turn::take_ended;
use super::{ManageError, SandboxRef, half_merged};
use crate::git::Identity;
use crate::session::collect::{Collector, Reaches, Rest};
use crate::session::emitter::Emitter;
use crate::session::options::Timeouts;

/// Makes a commit of it and lets it in through the gate; no branch moves. One that lives on is asked by
/// [`crate::session::living::rest`]. Bounded: 2 minutes, and those of the gate.
pub async fn rest(target: &SandboxRef) -> Result<Rest, ManageError> {
    let (repo, owned) = take_ended(target).await?;
    half_merged::finish(&target.home, &repo, &owned, &target.cancel).await?;
    let (author, events) = (Identity::fallback(), Emitter::silent());
    let collector = Collector {
        reaches: Reaches::WhileItLives,
        home: &target.home,
        repo: &repo,
        author: &author,
        events: &events,
        limit: Timeouts::default().collect,
        cancel: &target.cancel,
        judge: None,
    };
    let rest = Box::pin(collector.rest(&owned)).await?;
    if !matches!(rest, Rest::Worktree(_)) {
        return Ok(rest);
    }
    let record = &owned.record;
    let outcome = record.outcome.as_ref();
    let checkout = outcome.and_then(|outcome| outcome.checkout.as_ref());
    let user = target.caller_home.as_deref();
    let found = uncommitted_in(&target.home, &repo, record, checkout, user, &target.cancel).await?;
    Ok(found.map_or(Rest::Nothing, |found| Rest::Worktree(found.path)))
}
