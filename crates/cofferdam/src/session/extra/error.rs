//! Why something of this machine is not mounted beside a sandbox's files.

use std::path::PathBuf;
use std::time::Duration;

use crate::fsx::FileError;
use crate::names::Slug;
use crate::text::printable_path;

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
    #[error("nothing is mounted at {} in a sandbox: {why}", printable_path(target))]
    Target { target: PathBuf, why: String },
    #[error(
        "two mounts want the same place in the sandbox: {} and {}",
        printable_path(one),
        printable_path(other)
    )]
    Collision { one: PathBuf, other: PathBuf },
    #[error("cannot mount {}: nothing is there", printable_path(path))]
    Missing { path: PathBuf },
    #[error("cannot mount {}: {reason}", printable_path(path))]
    Unreachable { path: PathBuf, reason: String },
    #[error(
        "cannot mount {}: it is no directory and no regular file",
        printable_path(path)
    )]
    Kind { path: PathBuf },
    /// It was looked at before, and leads to another place now.
    #[error(
        "cannot mount {}: it leads to {} now",
        printable_path(path),
        printable_path(to)
    )]
    Moved { path: PathBuf, to: PathBuf },
    /// No sandbox is shown this, whoever asks.
    #[error("cannot mount {}: {why}", printable_path(path))]
    Refused { path: PathBuf, why: String },
    /// It can be shown, and not be changed from inside.
    #[error("cannot mount {} writable: {why}", printable_path(path))]
    ReadOnly { path: PathBuf, why: String },
    /// A program of this machine that runs git there does what the repository says.
    #[error(
        "cannot mount {} writable: a git repository is in it, at {}",
        printable_path(path),
        printable_path(at)
    )]
    Repository { path: PathBuf, at: PathBuf },
    #[error(
        "cannot mount {}: the agent of sandbox `{sandbox}` can put something else in its place",
        printable_path(path)
    )]
    Agents { path: PathBuf, sandbox: Slug },
    #[error(
        "cannot mount {}: there are more than {most} files and directories in it",
        printable_path(path)
    )]
    Large { path: PathBuf, most: usize },
    #[error(
        "cannot mount {}: another file system is mounted below it, at {}",
        printable_path(path),
        printable_path(at)
    )]
    MountedBelow { path: PathBuf, at: PathBuf },
    #[error(
        "cannot mount {}: {count} {what} in it are too many to be covered, {} for example",
        printable_path(path),
        printable_path(example)
    )]
    Scattered {
        path: PathBuf,
        count: usize,
        what: &'static str,
        example: PathBuf,
    },
    /// Its file system does not answer: a server, perhaps.
    #[error("cannot mount {}: it could not be looked through within {} s", printable_path(path), limit.as_secs())]
    Slow { path: PathBuf, limit: Duration },
    #[error("cancelled")]
    Cancelled,
    #[error(transparent)]
    File(#[from] FileError),
}
