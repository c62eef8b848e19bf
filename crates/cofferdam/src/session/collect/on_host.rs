//! What was committed without a sandbox: by its user's own git, to the branch itself. Nothing has to come home.

use super::tips::DETACHED;
use super::{Beside, CollectError, Collected, Collector};
use crate::git::Oid;
use crate::git::land::{Incoming, Landing};
use crate::git::refs;
use crate::git::worktree::Worktree;
use crate::registry::{Owned, Strategy};
use crate::session::event::Notice;

impl Collector<'_> {
    pub(super) async fn stands_on_host(
        &self,
        owned: &Owned,
        mut collected: Collected,
    ) -> Result<Collected, CollectError> {
        let record = &owned.record;
        let tip = self.stands_at(owned).await?;
        collected.checkout.clone_from(&tip);
        if let Some(head) = self.on_no_branch(owned).await? {
            collected.beside.push(Beside {
                names: vec![DETACHED.to_owned()],
                at: self.keep_extra(owned, &head).await?,
                refused: None,
            });
            for text in collected.beside_in_words(record.id) {
                self.events.notice(Notice::Other { text });
            }
            collected.checkout = Some(head);
        }
        let Some(tip) = tip else {
            return Ok(collected);
        };
        if tip == record.base {
            return Ok(collected);
        }
        let tips = std::slice::from_ref(&tip);
        let commits = self.repo.commits_since(&record.base, tips, self.cancel);
        collected.commits = commits.await?;
        collected.tip = Some(tip.clone());
        collected.landing = match (&record.strategy, &record.branch) {
            (Strategy::MergeToHead { target }, Some(branch)) => {
                let incoming = Incoming::from_branch(record.id, record.base.clone(), tip);
                self.merge(owned, branch, target, &incoming).await?
            }
            (_, branch) => Landing::Landed {
                branch: branch
                    .as_ref()
                    .map_or("HEAD", |branch| branch.as_str())
                    .to_owned(),
                tip,
            },
        };
        Ok(collected)
    }

    /// `None`: the branch has gone.
    async fn stands_at(&self, owned: &Owned) -> Result<Option<Oid>, CollectError> {
        match &owned.record.branch {
            Some(branch) => Ok(refs::read(self.repo, &branch.full(), self.cancel).await?),
            None => Ok(self.repo.resolve("HEAD", self.cancel).await?),
        }
    }

    /// What is checked out in its worktree where no branch and no tag has it: with the worktree the last name of it would go.
    async fn on_no_branch(&self, owned: &Owned) -> Result<Option<Oid>, CollectError> {
        let record = &owned.record;
        let (Some(path), Some(branch)) = (&record.worktree, &record.branch) else {
            return Ok(None);
        };
        if !path.is_dir() {
            return Ok(None);
        }
        let Ok(worktree) = Worktree::find(self.repo, path, branch.clone(), record.base.clone())
        else {
            // It is nothing of ours, and is not removed.
            return Ok(None);
        };
        let there = worktree.repository(self.repo)?;
        let Some(head) = there.checked_out(self.cancel).await? else {
            return Ok(None);
        };
        let is_named = self.repo.is_in_sight(&head, self.cancel).await?;
        Ok((!is_named).then_some(head))
    }
}
