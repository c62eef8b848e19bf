//! Why the registry cannot answer.

use std::path::{Path, PathBuf};

use crate::fsx::FileError;
use crate::names::{BranchName, Slug};

/// Why the registry cannot answer.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{} cannot be read as a sandbox record: {reason}", path.display())]
    Record { path: PathBuf, reason: String },
    #[error("{} cannot be read as a list of directories: {reason}", path.display())]
    Written { path: PathBuf, reason: String },
    #[error("sandbox `{0}` is in use by another cofferdam process")]
    InUse(Slug),
    #[error("sandbox `{0}` was cleaned up by another cofferdam process")]
    Gone(Slug),
    /// Word for word as the requirements have it (S4-E1).
    #[error("Sandbox '{0}' already exists. Please choose a different name.")]
    NameTaken(Slug),
    #[error("branch `{branch}` is in use by sandbox `{by}`")]
    BranchTaken { branch: BranchName, by: Slug },
    /// Word for word as the requirements have it (S4-E13).
    #[error("Sandbox '{name}' not found.")]
    Unknown {
        name: String,
        repository: PathBuf,
        /// The newest sandbox whose branch has that name.
        on_branch: Option<Slug>,
        /// Where the newest sandbox of that name was made, in another repository.
        elsewhere: Option<Box<Path>>,
    },
}
