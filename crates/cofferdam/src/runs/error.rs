//! Why a run is not found, or its record not kept.

use std::path::PathBuf;

use crate::fsx::FileError;
use crate::run_id::RunId;

#[derive(Debug, thiserror::Error)]
pub enum RunsError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("the record {} cannot be read: {why}", path.display())]
    Unreadable { path: PathBuf, why: String },
    /// By an id, or by the name of its sandbox.
    #[error("no run `{name}` is known in {}", repository.display())]
    Unknown {
        /// Printable.
        name: String,
        repository: PathBuf,
    },
    #[error("nothing was kept of a conversation in run {0}")]
    NoConversation(RunId),
    /// What is exported goes into a new directory.
    #[error("{} is there already, and nothing is written into it", to.display())]
    NotNew { run: RunId, to: PathBuf },
    #[error("run {0} goes on")]
    AtWork(RunId),
}
