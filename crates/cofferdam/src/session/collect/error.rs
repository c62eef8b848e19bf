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
    /// What is known of the sandbox cannot be read or written.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// Something could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// Git failed on the host.
    #[error(transparent)]
    Git(#[from] GitError),
    /// The branch's worktree could not be found or used.
    #[error(transparent)]
    Worktree(#[from] WorktreeError),
    /// The git directory inside is not what git writes.
    #[error(transparent)]
    PrivateRefs(#[from] RefsError),
    /// The commits did not pass the gate, or could not be looked at.
    #[error(transparent)]
    Gate(#[from] GateError),
    /// They passed, and did not land.
    #[error(transparent)]
    Land(#[from] LandError),
    /// A ref did not move.
    #[error(transparent)]
    Refs(#[from] RefError),
    /// A sandbox without git did not say what changed in it.
    #[error("asking what changed in the sandbox failed: {0}")]
    Changes(#[source] SandboxError),
    /// The user has rewritten their history, and git removed what these commits stand on: here they would be a branch that
    /// nobody can read. `history`: the packs of all of it that the sandbox was given.
    #[error("the repository no longer has commit {}, on which they stand", .base.short())]
    NoBase {
        /// The commit that they stand on.
        base: Oid,
        /// A directory in the sandbox's state directory.
        history: PathBuf,
    },
    /// The throw-away sandbox that packs did not come up.
    #[error("packing the commits failed: {0}")]
    Jail(#[from] SandboxError),
    /// Git did not pack, in a throw-away sandbox.
    #[error("packing the commits ended with {exit}: {stderr}")]
    Pack {
        /// How it ended.
        exit: Exit,
        /// What it printed, safe for a terminal.
        stderr: String,
    },
    /// A sandbox of that provider has its files nowhere else.
    #[error("its work is in the {0} sandbox itself, which nobody has open")]
    Inside(String),
    /// An isolated sandbox's answer makes no sense.
    #[error("the sandbox's repository cannot be read: {0}")]
    Foreign(String),
    /// Steps were left out after this long.
    #[error("collecting did not finish within {} s", .0.as_secs())]
    TimedOut(Duration),
    /// The caller cancelled it.
    #[error("collecting was cut short")]
    Cancelled,
}
