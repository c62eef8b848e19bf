//! The directories in which agents have written: repositories, worktrees of their sandboxes, and what they could change
//! beside those. The list outlives the
//! records, because what an agent put there does: a program of its making must not pass for the user's own when the
//! last sandbox of its repository is gone. Only a directory that is gone leaves the list.

use std::path::{Path, PathBuf};

use super::{PathText, Record, RegistryError};
use crate::fsx;
use crate::home::Home;

/// A longer list loses its oldest entries: thousands of repositories.
const LIMIT: usize = 256 << 10;

/// All of them, the oldest first.
pub fn read(home: &Home) -> Result<Vec<PathBuf>, RegistryError> {
    let path = home.written();
    let bytes = match fsx::read_bounded(&path, LIMIT as u64) {
        Ok(bytes) => bytes,
        Err(error) if error.is_not_found() => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let list: Vec<PathText> =
        serde_json::from_slice(&bytes).map_err(|error| RegistryError::Written {
            path,
            reason: error.to_string(),
        })?;
    Ok(list.into_iter().map(|path| path.0).collect())
}

/// Adds the directories of a sandbox whose agent is about to start.
pub fn remember(home: &Home, record: &Record) -> Result<(), RegistryError> {
    let own = [record.repository.clone(), record.workspace(home)];
    let new = own.into_iter().chain(record.written_beside().cloned());
    // What is in Cofferdam's own directory is never shown, and goes with the record.
    let new: Vec<PathBuf> = new.filter(|path| !path.starts_with(home.path())).collect();
    let known = read(home)?;
    if new.iter().all(|path| known.contains(path)) {
        return Ok(());
    }
    change(home, |list| {
        for path in &new {
            if !list.contains(path) {
                list.push(path.clone());
            }
        }
    })
}

/// Drops the directories that are gone. One that cannot be looked at is not.
pub fn forget_gone(home: &Home) -> Result<(), RegistryError> {
    if read(home)?.iter().any(|path| is_gone(path)) {
        change(home, |list| list.retain(|path| !is_gone(path)))?;
    }
    Ok(())
}

fn is_gone(path: &Path) -> bool {
    let found = path.symlink_metadata();
    found.is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
}

/// One reads and writes at a time; who only reads finds the old list or the new one.
fn change(home: &Home, edit: impl FnOnce(&mut Vec<PathBuf>)) -> Result<(), RegistryError> {
    let lock = super::making(home)?;
    let mut list = read(home)?;
    edit(&mut list);
    let mut bytes = encode(home, &list)?;
    if bytes.len() > LIMIT {
        list.retain(|path| !is_gone(path));
        bytes = encode(home, &list)?;
    }
    while bytes.len() > LIMIT {
        list.drain(..list.len().div_ceil(8));
        bytes = encode(home, &list)?;
    }
    fsx::write_private(&home.written(), &bytes)?;
    drop(lock);
    Ok(())
}

fn encode(home: &Home, list: &[PathBuf]) -> Result<Vec<u8>, RegistryError> {
    let list: Vec<PathText> = list.iter().cloned().map(PathText).collect();
    serde_json::to_vec_pretty(&list).map_err(|error| RegistryError::Written {
        path: home.written(),
        reason: error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    fn home() -> (tempfile::TempDir, Home) {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::new(dir.path().join("home"));
        fsx::private_dir(home.path()).unwrap();
        (dir, home)
    }

    #[test]
    fn a_directory_stays_until_it_is_gone() {
        let (dir, home) = home();
        let odd = dir.path().join(OsStr::from_bytes(b"sp ace\n\xff\\x41"));
        let other = dir.path().join("other");
        for path in [&odd, &other] {
            std::fs::create_dir(path).unwrap();
            change(&home, |list| list.push(path.clone())).unwrap();
        }
        forget_gone(&home).unwrap();
        assert_eq!(read(&home).unwrap(), [odd.clone(), other.clone()]);
        std::fs::remove_dir(&odd).unwrap();
        assert_eq!(read(&home).unwrap(), [odd, other.clone()]);
        forget_gone(&home).unwrap();
        assert_eq!(read(&home).unwrap(), [other]);
    }

    #[test]
    fn the_list_is_bounded_and_loses_the_oldest() {
        let (dir, home) = home();
        let there = |n: usize| dir.path().join(format!("{n}-{}", "x".repeat(200)));
        for n in 0..1600 {
            std::fs::create_dir(there(n)).unwrap();
        }
        // As many again that are gone: they go first.
        let gone = |n: usize| dir.path().join(format!("gone-{n}-{}", "x".repeat(200)));
        let both = (0..800).map(gone).chain((0..800).map(there));
        change(&home, |list| list.extend(both)).unwrap();
        let list = read(&home).unwrap();
        assert!(
            list == (0..800).map(there).collect::<Vec<_>>(),
            "{}",
            list.len()
        );
        change(&home, |list| list.extend((800..1600).map(there))).unwrap();
        let list = read(&home).unwrap();
        assert!(list.last() == Some(&there(1599)) && !list.contains(&there(0)));
        assert!(list.len() > 800, "{}", list.len());
    }

    /// A list that cannot be read must not count as an empty one.
    #[test]
    fn what_cannot_be_read_is_an_error() {
        let (_dir, home) = home();
        assert_eq!(read(&home).unwrap(), [""; 0].map(PathBuf::from));
        for bad in ["", "{}", "[\"a\\\\x\"]", "[1]"] {
            fsx::write_private(&home.written(), bad.as_bytes()).unwrap();
            let error = read(&home).unwrap_err().to_string();
            assert!(error.contains("written.json"), "{bad}: {error}");
        }
    }
}
