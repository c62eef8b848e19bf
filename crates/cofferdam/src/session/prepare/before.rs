//! The record of what the user had in a checkout that an agent is about to share.

use std::path::PathBuf;

use tokio::sync::oneshot::Receiver;

use super::{Making, hidden_paths};
use crate::git::before::{self, BeforeLimits};
use crate::git::walked::Walked;
use crate::registry::Strategy;
use crate::session::error::RunErrorKind;
use crate::session::event::Notice;

impl Making<'_> {
    /// Before `head` on a dirty tree, the user's state is recorded (invariant 9). What the walk of the checkout finds comes by
    /// `walk`, if one is under way.
    pub(super) async fn record_before(
        &self,
        scratch: PathBuf,
        walk: Option<Receiver<Option<Walked>>>,
    ) -> Result<(), RunErrorKind> {
        if self.plan.record.strategy != Strategy::Head {
            return Ok(());
        }
        let (repo, id, cancel) = (
            &self.plan.repository,
            self.plan.record.id,
            &self.caller.cancel,
        );
        let (rules, hidden) = (self.rules(), hidden_paths(&self.plan.record));
        let walked = match walk {
            Some(walk) => walk.await.unwrap_or_default(),
            None => None,
        };
        let seen = before::look(repo, rules, &hidden, scratch, walked.as_ref(), cancel).await?;
        let uncommitted = seen.changes().0.len();
        self.events.announce(|| (self.announce)(uncommitted));
        let recorded = before::record(repo, seen, id, BeforeLimits::default(), cancel);
        let Some(recorded) = recorded.await? else {
            return Ok(());
        };
        self.events.notice(Notice::BeforeRecorded {
            reference: before::reference(id),
        });
        for (path, why) in recorded.not_recorded {
            let text = format!("{} was not recorded: {why}", path.display());
            self.events.notice(Notice::Other { text });
        }
        Ok(())
    }
}
