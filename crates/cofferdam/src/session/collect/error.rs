//! What keeps commits from coming home.

use std::path::PathBuf;
use std::time::Duration;

use crate::fsx::FileError;
use crate::git::gate::GateError;
use crate::git::land::LandError;
use crate::git::private_clone::RefsError;
use crate::git::refs::RefError;
use crate::git::worktree::WorktreeError;
use crate::git::{GitError, Oid};
use crate::process::Exit;
use crate::registry::RegistryError;
use crate::sandbox::SandboxError;

/// Why commits did not come home. They stay in the state directory.
#[derive(Debug, thiserror::Error)]
pub enum CollectError {
    #[error(transparent)]
    Registry(#[from] RegistryError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Git(#[from] GitError),
    #[error(transparent)]
    Worktree(#[from] WorktreeError),
    #[error(transparent)]
    PrivateRefs(#[from] RefsError),
    #[error(transparent)]
    Gate(#[from] GateError),
    #[error(transparent)]
    Land(#[from] LandError),
    #[error(transparent)]
    Refs(#[from] RefError),
    #[error("asking what changed in the sandbox failed: {0}")]
    Changes(#[source] SandboxError),
    /// The user has rewritten their history, and git removed what these commits stand on: here they would be a branch that
    /// nobody can read. `history`: the packs of all of it that the sandbox was given.
    #[error("the repository no longer has commit {}, on which they stand", .base.short())]
    NoBase { base: Oid, history: PathBuf },
    #[error("packing the commits failed: {0}")]
    Jail(#[from] SandboxError),
    #[error("packing the commits ended with {exit}: {stderr}")]
    Pack { exit: Exit, stderr: String },
    #[error("its work is in the {0} sandbox itself, which nobody has open")]
    Inside(String),
    /// An isolated sandbox's answer makes no sense.
    #[error("the sandbox's repository cannot be read: {0}")]
    Foreign(String),
    #[error("collecting did not finish within {} s", .0.as_secs())]
    TimedOut(Duration),
    #[error("collecting was cut short")]
    Cancelled,
}
