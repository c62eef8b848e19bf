//! What this machine says of control groups, and how ours are called in them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Our groups lie below a group of this name.
pub(super) const OURS: &str = "cofferdam";

/// What decides where groups can be made.
#[derive(Debug)]
pub(super) struct Machine {
    /// `/proc/self/mounts`.
    pub(super) mounts: String,
    /// `/proc/self/cgroup`.
    pub(super) own: String,
}

impl Machine {
    pub(super) fn this() -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        Self {
            mounts: read("/proc/self/mounts"),
            own: read("/proc/self/cgroup"),
        }
    }

    /// Each one's place, kind and options.
    pub(super) fn mounts(&self) -> impl Iterator<Item = (&Path, &str, &str)> {
        self.mounts.lines().filter_map(|line| {
            let mut fields = line.split(' ').skip(1);
            let point = Path::new(fields.next()?);
            Some((point, fields.next()?, fields.next()?))
        })
    }

    /// Groups of version 2 in which others may be made: the one that this process is in, and the top.
    pub(super) fn unified(&self) -> Vec<PathBuf> {
        let own = self.own.lines().find_map(|line| line.strip_prefix("0::/"));
        let mut found = Vec::new();
        for (point, _, _) in self.mounts().filter(|(_, kind, _)| *kind == "cgroup2") {
            // Outside of what this process sees of them, nothing is its own.
            let own = own.filter(|own| !own.is_empty() && !own.starts_with(".."));
            found.extend(own.map(|own| point.join(own)));
            found.push(point.to_owned());
        }
        found
    }
}

/// The last sandbox takes our own group along.
pub(super) fn remove_parent(directory: &Path) {
    if let Some(parent) = directory.parent() {
        let _ = fs::remove_dir(parent);
    }
}

pub(super) fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
