//! Why the registry cannot answer.

use std::path::{Path, PathBuf};

use crate::fsx::FileError;
use crate::names::{BranchName, Slug};

/// Why the registry cannot answer.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// Something could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// Its record is not one that this version reads: somebody else wrote there, or a later version.
    #[error("{} cannot be read as a sandbox record: {reason}", path.display())]
    Record {
        /// The record's file.
        path: PathBuf,
        /// Why, as a sentence fragment.
        reason: String,
    },
    /// The list is not as Cofferdam writes it.
    #[error("{} cannot be read as a list of directories: {reason}", path.display())]
    Written {
        /// The list's file.
        path: PathBuf,
        /// Why, as a sentence fragment.
        reason: String,
    },
    /// Another process holds its lock.
    #[error("sandbox `{0}` is in use by another cofferdam process")]
    InUse(Slug),
    /// It was there when it was looked for, and is gone since.
    #[error("sandbox `{0}` was cleaned up by another cofferdam process")]
    Gone(Slug),
    /// Word for word as the requirements have it (S4-E1).
    #[error("Sandbox '{0}' already exists. Please choose a different name.")]
    NameTaken(Slug),
    /// Another sandbox has the branch.
    #[error("branch `{branch}` is in use by sandbox `{by}`")]
    BranchTaken {
        /// Its short name.
        branch: BranchName,
        /// The sandbox that has it.
        by: Slug,
    },
    /// Word for word as the requirements have it (S4-E13).
    #[error("Sandbox '{name}' not found.")]
    Unknown {
        /// As it was given.
        name: String,
        /// Where it was looked for.
        repository: PathBuf,
        /// The newest sandbox whose branch has that name.
        on_branch: Option<Slug>,
        /// Where the newest sandbox of that name was made, in another repository.
        elsewhere: Option<Box<Path>>,
    },
}
