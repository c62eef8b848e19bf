//! What goes wrong with a sync.

use super::hooks::HookError;
use crate::fsx::FileError;
use crate::registry::RegistryError;
use crate::sandbox::SandboxError;

/// Why a sandbox does not have all that it should.
#[derive(Debug, thiserror::Error)]
pub enum SyncError {
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// The commands after it were not run; the next sync runs all of them.
    #[error(transparent)]
    Hook(#[from] HookError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Registry(#[from] RegistryError),
    #[error("cancelled")]
    Cancelled,
}
