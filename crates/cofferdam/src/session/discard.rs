//! The end of a sandbox in which nothing is anybody's work (`Record::is_check`).

use super::dispose::{self, Disposal};
use super::prepare::{Making, Ready};
use crate::git::UserRules;
use crate::registry::{Outcome, Owned};

/// Ends it, and leaves nothing of it.
pub(super) async fn discard(making: &Making<'_>, owned: Owned, ready: Option<Ready>) {
    let (caller, plan) = (making.caller, making.plan);
    if let Some(ready) = &ready {
        let closed = ready.sandbox().close();
        let _ = tokio::time::timeout(making.options.timeouts.close, closed).await;
    }
    let disposal = Disposal {
        home: &caller.home,
        repo: &plan.repository,
        outcome: Outcome::nobodys(),
        rules: UserRules {
            config: Some(&plan.config),
            caller_home: caller.user_home.as_deref(),
        },
        cancel: &caller.abandon,
    };
    // What stays of it is cleared by `gc`, which knows by its record that nothing in it is work.
    let _ = dispose::dispose(owned, &disposal).await;
}
