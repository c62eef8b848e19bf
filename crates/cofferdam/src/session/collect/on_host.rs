//! What was committed without a sandbox: by its user's own git, to the branch itself. Nothing has to come home.

use super::{CollectError, Collected, Collector};
use crate::git::Oid;
use crate::git::land::{Incoming, Landing};
use crate::git::refs;
use crate::registry::{Owned, Strategy};

impl Collector<'_> {
    pub(super) async fn stands_on_host(
        &self,
        owned: &Owned,
        mut collected: Collected,
    ) -> Result<Collected, CollectError> {
        let record = &owned.record;
        let Some(tip) = self.stands_at(owned).await? else {
            return Ok(collected);
        };
        collected.checkout = Some(tip.clone());
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
}
