//! Locks between processes: flock(2), which ends with its holder. A killed process leaves none, so a free lock is the
//! only sign of death that is trusted.

use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use super::{Context, FileError};

/// How a lock is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lock {
    Shared,
    Exclusive,
}

/// A lock that is free as soon as this is dropped. Closing the file is not enough: a program that another thread starts
/// just then has a copy of it until it executes, and whoever looks meanwhile would find the lock held.
#[derive(Debug)]
pub struct Held {
    file: File,
    /// Another process holds the same lock, and keeps it.
    shared: bool,
}

impl Held {
    /// `file` is locked.
    pub(crate) fn new(file: File) -> Self {
        let shared = false;
        Self { file, shared }
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// The same lock, for another process: from now on it is free when nobody has it open any more.
    pub(crate) fn share(&mut self) -> std::io::Result<File> {
        self.shared = true;
        self.file.try_clone()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if !self.shared {
            let _ = self.file.unlock();
        }
    }
}

/// Opens the file of a lock; it is made where there is none.
pub(crate) fn open(path: &Path) -> Result<File, FileError> {
    options().create(true).open(path).context("open", path)
}

/// As [`open`], for a lock that was made before.
pub(crate) fn open_existing(path: &Path) -> Result<File, FileError> {
    options().open(path).context("open", path)
}

fn options() -> OpenOptions {
    let mut options = File::options();
    options.read(true).write(true).truncate(false).mode(0o600);
    options.custom_flags(libc::O_NOFOLLOW);
    options
}

/// Opens a directory, to be locked as a file is.
pub(crate) fn open_directory(path: &Path) -> Result<File, FileError> {
    let mut options = File::options();
    options.read(true);
    options.custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW);
    options.open(path).context("open", path)
}

/// Tries once; `false`: others hold it. `path` is for the error.
#[expect(clippy::disallowed_methods, reason = "the one way of the library")]
pub(crate) fn try_hold(lock: &File, hold: Lock, path: &Path) -> Result<bool, FileError> {
    let tried = match hold {
        Lock::Shared => lock.try_lock_shared(),
        Lock::Exclusive => lock.try_lock(),
    };
    match tried {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(FileError::new("lock", path, error)),
    }
}

/// Tries for the whole of `limit`; one who only looks has it for a moment. `false`: others hold it.
pub(crate) fn hold_within(lock: &File, path: &Path, limit: Duration) -> Result<bool, FileError> {
    /// Between two tries.
    const PAUSE: Duration = Duration::from_millis(2);
    let deadline = Instant::now() + limit;
    loop {
        if try_hold(lock, Lock::Exclusive, path)? {
            return Ok(true);
        }
        if Instant::now() >= deadline {
            return Ok(false);
        }
        std::thread::sleep(PAUSE);
    }
}

/// Takes the lock at `path`; `None` if others hold it for the whole of `limit`.
pub(crate) async fn take_within(path: &Path, limit: Duration) -> Result<Option<File>, FileError> {
    let lock = open(path)?;
    Ok(wait_for(&lock, path, limit).await?.then_some(lock))
}

/// As [`hold_within`], while others go on.
pub(crate) async fn wait_for(lock: &File, path: &Path, limit: Duration) -> Result<bool, FileError> {
    /// Between two tries.
    const PAUSE: Duration = Duration::from_millis(2);
    let deadline = Instant::now() + limit;
    loop {
        if try_hold(lock, Lock::Exclusive, path)? {
            return Ok(true);
        }
        if Instant::now() >= deadline {
            return Ok(false);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Whether somebody holds the lock at `path`. Two who only look do not disturb each other, and what cannot be opened
/// is held by nobody.
pub(crate) fn is_held(path: &Path) -> bool {
    let mut options = File::options();
    options.read(true).custom_flags(libc::O_NOFOLLOW);
    let Ok(lock) = options.open(path) else {
        return false;
    };
    match try_hold(&lock, Lock::Shared, path) {
        Ok(false) => true,
        Ok(true) => {
            drop(Held::new(lock));
            false
        }
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, symlink};

    use super::*;

    #[test]
    fn one_holds_a_lock_or_several_share_it_until_they_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        assert!(open_existing(&path).unwrap_err().is_not_found());
        assert!(!is_held(&path));
        let [one, other] = [open(&path).unwrap(), open_existing(&path).unwrap()];
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert!(!is_held(&path));
        assert!(try_hold(&one, Lock::Exclusive, &path).unwrap());
        assert!(is_held(&path));
        for hold in [Lock::Shared, Lock::Exclusive] {
            assert!(!try_hold(&other, hold, &path).unwrap(), "{hold:?}");
        }
        assert!(!hold_within(&other, &path, Duration::from_millis(10)).unwrap());
        drop(one);
        assert!(hold_within(&other, &path, Duration::ZERO).unwrap());
        assert!(try_hold(&other, Lock::Shared, &path).unwrap());
        let third = open(&path).unwrap();
        assert!(try_hold(&third, Lock::Shared, &path).unwrap());
        assert!(!try_hold(&third, Lock::Exclusive, &path).unwrap());
    }

    #[test]
    fn a_directory_is_locked_as_a_file_is() {
        let dir = tempfile::tempdir().unwrap();
        let [one, other] = [(); 2].map(|()| open_directory(dir.path()).unwrap());
        assert!(try_hold(&one, Lock::Exclusive, dir.path()).unwrap());
        assert!(!try_hold(&other, Lock::Exclusive, dir.path()).unwrap());
    }

    /// As a program has it that another thread is starting, until it executes.
    #[test]
    fn what_is_dropped_is_free_whoever_has_a_copy() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let hold = || {
            let file = open(&path).unwrap();
            assert!(try_hold(&file, Lock::Exclusive, &path).unwrap());
            Held::new(file)
        };
        let held = hold();
        let copy = held.file().try_clone().unwrap();
        assert!(is_held(&path));
        drop(held);
        assert!(!is_held(&path));
        drop(copy);
        // One that was given away stays with whoever has it.
        let mut held = hold();
        let given = held.share().unwrap();
        drop(held);
        assert!(is_held(&path));
        drop(given);
        assert!(!is_held(&path));
    }

    #[test]
    fn no_lock_is_taken_through_a_symlink() {
        let dir = tempfile::tempdir().unwrap();
        let [real, link] = ["real", "link"].map(|name| dir.path().join(name));
        let lock = open(&real).unwrap();
        assert!(try_hold(&lock, Lock::Exclusive, &real).unwrap());
        symlink(&real, &link).unwrap();
        assert!(open(&link).is_err() && open_existing(&link).is_err());
        assert!(is_held(&real) && !is_held(&link));
        symlink(dir.path(), dir.path().join("directory")).unwrap();
        assert!(open_directory(&dir.path().join("directory")).is_err());
    }
}
