//! What a command on a sandbox is about, as its user names it.

use std::path::{Path, PathBuf};

use tokio_util::sync::CancellationToken;

use super::error::ManageError;
use super::tips::{self, Tip};
use crate::git::discovery::Start;
use crate::git::land::Landing;
use crate::git::refs;
use crate::git::{Git, Oid, Repository};
use crate::home::Home;
use crate::registry::{self, Entry, Record, belongs};
use crate::session::on_shelf::Unpushed;
use crate::session::shelf::{self, List};
use crate::session::unpushed::unpushed;

/// One sandbox of one repository, as a command names it.
#[derive(Debug, Clone)]
pub struct SandboxRef {
    /// Cofferdam's own directory.
    pub home: Home,
    /// Which git is asked, and how.
    pub git: Git,
    /// A directory in the repository.
    pub repository: PathBuf,
    /// The user's home, if they have one.
    pub caller_home: Option<PathBuf>,
    /// A sandbox name or id.
    pub name: String,
    /// Ends it early.
    pub cancel: CancellationToken,
}

/// What came home of a sandbox.
#[derive(Debug)]
pub(super) struct Work {
    /// One at least.
    pub tips: Vec<Tip>,
    /// Where it begins, in the history of all of them.
    pub base: Oid,
    /// References with commits that are on no branch: [`tips::beside`].
    pub beside: Vec<String>,
}

impl SandboxRef {
    /// The sandbox, and its repository in the checkout that it was made from; where that is gone, in the one that the command
    /// works in.
    pub(super) async fn find(&self) -> Result<(Repository, Entry), ManageError> {
        let (here, entry) = self.find_here().await?;
        let there = &entry.record.repository;
        if here.top.as_path() == there || !belongs::is_where_it_was_made(&entry.record) {
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
    pub(super) async fn tips(
        &self,
        repo: &Repository,
        record: &Record,
        running: bool,
    ) -> Result<Vec<Tip>, ManageError> {
        Ok(self.work(repo, record, running).await?.tips)
    }

    /// Where the sandbox's work begins. A branch of the shelf was somewhere when it was brought there.
    async fn base(
        &self,
        repo: &Repository,
        record: &Record,
        tips: &[Tip],
    ) -> Result<Oid, ManageError> {
        let (
            Some(branch),
            [
                Tip {
                    id,
                    on_branch: true,
                },
            ],
        ) = (record.shelf_branch(), tips)
        else {
            return Ok(record.base.clone());
        };
        // What cannot be read tells less.
        let brought = shelf::noted(&self.home, record, List::Brought).unwrap_or_default();
        let mut begins = record.base.clone();
        for commit in brought.commits(branch) {
            if repo.is_ancestor(commit, id, &self.cancel).await? {
                begins = commit.clone();
            }
        }
        Ok(begins)
    }

    /// What is committed on its branch on the shelf and nowhere here, where all that is here is `nothing`.
    pub(super) async fn refuse_unpushed(
        &self,
        repo: &Repository,
        record: &Record,
        nothing: bool,
    ) -> Result<Option<Unpushed>, ManageError> {
        if !record.lives_on() {
            return Ok(None);
        }
        let found = unpushed(&self.home, repo, record, &self.cancel).await;
        match found {
            Some(unpushed) if nothing => Err(ManageError::Unpushed {
                name: record.name.to_string(),
                unpushed,
            }),
            found => Ok(found),
        }
    }

    /// The same, with what is kept beside it.
    pub(super) async fn work(
        &self,
        repo: &Repository,
        record: &Record,
        running: bool,
    ) -> Result<Work, ManageError> {
        let refs = tips::refs_of(repo, std::iter::once(record), &self.cancel).await?;
        let tips = tips::tips_at(repo, &refs, record, &self.cancel).await?;
        let ends: Vec<Oid> = tips.iter().map(|tip| tip.id.clone()).collect();
        let beside = tips::beside(repo, &refs, record, &ends, &self.cancel).await?;
        let base = self.base(repo, record, &tips).await?;
        if !tips.is_empty() {
            return Ok(Work { tips, base, beside });
        }
        let own = tips::branch(record);
        let may_have_none =
            own.is_none() || record.landed.is_none() || record.shelf_branch().is_some();
        if record.lives_on() && may_have_none {
            // Somebody deleted its branch before something came home, and one that works in the checkout has none.
            let tips = vec![Tip {
                id: record.begins().clone(),
                on_branch: false,
            }];
            return Ok(Work { tips, base, beside });
        }
        let landed = record.outcome.as_ref().map(|outcome| &outcome.landing);
        if let (Some(Landing::Refused { why, pack }), []) = (landed, &beside[..]) {
            return Err(ManageError::Refused {
                name: record.name.to_string(),
                why: why.clone(),
                pack: pack.clone(),
                has_files: record.mode.owns_files() && record.has_files(&self.home),
            });
        }
        let tip = match tips::last_home(record) {
            Some(tip) => repo.resolve(tip.as_str(), &self.cancel).await?,
            None => None,
        };
        Err(ManageError::NoBranch {
            name: record.name.to_string(),
            branch: own.map_or_else(|| refs::own(record.id, refs::Own::Tip), ToString::to_string),
            running: running && !record.lives_on(),
            tip,
            beside,
        })
    }
}
