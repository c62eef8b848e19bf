//! Which branch a sandbox works on, and from which commit.

use super::error::PlanError;
use crate::git::{Head, Oid, Repository, worktree};
use crate::names::{BranchName, Slug};
use crate::registry::Strategy;
use crate::sandbox::BranchStrategy;
use crate::session::error::RunErrorKind;
use crate::session::holder::Holder;
use crate::session::options::{Caller, SessionOptions};

#[derive(Debug)]
pub(super) struct Branches {
    pub(super) strategy: Strategy,
    pub(super) branch: Option<BranchName>,
    pub(super) base: Oid,
    pub(super) exists: bool,
    pub(super) ours: bool,
}

/// Names are taken, held and checked here; nothing is made.
pub(super) async fn branches(
    caller: &Caller,
    options: &SessionOptions,
    repository: &Repository,
    name: &Slug,
) -> Result<Branches, RunErrorKind> {
    let cancel = &caller.cancel;
    match options.sandbox.strategy() {
        BranchStrategy::Head => {
            if !options.copy.is_empty() {
                return Err(PlanError::CopyWithHead.into());
            }
            Ok(Branches {
                strategy: Strategy::Head,
                branch: repository.head.branch().cloned(),
                base: repository.head.commit().clone(),
                exists: true,
                ours: false,
            })
        }
        BranchStrategy::MergeToHead => {
            let Head::Branch {
                name: target,
                commit,
            } = &repository.head
            else {
                return Err(PlanError::DetachedTarget.into());
            };
            let branch: BranchName = format!("cofferdam/{name}")
                .parse()
                .map_err(PlanError::from)?;
            // Only a name that the user chose can meet an old branch.
            if options.name.is_some() && repository.resolve(&branch.full(), cancel).await?.is_some()
            {
                return Err(PlanError::BranchTaken(branch).into());
            }
            Ok(Branches {
                strategy: Strategy::MergeToHead {
                    target: target.clone(),
                },
                branch: Some(branch),
                base: commit.clone(),
                exists: false,
                ours: true,
            })
        }
        BranchStrategy::Branch { branch, base } => {
            if repository.head.branch() == Some(&branch) {
                let at = repository.top.as_path().to_owned();
                return Err(PlanError::CheckedOut { branch, at }.into());
            }
            if let Some(holder) = Holder::of(&caller.home, &repository.top, &branch)? {
                return Err(PlanError::BranchHeld { branch, holder }.into());
            }
            worktree::check_free(repository, &branch)?;
            let tip = repository.resolve(&branch.full(), cancel).await?;
            let (start, exists) = match (tip, base) {
                (Some(tip), _) => (tip, true),
                (None, None) => (repository.head.commit().clone(), false),
                (None, Some(base)) => {
                    let found = repository.resolve(&base, cancel).await?;
                    (found.ok_or(PlanError::UnknownBase(base))?, false)
                }
            };
            Ok(Branches {
                strategy: Strategy::Branch,
                branch: Some(branch),
                base: start,
                exists,
                ours: !exists,
            })
        }
    }
}
