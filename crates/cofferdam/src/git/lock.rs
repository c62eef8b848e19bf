//! The locks of git directories and of the vault: who waits for one can be cancelled.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::fsx::FileError;
pub(crate) use crate::fsx::lock::Lock;
use crate::fsx::lock::{Held, open, try_hold};

/// A lock was not taken.
#[derive(Debug)]
pub(crate) enum LockError {
    Cancelled,
    File(FileError),
}

/// In the git directory of a working tree: held for as long as a sandbox can write its files. A sandbox
/// has a git directory of its own and other users may not open it, so nobody else can take it.
const OCCUPIED: &str = "cofferdam.lock";
/// The same for as long as a sandbox sees the files beside those in which it is worked.
const BESIDE: &str = "cofferdam-beside.lock";

/// Says that a sandbox can write the files of the working tree whose git directory this is, for as
/// long as the result lives. Waits while git of ours brings those files to another commit.
pub async fn occupy(git_dir: &Path, cancel: &CancellationToken) -> Result<Option<Held>, FileError> {
    match lock(&git_dir.join(OCCUPIED), Lock::Shared, cancel).await {
        Ok(file) => Ok(Some(Held::new(file))),
        // Whoever asked sees it too.
        Err(LockError::Cancelled) => Ok(None),
        Err(LockError::File(error)) => Err(error),
    }
}

/// The same of a sandbox that stands still while git of ours writes there: nothing but its mounts is in the way then.
pub async fn occupy_beside(
    git_dir: &Path,
    cancel: &CancellationToken,
) -> Result<Option<Held>, FileError> {
    // Nothing of it may run before what is written now is written whole.
    let first = occupy(git_dir, cancel).await?;
    let beside = match lock(&git_dir.join(BESIDE), Lock::Shared, cancel).await {
        Ok(file) => Some(Held::new(file)),
        Err(LockError::Cancelled) => None,
        Err(LockError::File(error)) => return Err(error),
    };
    drop(first);
    Ok(beside)
}

/// The right to write the files of this working tree; `None` while a sandbox can write them too. It
/// could put a symlink in the place of a directory that git has just looked at, and git would write
/// wherever it leads. Of those that [`occupy_beside`] the caller sees to it that they stand still.
pub fn vacant(git_dir: &Path) -> Result<Option<Held>, FileError> {
    free(&git_dir.join(OCCUPIED))
}

/// As [`vacant`], and no sandbox sees them from beside it either.
pub fn unseen(git_dir: &Path) -> Result<Option<(Held, Held)>, FileError> {
    let Some(vacant) = vacant(git_dir)? else {
        return Ok(None);
    };
    let beside = free(&git_dir.join(BESIDE))?;
    Ok(beside.map(|beside| (vacant, beside)))
}

fn free(path: &Path) -> Result<Option<Held>, FileError> {
    let file = open(path)?;
    let held = try_hold(&file, Lock::Exclusive, path)?;
    Ok(held.then(|| Held::new(file)))
}

/// Waits for a lock that ends with its holder, so a killed process never leaves one.
pub(crate) async fn lock(
    path: &Path,
    hold: Lock,
    cancel: &CancellationToken,
) -> Result<File, LockError> {
    let file = open(path).map_err(LockError::File)?;
    let mut pause = Duration::from_millis(1);
    loop {
        if try_hold(&file, hold, path).map_err(LockError::File)? {
            return Ok(file);
        }
        tokio::select! {
            () = cancel.cancelled() => return Err(LockError::Cancelled),
            () = tokio::time::sleep(pause) => {}
        }
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}
