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
    Words {
        /// As it was given.
        text: String,
        /// A sentence fragment.
        why: String,
    },
    /// Each is looked through before it is given, which takes time.
    #[error("{count} mounts are too many: a sandbox has at most {MOST} beside its files")]
    Count {
        /// So many were asked for.
        count: usize,
    },
    /// Its sandboxes have no such ability.
    #[error("the provider `{provider}` cannot mount what is on this machine")]
    NoMounts {
        /// What it is called.
        provider: String,
    },
    /// Inside, the place is somebody else's.
    #[error("nothing is mounted at {} in a sandbox: {why}", printable_path(target))]
    Target {
        /// The place inside.
        target: PathBuf,
        /// A sentence fragment.
        why: String,
    },
    /// One is not given over the other, nor below it.
    #[error(
        "two mounts want the same place in the sandbox: {} and {}",
        printable_path(one),
        printable_path(other)
    )]
    Collision {
        /// One place.
        one: PathBuf,
        /// The other.
        other: PathBuf,
    },
    /// It is not made.
    #[error("cannot mount {}: nothing is there", printable_path(path))]
    Missing {
        /// On this machine.
        path: PathBuf,
    },
    /// The system does not let it be looked at.
    #[error("cannot mount {}: {reason}", printable_path(path))]
    Unreachable {
        /// On this machine.
        path: PathBuf,
        /// In the system's words.
        reason: String,
    },
    /// A socket, a pipe or a device.
    #[error(
        "cannot mount {}: it is no directory and no regular file",
        printable_path(path)
    )]
    Kind {
        /// On this machine.
        path: PathBuf,
    },
    /// It was looked at before, and leads to another place now.
    #[error(
        "cannot mount {}: it leads to {} now",
        printable_path(path),
        printable_path(to)
    )]
    Moved {
        /// As it was named.
        path: PathBuf,
        /// Where it leads now.
        to: PathBuf,
    },
    /// No sandbox is shown this, whoever asks.
    #[error("cannot mount {}: {why}", printable_path(path))]
    Refused {
        /// On this machine.
        path: PathBuf,
        /// A sentence fragment.
        why: String,
    },
    /// It can be shown, and not be changed from inside.
    #[error("cannot mount {} writable: {why}", printable_path(path))]
    ReadOnly {
        /// On this machine.
        path: PathBuf,
        /// A sentence fragment.
        why: String,
    },
    /// A program of this machine that runs git there does what the repository says.
    #[error(
        "cannot mount {} writable: a git repository is in it, at {}",
        printable_path(path),
        printable_path(at)
    )]
    Repository {
        /// On this machine.
        path: PathBuf,
        /// Where the repository is in it.
        at: PathBuf,
    },
    /// It would choose what another sandbox sees.
    #[error(
        "cannot mount {}: the agent of sandbox `{sandbox}` can put something else in its place",
        printable_path(path)
    )]
    Agents {
        /// On this machine.
        path: PathBuf,
        /// Whose agent writes there.
        sandbox: Slug,
    },
    /// Nobody can say in bounded time what is in it.
    #[error(
        "cannot mount {}: there are more than {most} files and directories in it",
        printable_path(path)
    )]
    Large {
        /// On this machine.
        path: PathBuf,
        /// The limit.
        most: usize,
    },
    /// What is below was not looked at.
    #[error(
        "cannot mount {}: another file system is mounted below it, at {}",
        printable_path(path),
        printable_path(at)
    )]
    MountedBelow {
        /// On this machine.
        path: PathBuf,
        /// Where in it.
        at: PathBuf,
    },
    /// Things in it that no sandbox sees, too many for a mount over each.
    #[error(
        "cannot mount {}: {count} {what} in it are too many to be covered, {} for example",
        printable_path(path),
        printable_path(example)
    )]
    Scattered {
        /// On this machine.
        path: PathBuf,
        /// How many.
        count: usize,
        /// What they are, in the plural.
        what: &'static str,
        /// One of them.
        example: PathBuf,
    },
    /// Its file system does not answer: a server, perhaps.
    #[error("cannot mount {}: it could not be looked through within {} s", printable_path(path), limit.as_secs())]
    Slow {
        /// On this machine.
        path: PathBuf,
        /// How long it had.
        limit: Duration,
    },
    /// Its caller had enough.
    #[error("cancelled")]
    Cancelled,
    /// Something could not be read.
    #[error(transparent)]
    File(#[from] FileError),
}
