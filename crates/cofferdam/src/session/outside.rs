//! The user's uncommitted work, which a sandbox with files of its own does not have. It is looked for while the agent works:
//! no start waits for it.

use std::path::PathBuf;
use std::time::Duration;

use super::emitter::Emitter;
use super::event::Notice;
use super::options::Caller;
use super::plan::Plan;
use crate::git::{UserRules, before};
use crate::registry::Strategy;

/// So long a command that is about to end waits for it, where something came of it.
const AT_THE_END: Duration = Duration::from_secs(2);
/// Where nothing did, a quarter of the time that it took, and this at least: whoever waited for nothing waits no longer because
/// their checkout is large.
const AT_LEAST: Duration = Duration::from_millis(10);
const SHARE: u32 = 4;

/// How many paths of the checkout the sandbox does not have; `None` where it could not be found out. With `head` it has
/// them all. `scratch`: a private directory that is made and removed. No landing may be under way: what landed is committed,
/// and so is what the user committed since the start.
pub(super) async fn look(caller: &Caller, plan: &Plan, scratch: PathBuf) -> Option<usize> {
    if plan.record.strategy == Strategy::Head {
        return Some(0);
    }
    let rules = UserRules {
        config: Some(&plan.config),
        caller_home: caller.user_home.as_deref(),
    };
    let (repo, cancel) = (&plan.repository, &caller.abandon);
    let head = repo.resolve("HEAD", cancel).await.ok()??;
    let count = before::count(repo, &head, rules, scratch, cancel);
    count.await.ok()
}

/// Looks, where a command is about to end, and says what was found.
pub(super) async fn tell_within(caller: &Caller, plan: &Plan, scratch: PathBuf, events: &Emitter) {
    let found = tokio::time::timeout(AT_THE_END, look(caller, plan, scratch)).await;
    tell(found.unwrap_or_default(), events);
}

/// The same where nothing came of the command, which took so long: what is not known then is not told.
pub(super) async fn tell_if_soon(
    caller: &Caller,
    plan: &Plan,
    scratch: PathBuf,
    events: &Emitter,
    took: Duration,
) {
    let limit = AT_LEAST.max(took / SHARE);
    if let Ok(found) = tokio::time::timeout(limit, look(caller, plan, scratch)).await {
        tell(found, events);
    }
}

/// Says what was found.
pub(super) fn tell(paths: Option<usize>, events: &Emitter) {
    match paths {
        Some(0) => {}
        Some(paths) => events.notice(Notice::UncommittedOutside { paths }),
        None => events.notice(Notice::Other {
            text: "uncommitted changes of this checkout, if there are any, stayed outside"
                .to_owned(),
        }),
    }
}
