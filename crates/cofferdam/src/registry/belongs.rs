//! Which repository a sandbox belongs to. It was made from one checkout of it, which may be gone while the repository is
//! still there: linked worktrees come and go.

use std::path::{Path, PathBuf};

use super::record::{Record, Strategy};
use crate::git::discovery;

/// What the record says of it. Where the agent worked in the checkout itself nothing can land without that one.
fn kept(record: &Record) -> Option<&Path> {
    let kept = record.common_dir.as_deref();
    kept.filter(|_| record.strategy != Strategy::Head)
}

/// The directory that all checkouts of a sandbox's repository share. A checkout of another repository may be at the place of
/// the one that it was made from, so what the record says comes first, as long as that is there.
fn shared(record: &Record) -> Option<PathBuf> {
    let kept = kept(record).filter(|kept| kept.is_dir());
    kept.map(Path::to_owned)
        .or_else(|| discovery::shared(&record.repository))
}

/// Whether the checkout that a sandbox was made from is still one of its repository.
pub fn is_where_it_was_made(record: &Record) -> bool {
    let there = discovery::shared(&record.repository);
    there.is_some() && there == shared(record)
}

/// A checkout of a sandbox's repository: the one that it was made from, else one that is left. `None`: there is none.
pub fn checkout(record: &Record) -> Option<PathBuf> {
    let shared = shared(record)?;
    let made = std::iter::once(record.repository.clone());
    let mut all = made.chain(discovery::checkouts(&shared));
    all.find(|top| discovery::shared(top).as_ref() == Some(&shared))
}

/// Whether a sandbox's repository is gone from its place. A disk that cannot be asked has not lost it.
pub fn is_gone(record: &Record) -> bool {
    let gone = |path: &Path| {
        path.symlink_metadata().is_err_and(|error| {
            use std::io::ErrorKind::{NotADirectory, NotFound};
            matches!(error.kind(), NotFound | NotADirectory)
        })
    };
    gone(&record.repository.join(".git")) && kept(record).is_none_or(gone)
}

/// Which sandboxes are of one repository, whichever of its checkouts they were made from.
pub(crate) struct SameRepository<'a> {
    top: &'a Path,
    shared: Option<PathBuf>,
}

impl<'a> SameRepository<'a> {
    pub(crate) fn new(top: &'a Path) -> Self {
        Self {
            top,
            shared: discovery::shared(top),
        }
    }

    pub(super) fn has(&self, record: &Record) -> bool {
        self.is(&record.repository, shared(record))
    }

    /// Whether `other` is a checkout of it.
    pub(crate) fn is_at(&self, other: &Path) -> bool {
        self.is(other, discovery::shared(other))
    }

    fn is(&self, top: &Path, shared: Option<PathBuf>) -> bool {
        match (&self.shared, shared) {
            (Some(ours), Some(theirs)) => *ours == theirs,
            _ => self.top == top,
        }
    }
}
