//! After a death between the swap of the branch and its checkout. By now the user may have committed on
//! top, switched to another branch or edited files, so only what is still as the old commit had it and
//! would undo the new one is brought up: three-way by path, whatever is checked out.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use tokio_util::sync::CancellationToken;

use super::LandError;
use super::checkout::Moved;
use super::index::{Changes, State, copy_index, remove_temporary};
use super::journal::{Files, Move};
use super::restore::Found;
use crate::fsx::Context;
use crate::git::refs::{self, Own};
use crate::git::{GitError, Oid, Repository};

impl Move {
    /// Whether the branch has the new commit, whatever came on top and whatever is checked out.
    pub(super) async fn has_landed(&self, repo: &Repository) -> Result<bool, LandError> {
        let none = CancellationToken::new();
        match refs::read(&self.in_worktree(repo), &self.reference, &none).await? {
            Some(at) if at == self.new => Ok(true),
            Some(at) => Ok(repo.is_ancestor(&self.new, &at, &none).await?),
            None => Ok(false),
        }
    }

    /// Brings up index and files where they are behind. The caller holds the index lock.
    pub(super) async fn catch_up(
        &self,
        repo: &Repository,
        index: &Path,
        cancel: &CancellationToken,
    ) -> Result<Moved, LandError> {
        let (name, Some(head)) = self.head(repo).await? else {
            let why = "nothing is committed on what is checked out".to_owned();
            return Err(LandError::HalfDone { why });
        };
        let all = self.changes(repo, cancel).await?;
        let elsewhere = self.between(repo, (&self.new, &head), cancel).await?;
        let mut behind = all.clone();
        behind.retain(|path, _| !elsewhere.contains_key(path));
        let to = self.git_dir().join("index");
        copy_index(&to, index)?;
        match self.files {
            Files::AreThere => self.bring_up_index(repo, index, &behind, cancel).await?,
            Files::Update => self.bring_up_files(repo, index, &behind, cancel).await?,
        }
        std::fs::rename(index, &to).context("replace", &to)?;
        if name == self.reference && head != self.new {
            let changed = self.between(repo, (&self.old, &head), cancel).await?;
            if all.keys().any(|path| !changed.contains_key(path)) {
                // Git commits the index as it is, and after a death that was still the old one.
                let (new, branch) = (self.new.short(), self.branch());
                return Ok(Moved::GrownOver(format!(
                    "it landed as {new}, and what was committed on top before its files were there may undo it: \
                     see `git diff {new} {branch}`"
                )));
            }
        }
        Ok(Moved::Done {
            changed_outside: Vec::new(),
        })
    }

    async fn between(
        &self,
        repo: &Repository,
        (from, to): (&Oid, &Oid),
        cancel: &CancellationToken,
    ) -> Result<Changes, GitError> {
        let mut other = self.clone();
        (other.old, other.new) = (from.clone(), to.clone());
        other.changes(repo, cancel).await
    }

    /// What the user staged is in both trees, so git leaves it alone.
    async fn bring_up_files(
        &self,
        repo: &Repository,
        index: &Path,
        behind: &Changes,
        cancel: &CancellationToken,
    ) -> Result<(), LandError> {
        let mut rest = self.take_leftovers(repo, index, behind, cancel).await?;
        rest.extend(self.skip_done_files(repo, index, behind, cancel).await?);
        let mut wanted = index.as_os_str().to_owned();
        wanted.push(".wanted");
        let wanted = Path::new(&wanted);
        let trees = async {
            copy_index(index, wanted)?;
            self.bring_up_index(repo, wanted, behind, cancel).await?;
            let from = self.tree_of(repo, index, cancel).await?;
            Ok::<_, LandError>((from, self.tree_of(repo, wanted, cancel).await?))
        }
        .await;
        remove_temporary(wanted)?;
        let (from, to) = trees?;
        // From here on a cancel is too late: half a landing is worse than a whole one.
        let none = CancellationToken::new();
        self.two_way(repo, index, (&from, &to), false, &none)
            .await
            .map_err(|why| LandError::HalfDone { why })?;
        Ok(self.write_files(repo, index, &rest).await?)
    }

    async fn tree_of(
        &self,
        repo: &Repository,
        index: &Path,
        cancel: &CancellationToken,
    ) -> Result<String, GitError> {
        self.command(repo)
            .env("GIT_INDEX_FILE", index)
            .args(["write-tree", "--missing-ok"])
            .line(cancel)
            .await
    }

    /// Files that are no longer the old commit's are taken as done: what is in them stays, whoever wrote
    /// it. Returns those that a death or a full disk cut off, which are to be written again.
    async fn skip_done_files(
        &self,
        repo: &Repository,
        index: &Path,
        changes: &Changes,
        cancel: &CancellationToken,
    ) -> Result<Vec<Vec<u8>>, LandError> {
        self.refresh(repo, index, cancel).await?;
        let modified = self.modified(repo, Some(index), &[], cancel).await?;
        let tracked = self.tracked(repo, index, cancel).await?;
        let staged = self.staged(repo, index, cancel).await?;
        let top = self.top();
        let done: BTreeMap<&Vec<u8>, &State> = changes
            .iter()
            .filter(|(path, _)| {
                let there = std::fs::symlink_metadata(top.join(OsStr::from_bytes(path)))
                    .is_ok_and(|found| !found.is_dir());
                let is_new = !tracked.contains(*path);
                !staged.contains_key(*path) && there && (is_new || modified.contains(*path))
            })
            .collect();
        let mut torn = Vec::new();
        for (path, state) in &done {
            if self.found(repo, path, state, cancel).await? == Found::CutOff {
                torn.push((*path).clone());
            }
        }
        let done: Vec<(&Vec<u8>, &State)> = done.into_iter().collect();
        self.set_entries(repo, index, &done, cancel).await?;
        self.refresh(repo, index, cancel).await?;
        Ok(torn)
    }

    /// What holds the commits of a landing that did not happen: our own reference, a branch, or else
    /// nothing but the commit itself.
    pub(super) async fn holder(
        &self,
        repo: &Repository,
        cancel: &CancellationToken,
    ) -> Result<String, LandError> {
        let own = refs::own(self.id, Own::Tip);
        if repo.resolve(&own, cancel).await?.is_some() {
            return Ok(own);
        }
        // A merge commit that was made for the landing is on no branch; what it merged is.
        for commit in [self.new.to_string(), format!("{}^2", self.new)] {
            let done = repo
                .command()
                .args(["for-each-ref", "--count=1", "--format=%(refname:short)"])
                .args(["--contains", &commit, "refs/heads"])
                .answers(&[128, 129])
                .run(cancel)
                .await?;
            if let Some(name) = String::from_utf8_lossy(&done.stdout).lines().next() {
                return Ok(name.to_owned());
            }
        }
        Ok(self.new.to_string())
    }
}
