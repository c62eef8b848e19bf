//! Why a run is not found, or its record not kept.

use std::path::PathBuf;

use crate::fsx::FileError;
use crate::run_id::RunId;

/// Why nothing is said of a run, or not all.
#[derive(Debug, thiserror::Error)]
pub enum RunsError {
    /// Something could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// The record is not as Cofferdam writes it.
    #[error("the record {} cannot be read: {why}", path.display())]
    Unreadable {
        /// The record's file.
        path: PathBuf,
        /// Why, as a sentence fragment.
        why: String,
    },
    /// By an id, or by the name of its sandbox.
    #[error("no run `{name}` is known in {}", repository.display())]
    Unknown {
        /// Printable.
        name: String,
        /// Where it was looked for.
        repository: PathBuf,
    },
    /// Its agent left none, or it made room for newer ones.
    #[error("nothing was kept of a conversation in run {0}")]
    NoConversation(RunId),
    /// What is exported goes into a new directory, and this one is there already.
    #[error("{} is there already, and nothing is written into it", to.display())]
    NotNew {
        /// Whose conversation it is.
        run: RunId,
        /// What was to be the new directory.
        to: PathBuf,
    },
    /// The directory in which it was to be made is not there.
    #[error("{} cannot be made: the directory that it is to be in is not there", to.display())]
    NoParent {
        /// Whose conversation it is.
        run: RunId,
        /// What was to be the new directory.
        to: PathBuf,
    },
    /// The run goes on; nothing is exported of it before its end.
    #[error("run {0} goes on")]
    AtWork(RunId),
}
