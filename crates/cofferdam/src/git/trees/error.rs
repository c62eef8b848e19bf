//! What goes wrong with trees on disk.

use crate::fsx::FileError;
use crate::git::GitError;
use crate::git::index::IndexError;
use crate::git::lock::LockError;

/// Why a tree could not be made ready.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    /// The caller cancelled it.
    #[error("cancelled while a tree was written")]
    Cancelled,
    /// Something could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// Git could not say what is in it.
    #[error(transparent)]
    Git(#[from] GitError),
    /// Its index could not be made.
    #[error(transparent)]
    Index(#[from] IndexError),
}

impl From<LockError> for TreeError {
    fn from(error: LockError) -> Self {
        match error {
            LockError::Cancelled => Self::Cancelled,
            LockError::File(error) => error.into(),
        }
    }
}
