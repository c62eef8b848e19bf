//! An `apply` that began and did not come to its end, as far as its sandbox knows: noted before the first file is written.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use crate::fsx::{self, FileError};
use crate::names::RepoPath;
use crate::registry::Owned;

const FILE: &str = "applying";
const LIMIT: u64 = 1 << 16;

/// Into the checkout with this top.
pub(super) fn begin(owned: &Owned, top: &RepoPath) -> Result<(), FileError> {
    let text = top.as_path().as_os_str().as_bytes();
    fsx::write_private(&owned.directory().join(FILE), text)
}

/// Files and index are as one of the two commands leaves them.
pub(super) fn end(owned: &Owned) -> Result<(), FileError> {
    fsx::remove_file_if_exists(&owned.directory().join(FILE))
}

/// The checkout of one that was cut short. `state`: the sandbox's directory.
pub(in crate::session) fn unfinished(state: &Path) -> Option<PathBuf> {
    let text = fsx::read_bounded(&state.join(FILE), LIMIT).ok()?;
    Some(PathBuf::from(OsString::from_vec(text)))
}
