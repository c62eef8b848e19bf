//! Where the repository of a shelf is, for who reads names in it on this machine.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use crate::fsx::beneath;

/// The git directory of a shelf, wherever programs inside have meanwhile put something else.
pub(super) struct GitDirectory(OwnedFd);

impl GitDirectory {
    /// Counts while this lives.
    pub(super) fn place(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.0.as_raw_fd()).into()
    }
}

pub(super) fn git_directory(files: &Path) -> Option<GitDirectory> {
    let root = beneath::root(files).ok()?;
    let opened = beneath::directory(root, Path::new("repo/.git"));
    opened.ok().map(GitDirectory)
}
