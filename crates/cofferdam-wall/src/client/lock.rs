//! Locks between processes, as the library has them: flock(2), which ends with its holder.

use std::fs::{File, TryLockError};
use std::io;

/// Tries once; `None`: others hold it.
#[expect(clippy::disallowed_methods, reason = "the library is above this crate")]
pub(crate) fn try_hold(lock: File) -> io::Result<Option<File>> {
    match lock.try_lock() {
        Ok(()) => Ok(Some(lock)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}
