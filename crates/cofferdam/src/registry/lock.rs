//! The locks of the registry.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use super::error::RegistryError;
use crate::fsx::FileError;
use crate::fsx::lock::{self, hold_within};
use crate::home::Home;

/// One who only looks has the lock for a moment.
const MOMENT: Duration = Duration::from_millis(40);
/// It is held for moments; one that is held longer is held by a stopped process.
const MAKING: Duration = Duration::from_secs(4);

/// Held while a state directory has no record yet, by who makes it and by who removes dead ones; and while [`crate::registry::written`]
/// changes its list.
pub(super) fn making(home: &Home) -> Result<File, RegistryError> {
    let path = home.path().join("lock");
    let lock = lock::open(&path)?;
    if hold_within(&lock, &path, MAKING)? {
        return Ok(lock);
    }
    let source = std::io::Error::other("another cofferdam process holds it");
    Err(FileError::new("lock", path, source).into())
}

pub(super) fn open_lock(directory: &Path, make: bool) -> Result<File, RegistryError> {
    let path = directory.join("lock");
    Ok(if make {
        lock::open(&path)?
    } else {
        lock::open_existing(&path)?
    })
}

/// Takes the lock, or says that somebody has it.
pub(super) fn take(lock: &File, directory: &Path) -> Result<bool, RegistryError> {
    Ok(hold_within(lock, &directory.join("lock"), MOMENT)?)
}

pub(super) fn in_use(directory: &Path) -> bool {
    lock::is_held(&directory.join("lock"))
}
