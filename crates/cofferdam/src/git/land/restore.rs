//! A checkout whose files git could not bring to the new commit, for want of space or of a right: what it
//! had written is taken back, and only that.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use tokio_util::sync::CancellationToken;

use super::LandError;
use super::index::{Changes, State};
use super::journal::Move;
use crate::fsx::Context;
use crate::git::{GitError, Repository};
use crate::process::Sink;
use crate::text::printable;

/// Larger files are compared by git alone.
const MOST: usize = 1 << 30;

/// What lies at a path that was to become a commit's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    Missing,
    /// The commit's content.
    Whole,
    /// The beginning of it: who wrote it did not come to the end.
    CutOff,
    Other,
}

impl Move {
    /// Compares what is on disk with what git would write there.
    pub(super) async fn found(
        &self,
        repo: &Repository,
        path: &[u8],
        state: &State,
        cancel: &CancellationToken,
    ) -> Result<Found, GitError> {
        let file = self.top().join(OsStr::from_bytes(path));
        if self.is_beneath_another(path) {
            return Ok(Found::Other);
        }
        let Ok(on_disk) = std::fs::symlink_metadata(&file) else {
            return Ok(Found::Missing);
        };
        let Some((mode, id)) = state else {
            return Ok(Found::Other);
        };
        if mode == "120000" && on_disk.is_symlink() {
            let content = self.blob(repo, path, id, cancel).await?;
            let same = std::fs::read_link(&file)
                .is_ok_and(|leads| leads.as_os_str().as_bytes() == content);
            return Ok(if same { Found::Whole } else { Found::Other });
        }
        if !mode.starts_with("100") || !on_disk.is_file() || on_disk.len() > MOST as u64 {
            return Ok(Found::Other);
        }
        let content = self.blob(repo, path, id, cancel).await?;
        let Ok(there) = std::fs::read(&file) else {
            return Ok(Found::Other);
        };
        Ok(match content.strip_prefix(there.as_slice()) {
            Some([]) => Found::Whole,
            Some(_) => Found::CutOff,
            None => Found::Other,
        })
    }

    /// What lies at a path whose content git does not tell from the commit's.
    fn kind(&self, path: &[u8], state: &State) -> Found {
        let file = self.top().join(OsStr::from_bytes(path));
        if self.is_beneath_another(path) {
            return Found::Other;
        }
        let Ok(on_disk) = std::fs::symlink_metadata(&file) else {
            return Found::Missing;
        };
        match state {
            Some((mode, _)) if mode == "120000" && on_disk.is_symlink() => Found::Whole,
            Some((mode, _)) if mode.starts_with("100") && on_disk.is_file() => Found::Whole,
            _ => Found::Other,
        }
    }

    /// Whether something else lies in the place of a directory on the way: behind a symlink are files of another
    /// place, and git would remove what is no directory to make one.
    pub(super) fn is_beneath_another(&self, path: &[u8]) -> bool {
        let top = self.top();
        let ends = path.iter().enumerate().filter(|&(_, &byte)| byte == b'/');
        ends.map(|(at, _)| top.join(OsStr::from_bytes(&path[..at])))
            .any(|above| std::fs::symlink_metadata(above).is_ok_and(|found| !found.is_dir()))
    }

    /// As git would write it here, with the line ends of this checkout.
    async fn blob(
        &self,
        repo: &Repository,
        path: &[u8],
        id: &str,
        cancel: &CancellationToken,
    ) -> Result<Vec<u8>, GitError> {
        let mut option = OsStr::new("--path=").to_owned();
        option.push(OsStr::from_bytes(path));
        let call = self.command(repo).args(["cat-file", "--filters"]);
        let call = call.arg(option).arg(id).output(Sink::Capture(MOST));
        Ok(call.run(cancel).await?.stdout)
    }

    /// Brings the changed paths back to what `index` has, in which they are still the old commit's. Only
    /// what is missing or is the new commit's is ours to touch; what is cut off as well, but at the paths in `whole`; and
    /// nothing at the paths in `theirs`.
    /// Returns, printable, what is not as before.
    pub(super) async fn restore(
        &self,
        repo: &Repository,
        index: &Path,
        changes: &Changes,
        whole: &BTreeSet<Vec<u8>>,
        theirs: &BTreeSet<Vec<u8>>,
    ) -> Result<Vec<String>, LandError> {
        match self.restore_all(repo, index, changes, whole, theirs).await {
            Err(_) => {
                self.make_room(repo, index, changes, theirs).await?;
                self.restore_all(repo, index, changes, whole, theirs).await
            }
            restored => restored,
        }
    }

    async fn restore_all(
        &self,
        repo: &Repository,
        index: &Path,
        changes: &Changes,
        whole: &BTreeSet<Vec<u8>>,
        theirs: &BTreeSet<Vec<u8>>,
    ) -> Result<Vec<String>, LandError> {
        let cancel = CancellationToken::new();
        self.refresh(repo, index, &cancel).await?;
        let tracked = self.tracked(repo, index, &cancel).await?;
        let top = self.top();
        let (mut back, mut gone) = (Vec::new(), Vec::new());
        // All are compared before one is changed: among them may be the attributes that say how git writes the others.
        let mut differing = self.differing(repo, index, changes, &cancel).await?;
        differing.retain(|path| !theirs.contains(path));
        let present: BTreeMap<&Vec<u8>, &State> = (differing.iter())
            .filter_map(|path| Some((path, changes.get(path).filter(|state| state.is_some())?)))
            .collect();
        // By git, with the rights that a file has and in one call.
        let unlike = self.unlike(repo, index, &present, &cancel).await?;
        for path in differing {
            let Some(state) = changes.get(&path) else {
                continue;
            };
            let found = if unlike.contains(&path) {
                match self.found(repo, &path, state, &cancel).await? {
                    // Only its rights are others.
                    Found::Whole => Found::Other,
                    found => found,
                }
            } else {
                self.kind(&path, state)
            };
            let ours = match found {
                Found::Missing | Found::Whole => true,
                Found::CutOff => !whole.contains(&path),
                Found::Other => false,
            };
            if !tracked.contains(&path) {
                if ours && found != Found::Missing {
                    gone.push(path);
                }
            } else if ours || state.is_none() {
                back.push(path);
            }
        }
        for path in gone {
            self.remove(&path)?;
        }
        // Where the new commit has nothing, what lay there may have been another path of its own until now.
        back.retain(|path| {
            let is_free = || {
                let file = top.join(OsStr::from_bytes(path));
                !self.is_beneath_another(path) && std::fs::symlink_metadata(file).is_err()
            };
            changes.get(path).is_some_and(Option::is_some) || is_free()
        });
        // Whatever it cannot write is found below.
        let _ = self.write_files(repo, index, &back).await;
        self.refresh(repo, index, &cancel).await?;
        let left = self.differing(repo, index, changes, &cancel).await?;
        let left: BTreeSet<&Vec<u8>> = left.iter().chain(theirs).collect();
        let left = left.iter().map(|path| String::from_utf8_lossy(path));
        Ok(left.map(|path| printable(&path)).collect())
    }

    /// On a full disk git cannot even write an index: what is new and ours goes first, each compared by itself. Attributes
    /// stay, because they say how the others are written.
    async fn make_room(
        &self,
        repo: &Repository,
        index: &Path,
        changes: &Changes,
        theirs: &BTreeSet<Vec<u8>>,
    ) -> Result<(), LandError> {
        let cancel = CancellationToken::new();
        let tracked = self.tracked(repo, index, &cancel).await?;
        for (path, state) in changes {
            let stays = tracked.contains(path) || theirs.contains(path);
            if stays || path.ends_with(b".gitattributes") {
                continue;
            }
            match self.found(repo, path, state, &cancel).await? {
                Found::Whole | Found::CutOff => self.remove(path)?,
                Found::Missing | Found::Other => {}
            }
        }
        Ok(())
    }

    /// With the directories that hold nothing else.
    fn remove(&self, path: &[u8]) -> Result<(), LandError> {
        let top = self.top();
        let file = top.join(OsStr::from_bytes(path));
        std::fs::remove_file(&file).context("remove", &file)?;
        for above in file.ancestors().skip(1).take_while(|above| **above != top) {
            if std::fs::remove_dir(above).is_err() {
                break;
            }
        }
        Ok(())
    }

    /// Of the changed paths: those that are not on disk as `index` has them.
    async fn differing(
        &self,
        repo: &Repository,
        index: &Path,
        changes: &Changes,
        cancel: &CancellationToken,
    ) -> Result<Vec<Vec<u8>>, LandError> {
        let tracked = self.tracked(repo, index, cancel).await?;
        let top = self.top();
        let is_file = |path: &[u8]| {
            !self.is_beneath_another(path)
                && std::fs::symlink_metadata(top.join(OsStr::from_bytes(path)))
                    .is_ok_and(|found| !found.is_dir())
        };
        let mut found = self.modified(repo, Some(index), &[], cancel).await?;
        found.retain(|path| changes.contains_key(path));
        let added = changes.keys().filter(|path| !tracked.contains(*path));
        found.extend(added.filter(|path| is_file(path)).cloned());
        Ok(found.into_iter().collect())
    }
}
