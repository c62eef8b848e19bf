//! Files that an agent left in the user's own checkout and whose commits could not land there: the
//! user committed meanwhile, or another sandbox did. A merge finds them in its way. Where one is
//! exactly what the agent's tip has, it is safe in that commit, and gives way. So does a file that is new to git and the
//! same in the commit that comes.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use tokio_util::sync::CancellationToken;

use super::LandError;
use super::index::{Changes, State, collides, remove_temporary};
use super::journal::Move;
use super::restore::Found;
use crate::git::{GitError, Repository};
use crate::process::Input;

/// Where more are new to git, all of them are in the way: each is read by itself.
const MOST_SAME: usize = 500;

impl Move {
    /// Takes such files for the new commit's in `index`, so that nothing else is taken for a local
    /// change of them. Returns those whose content is still to be brought to the new commit's.
    pub(super) async fn take_leftovers(
        &self,
        repo: &Repository,
        index: &Path,
        changes: &Changes,
        cancel: &CancellationToken,
    ) -> Result<Vec<Vec<u8>>, LandError> {
        let Some((base, tip)) = &self.lying else {
            return Ok(Vec::new());
        };
        let mut agents = self.clone();
        (agents.old, agents.new) = (base.clone(), tip.clone());
        let agents = agents.changes(repo, cancel).await?;
        let staged = self.staged(repo, index, cancel).await?;
        let candidates: BTreeMap<&Vec<u8>, &State> = agents
            .iter()
            .filter(|(path, _)| changes.contains_key(*path) && !staged.contains_key(*path))
            .collect();
        if candidates.is_empty() {
            return Ok(Vec::new());
        }
        let others = self.unlike_tip(repo, index, &candidates, cancel).await?;
        let lying: Vec<(&Vec<u8>, &State)> = changes
            .iter()
            .filter(|(path, _)| candidates.contains_key(*path) && !others.contains(*path))
            .collect();
        self.set_entries(repo, index, &lying, cancel).await?;
        let rest = lying
            .into_iter()
            .filter(|(path, new)| new.is_some() && candidates.get(path) != Some(new));
        Ok(rest.map(|(path, _)| path.clone()).collect())
    }

    /// Takes files that git does not track (`tracked`: what it does in `index`), and that are exactly what the new commit has,
    /// for that commit's: nothing of them is overwritten. They came from where the agent got them, `--copy` or a setup.
    pub(super) async fn take_same(
        &self,
        repo: &Repository,
        index: &Path,
        changes: &Changes,
        tracked: &mut BTreeSet<Vec<u8>>,
        cancel: &CancellationToken,
    ) -> Result<(), LandError> {
        let top = self.top();
        let lies_there = |path: &[u8]| {
            std::fs::symlink_metadata(top.join(OsStr::from_bytes(path)))
                .is_ok_and(|found| !found.is_dir())
        };
        let mut untracked: BTreeMap<&Vec<u8>, &State> = changes
            .iter()
            .filter(|(path, state)| {
                state.is_some()
                    && !tracked.contains(*path)
                    && !self.is_beneath_another(path)
                    && lies_there(path)
            })
            .collect();
        // A sparse checkout would leave them out, and take them away.
        let is_sparse = || self.git_dir().join("info/sparse-checkout").exists();
        if untracked.is_empty() || untracked.len() > MOST_SAME || is_sparse() {
            return Ok(());
        }
        // What somebody staged there, its removal too, is theirs to end. What they staged below or above leaves no room.
        let staged = self.staged(repo, index, cancel).await?;
        let theirs = staged.iter().filter(|(_, present)| **present);
        let theirs: BTreeSet<&[u8]> = theirs.map(|(path, _)| path.as_slice()).collect();
        untracked.retain(|path, _| !staged.contains_key(*path) && !collides(path, &theirs));
        let unlike = self.unlike(repo, index, &untracked, cancel).await?;
        untracked.retain(|path, _| !unlike.contains(*path));
        let mut same: Vec<(&Vec<u8>, &State)> = Vec::new();
        for (path, state) in untracked {
            // To git two files are one where it makes the same of both: line ends, `$Id$`. These bytes must come back from it.
            if self.found(repo, path, state, cancel).await? == Found::Whole {
                same.push((path, state));
            }
        }
        self.set_entries(repo, index, &same, cancel).await?;
        tracked.extend(same.into_iter().map(|(path, _)| path.clone()));
        Ok(())
    }

    /// Of the paths: those at which the working tree is not as the tip.
    async fn unlike_tip(
        &self,
        repo: &Repository,
        index: &Path,
        candidates: &BTreeMap<&Vec<u8>, &State>,
        cancel: &CancellationToken,
    ) -> Result<BTreeSet<Vec<u8>>, LandError> {
        let top = self.top();
        let mut unlike = BTreeSet::new();
        let mut present = BTreeMap::new();
        for (&path, &state) in candidates {
            if state.is_some() {
                present.insert(path, state);
            } else if std::fs::symlink_metadata(top.join(OsStr::from_bytes(path))).is_ok() {
                unlike.insert(path.clone());
            }
        }
        unlike.extend(self.unlike(repo, index, &present, cancel).await?);
        Ok(unlike)
    }

    /// Of the paths: those that are not on disk as these states say. An index beside `index` is made for it.
    pub(super) async fn unlike(
        &self,
        repo: &Repository,
        index: &Path,
        present: &BTreeMap<&Vec<u8>, &State>,
        cancel: &CancellationToken,
    ) -> Result<BTreeSet<Vec<u8>>, LandError> {
        let mut unlike = BTreeSet::new();
        let present: Vec<(&Vec<u8>, &State)> = present
            .iter()
            .map(|(&path, &state)| (path, state))
            .collect();
        let mut own = index.as_os_str().to_owned();
        own.push(".tip");
        let own = Path::new(&own);
        remove_temporary(own)?;
        let compared = async {
            self.set_entries(repo, own, &present, cancel).await?;
            let paths: Vec<&[u8]> = present.iter().map(|(path, _)| path.as_slice()).collect();
            for some in paths.chunks(500) {
                unlike.extend(self.modified(repo, Some(own), some, cancel).await?);
            }
            Ok::<_, LandError>(unlike)
        }
        .await;
        remove_temporary(own)?;
        compared
    }

    /// Writes the files of these paths as `index` has them, over what is there.
    pub(super) async fn write_files(
        &self,
        repo: &Repository,
        index: &Path,
        paths: &[Vec<u8>],
    ) -> Result<(), GitError> {
        if paths.is_empty() {
            return Ok(());
        }
        self.command(repo)
            .env("GIT_INDEX_FILE", index)
            .args(["checkout-index", "-f", "-u", "-z", "--stdin"])
            .input(Input::Bytes(paths.join(&0)))
            .run(&CancellationToken::new())
            .await?;
        Ok(())
    }
}
