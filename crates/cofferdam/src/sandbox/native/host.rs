//! The host as a sandbox may be shown it: the caller's `PATH` and home, and a mount of what is found there.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use cofferdam_guest::protocol::{SetupMount, Source};

use crate::sandbox::HostProgram;

pub(super) const DEFAULT_PATH: &str =
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The caller's side of what a sandbox may show of the host's programs.
#[derive(Debug, Clone, Copy, Default)]
pub struct Host<'a> {
    /// `PATH`.
    pub search_path: Option<&'a OsStr>,
    /// The user's home; nothing of it is shown where there is none.
    pub home: Option<&'a Path>,
    /// To be shown with what they need.
    pub programs: &'a [HostProgram],
    /// Directories that nothing may show or lie in.
    pub unseen: &'a [PathBuf],
}

/// The entries of `PATH` that mean the same wherever one stands.
pub(super) fn search_entries(search_path: Option<&OsStr>) -> impl Iterator<Item = &Path> {
    let search = search_path.unwrap_or(OsStr::new(DEFAULT_PATH)).as_bytes();
    let entries = search
        .split(|&byte| byte == b':')
        .map(|entry| Path::new(OsStr::from_bytes(entry)));
    entries.filter(|path| {
        let mut parts = path.components();
        path.is_absolute() && !parts.any(|part| part == Component::ParentDir)
    })
}

pub(super) fn usable_home(home: Option<&Path>) -> Option<&Path> {
    home.filter(|home| home.is_absolute() && home.components().count() > 1)
}

/// Read-only, and left out where it cannot be shown.
pub(super) fn shown(source: Source, target: Vec<u8>) -> SetupMount {
    SetupMount {
        source,
        target,
        writable: false,
        optional: true,
    }
}
