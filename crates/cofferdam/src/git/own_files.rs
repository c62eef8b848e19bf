//! What Cofferdam keeps in a repository's `.cofferdam`, and that git never sees it.

use std::fs;
use std::path::Path;

use crate::fsx::{self, FileError};

/// Below a repository's top: settings of the user, and files of ours that no commit takes.
pub const DIRECTORY: &str = ".cofferdam";
const IGNORED: &str = "# Written by cofferdam. None of these is meant for a commit.\n\
                       /.gitignore\n/.env\n/logs/\n/worktrees/\n";

/// Has git ignore what is Cofferdam's in `directory`, a repository's `.cofferdam`, if it is there: before
/// anything is in it, as the user's keys are committed with the first `git add` that sees them. A `.gitignore`
/// of the user's stays as it is; a symlink is not followed.
pub fn ignore(directory: &Path) -> Result<(), FileError> {
    let is_directory = |path: &Path| fs::symlink_metadata(path).is_ok_and(|found| found.is_dir());
    let there = |name: &str| fs::symlink_metadata(directory.join(name)).is_ok();
    if !is_directory(directory) || there(".gitignore") {
        return Ok(());
    }
    fsx::write_with_mode(&directory.join(".gitignore"), IGNORED.as_bytes(), 0o644)
}
