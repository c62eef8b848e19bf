//! Locks between processes: flock(2), which ends with its holder, so a killed process leaves none.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::fsx::{self, FileError};

/// A lock was not taken.
#[derive(Debug)]
pub(crate) enum LockError {
    Cancelled,
    File(FileError),
}

#[derive(Clone, Copy)]
pub(crate) enum Lock {
    Shared,
    Exclusive,
}

/// In the git directory of a working tree: held for as long as a sandbox can write its files. A sandbox
/// has a git directory of its own and other users may not open it, so nobody else can take it.
const OCCUPIED: &str = "cofferdam.lock";

/// Says that a sandbox can write the files of the working tree whose git directory this is, for as
/// long as the result lives. Waits while git of ours brings those files to another commit.
pub async fn occupy(git_dir: &Path, cancel: &CancellationToken) -> Result<Option<File>, FileError> {
    match lock(&git_dir.join(OCCUPIED), Lock::Shared, cancel).await {
        Ok(file) => Ok(Some(file)),
        // Whoever asked sees it too.
        Err(LockError::Cancelled) => Ok(None),
        Err(LockError::File(error)) => Err(error),
    }
}

/// The right to write the files of this working tree; `None` while a sandbox can write them too. It
/// could put a symlink in the place of a directory that git has just looked at, and git would write
/// wherever it leads.
pub fn vacant(git_dir: &Path) -> Result<Option<File>, FileError> {
    let path = git_dir.join(OCCUPIED);
    let file = fsx::open_lock(&path)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(FileError::new("lock", path, error)),
    }
}

/// Waits for a lock that ends with its holder, so a killed process never leaves one.
pub(crate) async fn lock(
    path: &Path,
    kind: Lock,
    cancel: &CancellationToken,
) -> Result<File, LockError> {
    let file = fsx::open_lock(path).map_err(LockError::File)?;
    let mut pause = Duration::from_millis(1);
    loop {
        let tried = match kind {
            Lock::Shared => file.try_lock_shared(),
            Lock::Exclusive => file.try_lock(),
        };
        match tried {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => {
                return Err(LockError::File(FileError::new("lock", path, error)));
            }
        }
        tokio::select! {
            () = cancel.cancelled() => return Err(LockError::Cancelled),
            () = tokio::time::sleep(pause) => {}
        }
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}
