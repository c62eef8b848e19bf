//! What people do with sandboxes after (or during) their runs: list, look, merge, delete, clean up.

mod delete;
pub(super) mod error;
mod gc;
mod half_merged;
mod list;
mod merge;
mod merged;
mod orphan;
mod show;
mod tips;

use std::path::PathBuf;

use tokio_util::sync::CancellationToken;

pub use crate::git::DiffStyle;
pub use delete::{DeleteOptions, Deleted, KeptBranch, bring_home, delete};
pub use error::{Lost, ManageError};
pub use gc::{GcReport, Recovered, gc};
pub(super) use gc::{give_up, recover_in};
pub(super) use half_merged::barred;
pub use half_merged::lacking;
pub use list::{State, Summary, list, unreadable};
pub use merge::{Merge, merge};
pub use merged::{Stays, stays};
pub use show::{diff, log};
pub(super) use tips::made_branch;

use self::tips::Tip;
use crate::git::discovery::Start;
use crate::git::land::Landing;
use crate::git::refs;
use crate::git::{Git, Repository};
use crate::home::Home;
use crate::registry::{self, Entry, Record};

/// One sandbox of one repository, as a command names it.
#[derive(Debug, Clone)]
pub struct Target {
    pub home: Home,
    pub git: Git,
    /// A directory in the repository.
    pub repository: PathBuf,
    pub caller_home: Option<PathBuf>,
    /// A sandbox name or id.
    pub name: String,
    pub cancel: CancellationToken,
}

impl Target {
    /// Whether there is such a sandbox to delete, in this repository or left over from one that is gone.
    pub async fn check(&self) -> Result<(), ManageError> {
        match self.find().await {
            Ok(_) => Ok(()),
            Err(why) => orphan::find(self, &why)?.map(drop).ok_or(why),
        }
    }

    /// The repository and the sandbox in it.
    pub(super) async fn find(&self) -> Result<(Repository, Entry), ManageError> {
        let home = self.caller_home.as_deref();
        let start = Start::find(&self.repository, &registry::workspaces(&self.home)?)?;
        let repository = Repository::discover(&self.git, &start, home, &self.cancel).await?;
        let entry = registry::find(&self.home, &repository.top, &self.name)?;
        Ok((repository, entry))
    }

    /// Where the sandbox's work ended: [`tips::tips`], one at least.
    async fn tips(
        &self,
        repo: &Repository,
        record: &Record,
        running: bool,
    ) -> Result<Vec<Tip>, ManageError> {
        let found = tips::tips(repo, record, &self.cancel).await?;
        if !found.is_empty() {
            return Ok(found);
        }
        let own = tips::branch(record);
        let landed = record.outcome.as_ref().map(|outcome| &outcome.landing);
        let tip = match (own, landed) {
            (Some(own), Some(Landing::Landed { branch, tip })) if own.as_str() == branch => {
                repo.resolve(tip.as_str(), &self.cancel).await?
            }
            _ => None,
        };
        Err(ManageError::NoBranch {
            name: record.name.to_string(),
            branch: own.map_or_else(|| refs::own(record.id, refs::Own::Tip), ToString::to_string),
            running,
            tip,
        })
    }
}
