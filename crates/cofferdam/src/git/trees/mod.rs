//! The tree store: the files of commits, written once and shared by all sandboxes (decision 0012).
//!
//! A tree is a stack of layers, each an immutable directory that is whole or not there. The lowest has all files of
//! some tree; those above it what differs.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::lock::{Lock, lock};
use super::{Oid, Repository};
use crate::fsx::lock::Held;
use crate::fsx::{self, FileError};
use crate::home::Home;

mod about;
mod base;
mod delta;
mod error;
mod keep;
mod rebase;
mod store;
mod takes;
mod upper;
mod write;

pub use about::boot;
use delta::Candidate;
pub use error::TreeError;
pub use keep::{Trimmed, keep, taken};
pub use rebase::{full_stack, rebase};
pub use store::is_whole;
use store::{clean_tmp, trees_in, usable};
pub use upper::{Upper, is_too_deep, names};
pub use write::{Far, Tell};

/// More layers than this are never stacked: each costs every look-up of a name.
pub const LONGEST_STACK: usize = 8;
/// Who waits longer than this for another writer hears of it.
const SOON: Duration = Duration::from_millis(500);

/// A tree that is on disk. While this value lives, its layers stay.
#[derive(Debug)]
pub struct Stack {
    /// Directories of files, the uppermost first.
    pub layers: Vec<PathBuf>,
    /// An index that fits them: git's first look at the files reads none.
    pub index: PathBuf,
    _lease: Held,
}

/// The tree store of one repository.
#[derive(Debug, Clone)]
pub struct Trees {
    directory: PathBuf,
}

impl Trees {
    /// Opens the tree store of `repo` and makes it where it is missing.
    pub fn open(home: &Home, repo: &Repository) -> Result<Self, FileError> {
        let directory = home.trees(&repo.top);
        fsx::private_dir(&directory.join("tmp"))?;
        let origin = directory.join("repository");
        if !origin.exists() {
            fsx::write_private(&origin, repo.top.as_path().as_os_str().as_bytes())?;
        }
        Ok(Self { directory })
    }

    /// The files of `tree`, which are written where they are not there yet. A known tree costs no process. Waits while
    /// another process writes a tree of the same repository.
    pub async fn stack(
        &self,
        repo: &Repository,
        tree: &Oid,
        tell: &Tell,
        cancel: &CancellationToken,
    ) -> Result<Stack, TreeError> {
        if let Some(stack) = self.known(tree, cancel).await? {
            return Ok(stack);
        }
        let path = self.directory.join("write.lock");
        let soon = tokio::time::timeout(SOON, lock(&path, Lock::Exclusive, cancel));
        let writing = if let Ok(writing) = soon.await {
            writing?
        } else {
            tell.how_far(Far::Waits);
            lock(&path, Lock::Exclusive, cancel).await?
        };
        // Another process may have written it while this one waited.
        if let Some(stack) = self.known(tree, cancel).await? {
            return Ok(stack);
        }
        clean_tmp(&self.directory)?;
        // A power cut may have torn it.
        store::remove(&self.directory, tree)?;
        tell.how_far(Far::Begins);
        if let Err(error) = self.add(repo, tree, tell, cancel).await {
            // Where the disk is full, its user would miss that room; who is killed leaves it to the next writer.
            let _ = clean_tmp(&self.directory);
            return Err(error);
        }
        // Layers are removed only by who holds the writing lock, so the lease comes in time.
        let stack = self.known(tree, cancel).await?;
        drop(writing);
        stack.ok_or_else(|| {
            let gone = std::io::Error::other("the tree that was just written is gone");
            FileError::new("read", self.place(tree), gone).into()
        })
    }

    async fn known(
        &self,
        tree: &Oid,
        cancel: &CancellationToken,
    ) -> Result<Option<Stack>, TreeError> {
        let place = self.place(tree);
        if !place.is_dir() {
            return Ok(None);
        }
        let lease = lock(&self.directory.join("lease.lock"), Lock::Shared, cancel).await?;
        let Some(about) = usable(&self.directory, tree)? else {
            return Ok(None);
        };
        store::used_now(&place);
        about::sync_in_the_background(&place);
        let layers = std::iter::once(tree).chain(&about.below);
        Ok(Some(Stack {
            layers: layers.map(|one| self.place(one).join("files")).collect(),
            index: place.join("index"),
            _lease: Held::new(lease),
        }))
    }

    fn place(&self, tree: &Oid) -> PathBuf {
        self.directory.join(tree.as_str())
    }

    /// What a new layer may stand on, the newest first. However many there are, no more are read than it takes.
    fn candidates(&self) -> Result<Vec<Candidate>, FileError> {
        let mut all = Vec::new();
        for (tree, place) in trees_in(&self.directory)? {
            // One that goes away now is none.
            if let Ok(used) = place.metadata().and_then(|found| found.modified()) {
                all.push((used, tree, place));
            }
        }
        all.sort_unstable_by_key(|(used, ..)| std::cmp::Reverse(*used));
        let mut candidates = Vec::new();
        for (_, tree, place) in all {
            if candidates.len() == delta::TRIES {
                break;
            }
            if let Some(about) = usable(&self.directory, &tree)?
                && about.below.len() + 1 < LONGEST_STACK
                && about.files >= delta::FEW
            {
                candidates.push(Candidate { tree, place, about });
            }
        }
        Ok(candidates)
    }

    async fn add(
        &self,
        repo: &Repository,
        tree: &Oid,
        tell: &Tell,
        cancel: &CancellationToken,
    ) -> Result<(), TreeError> {
        let tmp = self.directory.join("tmp").join(tree.as_str());
        fsx::private_dir(&tmp)?;
        let candidates = self.candidates()?;
        let about = match delta::write(repo, tree, &tmp, &candidates, tell, cancel).await? {
            Some(about) => about,
            None => base::write(repo, tree, &tmp, tell, cancel).await?,
        };
        about.write(&tmp)?;
        let place = self.place(tree);
        fs::rename(&tmp, &place).map_err(|source| FileError::new("move", &tmp, source))?;
        Ok(())
    }
}
