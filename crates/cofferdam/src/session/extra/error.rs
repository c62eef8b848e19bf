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
    /// The words for the mount say none.
    #[error("`{text}` says no mount: {why}")]
    Words {
        /// As it was given.
        text: String,
        /// Why, as a sentence fragment.
        why: String,
    },
    /// There are too many: each is looked through before it is given, which takes time.
    #[error("{count} mounts are too many: a sandbox has at most {MOST} beside its files")]
    Count {
        /// So many were asked for.
        count: usize,
    },
    /// The provider cannot mount what is on this machine.
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
        /// Why, as a sentence fragment.
        why: String,
    },
    /// Two mounts want one place inside, or one is to be below the other.
    #[error(
        "two mounts want the same place in the sandbox: {} and {}",
        printable_path(one),
        printable_path(other)
    )]
    Collision {
        /// One place.
        one: PathBuf,
        /// The other place.
        other: PathBuf,
    },
    /// Nothing is there, and nothing is made there.
    #[error("cannot mount {}: nothing is there", printable_path(path))]
    Missing {
        /// The path on this machine.
        path: PathBuf,
    },
    /// The system does not let it be looked at.
    #[error("cannot mount {}: {reason}", printable_path(path))]
    Unreachable {
        /// The path on this machine.
        path: PathBuf,
        /// In the system's words.
        reason: String,
    },
    /// It is a socket, a pipe or a device.
    #[error(
        "cannot mount {}: it is no directory and no regular file",
        printable_path(path)
    )]
    Kind {
        /// The path on this machine.
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
        /// The path on this machine.
        path: PathBuf,
        /// Why, as a sentence fragment.
        why: String,
    },
    /// It can be shown, and not be changed from inside.
    #[error("cannot mount {} writable: {why}", printable_path(path))]
    ReadOnly {
        /// The path on this machine.
        path: PathBuf,
        /// Why, as a sentence fragment.
        why: String,
    },
    /// A git repository is in it, and whoever runs git there on this machine does what it says.
    #[error(
        "cannot mount {} writable: a git repository is in it, at {}",
        printable_path(path),
        printable_path(at)
    )]
    Repository {
        /// The path on this machine.
        path: PathBuf,
        /// Where the repository is in it.
        at: PathBuf,
    },
    /// Another sandbox's agent could put something else in its place.
    #[error(
        "cannot mount {}: the agent of sandbox `{sandbox}` can put something else in its place",
        printable_path(path)
    )]
    Agents {
        /// The path on this machine.
        path: PathBuf,
        /// Whose agent writes there.
        sandbox: Slug,
    },
    /// There is so much in it that it cannot be looked through in bounded time.
    #[error(
        "cannot mount {}: there are more than {most} files and directories in it",
        printable_path(path)
    )]
    Large {
        /// The path on this machine.
        path: PathBuf,
        /// The most that there may be.
        most: usize,
    },
    /// Another file system is mounted below it, which was not looked at.
    #[error(
        "cannot mount {}: another file system is mounted below it, at {}",
        printable_path(path),
        printable_path(at)
    )]
    MountedBelow {
        /// The path on this machine.
        path: PathBuf,
        /// Where in it the other one is mounted.
        at: PathBuf,
    },
    /// Things in it that no sandbox sees, too many for a mount over each.
    #[error(
        "cannot mount {}: {count} {what} in it are too many to be covered, {} for example",
        printable_path(path),
        printable_path(example)
    )]
    Scattered {
        /// The path on this machine.
        path: PathBuf,
        /// How many things.
        count: usize,
        /// What they are, in the plural.
        what: &'static str,
        /// One of the things.
        example: PathBuf,
    },
    /// Its file system does not answer: a server, perhaps.
    #[error("cannot mount {}: it could not be looked through within {} s", printable_path(path), limit.as_secs())]
    Slow {
        /// The path on this machine.
        path: PathBuf,
        /// How long it had.
        limit: Duration,
    },
    /// The caller cancelled it.
    #[error("cancelled")]
    Cancelled,
    /// Something could not be read.
    #[error(transparent)]
    File(#[from] FileError),
}
