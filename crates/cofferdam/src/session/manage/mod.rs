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

use std::path::{Path, PathBuf};

use tokio_util::sync::CancellationToken;

pub use crate::git::DiffStyle;
pub use delete::{DeleteOptions, Deleted, KeptBranch, bring_home, delete};
pub use error::{Lost, ManageError};
pub use gc::{GcReport, Recovered, gc};
pub(super) use gc::{give_up, recover_in};
pub(super) use half_merged::barred;
pub use half_merged::lacking;
pub use list::{State, Summary, ask, list, unreadable};
pub use merge::{Merge, merge};
pub use merged::{Stays, stays};
pub use show::{diff, log};
pub(super) use tips::made_branch;

use self::tips::Tip;
use super::collect;
use crate::git::discovery::Start;
use crate::git::land::Landing;
use crate::git::refs;
use crate::git::{Git, Repository};
use crate::home::Home;
use crate::registry::{self, Entry, Owned, Record, RegistryError};

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

/// The right to change what a sandbox's record says: of one that lives on, a command at a time has it; of another, who
/// owns it.
async fn take(
    home: &Home,
    record: Record,
    cancel: &CancellationToken,
) -> Result<Owned, RegistryError> {
    if !record.lives_on() {
        return Owned::adopt(home, record);
    }
    let name = record.name.clone();
    let turn = Owned::turn(home, &record, cancel).await?;
    turn.ok_or(RegistryError::InUse(name))
}

/// What would be lost with a sandbox that lives on and was just collected, as an error that says so: uncommitted work in
/// its worktree, and what did not come home.
pub(super) async fn at_risk(
    home: &Home,
    repo: &Repository,
    record: &Record,
    caller_home: Option<&Path>,
    cancel: &CancellationToken,
) -> Result<Option<ManageError>, ManageError> {
    let name = record.name.to_string();
    let directory = home.sandbox(record.id);
    if let Some(path) = delete::uncommitted_in(home, repo, record, caller_home, cancel).await? {
        return Ok(Some(ManageError::UncommittedWork { name, path }));
    }
    Ok(
        collect::sets_aside(&directory).then_some(ManageError::KeptWork {
            name,
            path: directory,
        }),
    )
}

impl Target {
    /// Whether there is such a sandbox to delete, in this repository or left over from one that is gone.
    pub async fn check(&self) -> Result<(), ManageError> {
        match self.find().await {
            Ok(_) => Ok(()),
            Err(why) => orphan::find(self, &why)?.map(drop).ok_or(why),
        }
    }

    /// The sandbox, and its repository in the checkout that it was made from.
    pub(super) async fn find(&self) -> Result<(Repository, Entry), ManageError> {
        let (here, entry) = self.find_here().await?;
        let there = &entry.record.repository;
        if here.top.as_path() == there {
            return Ok((here, entry));
        }
        Ok((self.discover(there).await?, entry))
    }

    /// The sandbox, and its repository in the checkout that the command works in.
    pub(super) async fn find_here(&self) -> Result<(Repository, Entry), ManageError> {
        let repository = self.discover(&self.repository).await?;
        let entry = registry::find(&self.home, &repository.top, &self.name)?;
        Ok((repository, entry))
    }

    async fn discover(&self, directory: &Path) -> Result<Repository, ManageError> {
        let home = self.caller_home.as_deref();
        let start = Start::find(directory, &registry::workspaces(&self.home)?)?;
        Ok(Repository::discover(&self.git, &start, home, &self.cancel).await?)
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
