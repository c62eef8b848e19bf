//! What goes wrong with a sync.

use super::hooks::HookError;
use crate::fsx::FileError;
use crate::registry::RegistryError;
use crate::sandbox::SandboxError;

/// Why a sandbox does not have all that it should.
#[derive(Debug, thiserror::Error)]
pub enum SyncError {
    /// The sandbox did not do what was asked of it.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// The commands after it were not run; the next sync runs all of them.
    #[error(transparent)]
    Hook(#[from] HookError),
    /// Something could not be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// What is known of it cannot be read or written.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The caller cancelled it.
    #[error("cancelled")]
    Cancelled,
}
