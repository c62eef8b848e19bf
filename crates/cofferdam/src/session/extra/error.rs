//! Why something of this machine is not mounted beside a sandbox's files.

use std::path::PathBuf;

use crate::fsx::FileError;
use crate::names::Slug;

/// As many mounts as a sandbox may have beside its files.
pub(super) const MOST: usize = 64;

/// What was asked for with `--mount` cannot be given. Nothing is mounted.
///
/// Not `#[non_exhaustive]`: a frontend has the next step for each.
#[derive(Debug, thiserror::Error)]
pub enum ExtraMountError {
    /// The words themselves.
    #[error("`{text}` says no mount: {why}")]
    Words { text: String, why: String },
    #[error("{count} mounts are too many: a sandbox has at most {MOST} beside its files")]
    Count { count: usize },
    #[error("the provider `{provider}` cannot mount what is on this machine")]
    NoMounts { provider: String },
    /// Inside, the place is somebody else's.
    #[error("nothing is mounted at {} in a sandbox: {why}", target.display())]
    Target { target: PathBuf, why: String },
    #[error("two mounts want the same place in the sandbox: {} and {}", one.display(), other.display())]
    Collision { one: PathBuf, other: PathBuf },
    #[error("cannot mount {}: nothing is there", path.display())]
    Missing { path: PathBuf },
    #[error("cannot mount {}: {reason}", path.display())]
    Unreachable { path: PathBuf, reason: String },
    #[error("cannot mount {}: it is no directory and no regular file", path.display())]
    Kind { path: PathBuf },
    /// It was looked at before, and leads to another place now.
    #[error("cannot mount {}: it leads to {} now", path.display(), to.display())]
    Moved { path: PathBuf, to: PathBuf },
    /// No sandbox is shown this, whoever asks.
    #[error("cannot mount {}: {why}", path.display())]
    Refused { path: PathBuf, why: String },
    /// It can be shown, and not be changed from inside.
    #[error("cannot mount {} writable: {why}", path.display())]
    ReadOnly { path: PathBuf, why: String },
    #[error("cannot mount {}: the agent of sandbox `{sandbox}` can put something else in its place", path.display())]
    Agents { path: PathBuf, sandbox: Slug },
    #[error("cannot mount {}: there are more than {most} files and directories in it", path.display())]
    Large { path: PathBuf, most: usize },
    #[error("cannot mount {}: another file system is mounted below it, at {}", path.display(), at.display())]
    MountedBelow { path: PathBuf, at: PathBuf },
    #[error("cannot mount {}: {count} {what} in it are too many to be covered, {} for example", path.display(), example.display())]
    Scattered {
        path: PathBuf,
        count: usize,
        what: &'static str,
        example: PathBuf,
    },
    #[error(transparent)]
    File(#[from] FileError),
}
