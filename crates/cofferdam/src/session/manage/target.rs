//! What a command on a sandbox is about, as its user names it.

use std::path::PathBuf;

use tokio_util::sync::CancellationToken;

use super::error::ManageError;
use super::tips::{self, Tip};
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
    /// The repository and the sandbox in it.
    pub(super) async fn find(&self) -> Result<(Repository, Entry), ManageError> {
        let home = self.caller_home.as_deref();
        let start = Start::find(&self.repository, &registry::workspaces(&self.home)?)?;
        let repository = Repository::discover(&self.git, &start, home, &self.cancel).await?;
        let entry = registry::find(&self.home, &repository.top, &self.name)?;
        Ok((repository, entry))
    }

    /// Where the sandbox's work ended: [`tips::tips`], one at least.
    pub(super) async fn tips(
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
