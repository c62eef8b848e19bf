//! The locks of the registry. flock(2) ends with its holder, so a free lock is the only sign of death that is trusted.

use std::fs::{File, TryLockError};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use super::error::RegistryError;
use crate::fsx::{Context, FileError};
use crate::home::Home;

/// Held while a state directory has no record yet, by who makes it and by who removes dead ones; and while [`crate::registry::written`]
/// changes its list.
pub(super) fn making(home: &Home) -> Result<File, RegistryError> {
    let path = home.path().join("lock");
    let lock = open_lock(home.path(), true)?;
    // It is held for moments; one that is held longer is held by a stopped process.
    for _ in 0..100 {
        if take(&lock, home.path())? {
            return Ok(lock);
        }
    }
    let source = std::io::Error::other("another cofferdam process holds it");
    Err(FileError::new("lock", path, source).into())
}

pub(super) fn open_lock(directory: &Path, make: bool) -> Result<File, RegistryError> {
    let path = directory.join("lock");
    let file = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .create(make)
        .truncate(false)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW)
        .open(&path)
        .context("open", &path)?;
    Ok(file)
}

/// Takes the lock, or says that somebody has it. One who only looks has it for a moment.
pub(super) fn take(lock: &File, directory: &Path) -> Result<bool, RegistryError> {
    for _ in 0..20 {
        match lock.try_lock() {
            Ok(()) => return Ok(true),
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(2)),
            Err(TryLockError::Error(source)) => {
                return Err(FileError::new("lock", directory.join("lock"), source).into());
            }
        }
    }
    Ok(false)
}

pub(super) fn in_use(directory: &Path) -> bool {
    let Ok(file) = File::open(directory.join("lock")) else {
        return false;
    };
    // A shared lock: two commands that only look do not disturb each other.
    matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock))
}
