//! The branch strategies' last step: accepted commits reach the user's branch, or are kept and named.

use std::path::Path;

use super::{CollectError, Collector, Reaches, merge_message};
use crate::fsx::{self, FileError};
use crate::git::gate::Accepted;
use crate::git::land::Landing;
use crate::git::land::{self, Expected, Incoming, Landed};
use crate::git::worktree::{self, Worktree};
use crate::git::{Head, Oid};
use crate::git::{nested, refs};
use crate::names::BranchName;
use crate::registry::{Mode, Owned, Strategy};
use crate::session::barred::barred;
use crate::session::event::Notice;
use crate::session::layers;
use crate::session::report::Beside;
use crate::session::standing::Standing;

/// In the state directory: the commits at which collecting from a sandbox that goes on can have left its branch.
const LEFT_AT: &str = "left-at";
const LEFT_AT_LIMIT: u64 = 4096;

/// Notes that an earlier collecting left the sandbox's branch there.
pub(in crate::session) fn left_at(state: &Path, tip: &Oid) -> Result<(), FileError> {
    fsx::write_private(&state.join(LEFT_AT), format!("{tip}\n").as_bytes())
}

impl Collector<'_> {
    /// The branch strategies' last step. The commits are in the repository already.
    pub(super) async fn land(
        &self,
        owned: &Owned,
        accepted: &Accepted,
    ) -> Result<Landing, CollectError> {
        let record = &owned.record;
        if record.mode == Mode::Layer && !layers::still_stands(owned.directory())? {
            // Under a name of its own: nothing takes it for what is to be merged.
            return Ok(Landing::Kept {
                reference: self.keep_extra(owned, accepted.tip()).await?,
                why: land::UNDERMINED.to_owned(),
            });
        }
        // A branch that was made for the sandbox is its own until it is merged.
        if (record.strategy == Strategy::Head || !record.branch_is_ours)
            && let Err(why) = self.judged(owned, accepted.tip()).await
        {
            return Ok(Landing::Kept {
                reference: accepted.tip_ref(),
                why,
            });
        }
        match (&record.strategy, &record.branch) {
            (Strategy::Head, _) | (_, None) if self.reaches == Reaches::ToBeSeen => {
                Ok(Landing::Kept {
                    reference: accepted.tip_ref(),
                    why: land::SEEN.to_owned(),
                })
            }
            (Strategy::Head, _) | (_, None) => {
                let left = match &record.branch {
                    Some(branch) => self.left_at(owned, branch).await?,
                    None => None,
                };
                let commit = left.as_ref().unwrap_or(record.begins()).clone();
                self.about_to_move(owned, &commit, accepted)?;
                let head = match &record.branch {
                    Some(name) => Head::Branch {
                        name: name.clone(),
                        commit,
                    },
                    None => Head::Detached { commit },
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
                self.merge(owned, branch, target, &Incoming::from(accepted))
                    .await
            }
        }
    }

    /// With merge-to-head: what is on the branch goes into its target.
    pub(super) async fn merge(
        &self,
        owned: &Owned,
        branch: &BranchName,
        target: &BranchName,
        incoming: &Incoming,
    ) -> Result<Landing, CollectError> {
        let record = &owned.record;
        let kept = |why| Landing::Kept {
            reference: branch.as_str().to_owned(),
            why,
        };
        if let Some(why) = self.reaches.held_back() {
            // Whoever was cut short, or its user, may have come so far already.
            let (full, tip) = (target.full(), incoming.tip());
            if let Some(at) = refs::read(self.repo, &full, self.cancel).await?
                && self.repo.is_ancestor(tip, &at, self.cancel).await?
            {
                return Ok(Landing::Landed {
                    branch: target.as_str().to_owned(),
                    tip: at,
                });
            }
            return Ok(kept(why.to_owned()));
        }
        if let Err(why) = self.judged(owned, incoming.tip()).await {
            return Ok(kept(why));
        }
        let start = Head::Branch {
            name: target.clone(),
            commit: record.base.clone(),
        };
        let target = land::Merging {
            start: &start,
            source: Some(branch),
            identity: self.author,
            message: &merge_message(branch, target),
            squash: false,
            has: None,
        };
        let standing = Standing::beside(self.home, self.repo.top.as_path()).await;
        let barred = |top: &Path| barred(self.home, record.id, top, &standing);
        let landed = land::merge_to_head(
            self.repo,
            &target,
            incoming,
            owned.directory(),
            &barred,
            self.cancel,
        );
        Ok(self.told(landed.await?))
    }

    /// Whether a branch of the user's may move to the commits. Where they are to be checked and nobody is there who does, as after a
    /// death, it may not.
    async fn judged(&self, owned: &Owned, tip: &Oid) -> Result<(), String> {
        let record = &owned.record;
        match self.judge {
            Some(judge) => {
                let judged = judge.judge(self.repo, record, &record.base, tip);
                judged.await
            }
            None if record.checked => Err(land::NOT_CHECKED.to_owned()),
            None => Ok(()),
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
        let left = self.left_at(owned, branch).await?;
        let old = match &left {
            Some(left) if record.branch_is_ours => Expected::OwnAt(left),
            Some(left) => Expected::At(left),
            // In copy mode no worktree was made, so a branch of ours was not either.
            None if record.branch_is_ours && record.worktree.is_none() => Expected::New,
            None => Expected::At(record.begins()),
        };
        if let Expected::New = old
            && self.lives()
            && let Some(at) = refs::read(self.repo, &branch.full(), self.cancel).await?
            && at != *accepted.tip()
        {
            let why = format!(
                "branch `{branch}` was moved here, to {}, and the sandbox does not go on from there: what it commits stays beside that branch \
                 until you give the branch another name (`git branch -m` does)",
                at.short()
            );
            let reference = accepted.tip_ref();
            return Ok(Landing::Kept { reference, why });
        }
        // Its index could not follow, and the next commit there would take the new ones back.
        if let Some(path) = worktree
            && let Some(trap) = nested::trap_in(path).await?
        {
            return Ok(Landing::Kept {
                reference: accepted.tip_ref(),
                why: nested::waits_at(&path.join(trap)),
            });
        }
        let now = left.as_ref().unwrap_or(record.begins());
        self.about_to_move(owned, now, accepted)?;
        let landing = land::branch(self.repo, branch, old, worktree, accepted, self.cancel).await?;
        if let (Landing::Landed { tip, .. }, Some(path)) = (&landing, worktree) {
            let found = Worktree::find(self.repo, path, branch.clone(), record.base.clone())?;
            worktree::advance_index(self.repo, &found, tip, self.cancel).await?;
        }
        Ok(landing)
    }

    /// Notes where the branch will be: a death before the record says so must not make it a stranger's.
    fn about_to_move(
        &self,
        owned: &Owned,
        from: &Oid,
        accepted: &Accepted,
    ) -> Result<(), CollectError> {
        if self.lives() {
            let known = format!("{from}\n{}\n", accepted.tip());
            fsx::write_private(&owned.directory().join(LEFT_AT), known.as_bytes())?;
        }
        Ok(())
    }

    /// Where an earlier collecting left the branch. `None`: there was none, or somebody else has moved it since.
    async fn left_at(
        &self,
        owned: &Owned,
        branch: &BranchName,
    ) -> Result<Option<Oid>, CollectError> {
        let known = match fsx::read_bounded(&owned.directory().join(LEFT_AT), LEFT_AT_LIMIT) {
            Err(error) if error.is_not_found() => return Ok(None),
            read => read?,
        };
        let now = refs::read(self.repo, &branch.full(), self.cancel).await?;
        let mut known = known.split(|&byte| byte == b'\n');
        Ok(now.filter(|now| known.any(|line| line == now.as_str().as_bytes())))
    }

    /// What came home on the sandbox's own branch, and was rewritten inside since, keeps a name.
    pub(super) async fn keep_rewritten(
        &self,
        owned: &Owned,
        tip: &Oid,
    ) -> Result<Option<Beside>, CollectError> {
        let record = &owned.record;
        let Some(branch) = record.branch.as_ref().filter(|_| record.branch_is_ours) else {
            return Ok(None);
        };
        let Some(left) = self.left_at(owned, branch).await? else {
            return Ok(None);
        };
        if left == record.base || self.repo.is_ancestor(&left, tip, self.cancel).await? {
            return Ok(None);
        }
        let at = self.keep_extra(owned, &left).await?;
        let name = format!("{branch} as it was before it was rewritten");
        Ok(Some(Beside {
            names: vec![name],
            at,
            refused: None,
        }))
    }
}
