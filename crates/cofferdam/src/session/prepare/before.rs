//! The record of what the user had in a checkout that an agent is about to share.

use std::path::PathBuf;

use tokio::sync::oneshot::Receiver;
use tokio_util::sync::CancellationToken;

use super::{Making, hidden_paths};
use crate::git::before::{self, Before, BeforeError, BeforeLimits};
use crate::git::walked::Walked;
use crate::git::{Repository, UserRules};
use crate::registry::{Record, Strategy};
use crate::session::emitter::Emitter;
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
        tell(before::reference(id), recorded, self.events);
        Ok(())
    }
}

/// The same before another agent in a sandbox that goes on in `repo`, where something is to be recorded that was not. Returns how many
/// paths differ from HEAD.
pub(in crate::session) async fn record_again(
    repo: &Repository,
    record: &Record,
    rules: UserRules<'_>,
    scratch: PathBuf,
    events: &Emitter,
    cancel: &CancellationToken,
) -> Result<usize, BeforeError> {
    let hidden = hidden_paths(record);
    let seen = before::look(repo, rules, &hidden, scratch, None, cancel).await?;
    let uncommitted = seen.changes().0.len();
    let recorded = before::record_again(repo, seen, record.id, BeforeLimits::default(), cancel);
    if let Some((reference, recorded)) = recorded.await? {
        tell(reference, recorded, events);
    }
    Ok(uncommitted)
}

fn tell(reference: String, recorded: Before, events: &Emitter) {
    events.notice(Notice::BeforeRecorded { reference });
    for (path, why) in recorded.not_recorded {
        let text = format!("{} was not recorded: {why}", path.display());
        events.notice(Notice::Other { text });
    }
}
