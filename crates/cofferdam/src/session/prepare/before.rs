//! The record of what the user had in a checkout that an agent is about to share.

use std::path::PathBuf;

use super::{Making, hidden_paths};
use crate::git::before::{self, BeforeLimits};
use crate::registry::Strategy;
use crate::session::error::RunErrorKind;
use crate::session::event::Notice;

impl Making<'_> {
    /// Before `head` on a dirty tree, the user's state is recorded (invariant 9).
    pub(super) async fn record_before(&self, scratch: PathBuf) -> Result<(), RunErrorKind> {
        if self.plan.record.strategy != Strategy::Head {
            return Ok(());
        }
        let (repo, id, cancel) = (
            &self.plan.repository,
            self.plan.record.id,
            &self.caller.cancel,
        );
        let (rules, hidden) = (self.rules(), hidden_paths(&self.plan.record));
        let seen = before::look(repo, rules, &hidden, scratch, cancel).await?;
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
