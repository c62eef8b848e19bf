//! The branch strategies' last step: accepted commits reach the user's branch, or are kept and named.

use std::path::Path;

use super::{CollectError, Collector, Reaches, merge_message};
use crate::git::Head;
use crate::git::gate::Accepted;
use crate::git::land::Landing;
use crate::git::land::{self, Incoming, Landed};
use crate::git::worktree::{self, Worktree};
use crate::names::BranchName;
use crate::registry::{Owned, Strategy};
use crate::session::barred::barred;
use crate::session::event::Notice;

impl Collector<'_> {
    /// The branch strategies' last step. The commits are in the repository already.
    pub(super) async fn land(
        &self,
        owned: &Owned,
        accepted: &Accepted,
    ) -> Result<Landing, CollectError> {
        let record = &owned.record;
        match (&record.strategy, &record.branch) {
            (Strategy::Head, _) | (_, None) => {
                let head = match &record.branch {
                    Some(name) => Head::Branch {
                        name: name.clone(),
                        commit: record.base.clone(),
                    },
                    None => Head::Detached {
                        commit: record.base.clone(),
                    },
                };
                let state = owned.directory();
                Ok(self.told(land::head(self.repo, &head, accepted, state, self.cancel).await?))
            }
            (Strategy::Branch, Some(branch)) => self.land_on_branch(owned, branch, accepted).await,
            (Strategy::MergeToHead { target }, Some(branch)) => {
                match self.land_on_branch(owned, branch, accepted).await? {
                    Landing::Landed { .. } => {}
                    other => return Ok(other),
                }
                if let Reaches::OwnBranch(why) = self.reaches {
                    return Ok(Landing::Kept {
                        reference: branch.as_str().to_owned(),
                        why: why.to_owned(),
                    });
                }
                let start = Head::Branch {
                    name: target.clone(),
                    commit: record.base.clone(),
                };
                let target = land::Target {
                    start: &start,
                    source: Some(branch),
                    identity: self.author,
                    message: &merge_message(branch, target),
                };
                let incoming = Incoming::from(accepted);
                let barred = |top: &Path| barred(self.home, record.id, top);
                let landed = land::merge_to_head(
                    self.repo,
                    &target,
                    &incoming,
                    owned.directory(),
                    &barred,
                    self.cancel,
                );
                Ok(self.told(landed.await?))
            }
        }
    }

    /// Passes on what the user should know about a landing in their checkout.
    pub(super) fn told(&self, landed: Landed) -> Landing {
        if !landed.changed_outside.is_empty() {
            let files = landed.changed_outside.join(", ");
            let text = format!("changed outside of the sandbox too, and left as they are: {files}");
            self.events.notice(Notice::Other { text });
        }
        landed.landing
    }

    async fn land_on_branch(
        &self,
        owned: &Owned,
        branch: &BranchName,
        accepted: &Accepted,
    ) -> Result<Landing, CollectError> {
        let record = &owned.record;
        let worktree = record.worktree.as_deref().filter(|path| path.is_dir());
        // In copy mode no worktree was made, so a branch of ours was not either.
        let old = (record.worktree.is_some() || !record.branch_is_ours || record.landed.is_some())
            .then_some(record.begins());
        let landing = land::branch(self.repo, branch, old, worktree, accepted, self.cancel).await?;
        if let (Landing::Landed { tip, .. }, Some(path)) = (&landing, worktree) {
            let found = Worktree::find(self.repo, path, branch.clone(), record.base.clone())?;
            worktree::advance_index(self.repo, &found, tip, self.cancel).await?;
        }
        Ok(landing)
    }
}
