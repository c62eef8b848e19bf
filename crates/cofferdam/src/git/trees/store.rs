//! One store on disk: its layers by name, and a directory for what is half there.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW};

use super::about::About;
use crate::fsx::lock::{Held, Lock, open, try_hold};
use crate::fsx::{self, FileError};
use crate::git::Oid;

/// Its time of change says when a layer was used last.
pub(super) fn used_now(layer: &Path) {
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: UTIME_NOW,
    };
    let times = Timestamps {
        last_access: now,
        last_modification: now,
    };
    // At worst it goes before its time.
    let _ = rustix::fs::utimensat(CWD, layer, &times, AtFlags::empty());
}

/// What is said of a layer that can be used, with all those that it stands on.
pub(super) fn usable(store: &Path, tree: &Oid) -> Result<Option<About>, FileError> {
    let Some(about) = About::read(&store.join(tree.as_str()))? else {
        return Ok(None);
    };
    for below in &about.below {
        if About::read(&store.join(below.as_str()))?.is_none() {
            return Ok(None);
        }
    }
    Ok(Some(about))
}

/// Whether all of a layer is there: `files` as [`super::Stack::layers`] names it. One of an earlier boot is only where it is known
/// to have come to the disk.
pub fn is_whole(files: &Path) -> bool {
    let about = files.parent().map(About::read);
    files.is_dir() && matches!(about, Some(Ok(Some(_))))
}

/// Removes what was half written, and layers that a power cut may have torn. Looks at all there are.
pub(super) fn clean(store: &Path) -> Result<(), FileError> {
    clean_tmp(store)?;
    for (tree, _) in trees_in(store)? {
        if usable(store, &tree)?.is_none() {
            remove(store, &tree)?;
        }
    }
    Ok(())
}

/// Holds a lock of the store alone, where nobody else has it.
pub(super) fn hold(path: &Path) -> Result<Option<Held>, FileError> {
    let file = open(path)?;
    Ok(try_hold(&file, Lock::Exclusive, path)?.then(|| Held::new(file)))
}

/// Removes what was half written.
pub(super) fn clean_tmp(store: &Path) -> Result<(), FileError> {
    let tmp = store.join("tmp");
    // Whoever made the store may have been killed before that.
    fsx::private_dir(&tmp)?;
    for entry in read_dir(&tmp)? {
        fsx::remove_tree_or_file(&entry)?;
    }
    Ok(())
}

/// Removes a layer, if it is there. Never half of it: it has its name until it is elsewhere.
pub(super) fn remove(store: &Path, tree: &Oid) -> Result<(), FileError> {
    let (from, to) = (
        store.join(tree.as_str()),
        store.join("tmp").join(tree.as_str()),
    );
    match fs::rename(&from, &to) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(source) => Err(FileError::new("move", &from, source)),
        Ok(()) => fsx::remove_tree(&to),
    }
}

/// The layers of a store, whatever they are.
pub(super) fn trees_in(directory: &Path) -> Result<Vec<(Oid, PathBuf)>, FileError> {
    let named = read_dir(directory)?.into_iter().filter_map(|path| {
        let tree = path.file_name()?.to_str()?.parse().ok()?;
        Some((tree, path))
    });
    Ok(named.collect())
}

pub(super) fn read_dir(path: &Path) -> Result<Vec<PathBuf>, FileError> {
    let failed = |source| FileError::new("list", path, source);
    let entries = fs::read_dir(path).map_err(failed)?;
    entries
        .map(|entry| Ok(entry.map_err(failed)?.path()))
        .collect()
}
