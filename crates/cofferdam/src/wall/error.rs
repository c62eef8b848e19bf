//! Why there is no wall, or no answer from its gateway.

use std::io;
use std::path::PathBuf;

use cofferdam_wall::client::{DirectoryError, SearchError};
use cofferdam_wall::control::FrameError;

use crate::fsx::FileError;

/// Why something about the wall could not be done.
#[derive(Debug, thiserror::Error)]
pub enum WallError {
    /// Something could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// The gateway's directory is not as it was made: somebody else may have been there.
    #[error("{} cannot be trusted: {why}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// Why, as a sentence fragment.
        why: String,
    },
    /// It could not be started, or ended before it said that it serves.
    #[error("cannot start the gateway: {0}")]
    Start(String),
    /// Its lock is held, and it says nothing.
    #[error("{}", silent(*process, *seconds))]
    Silent {
        /// The gateway's process id, where its lock names it.
        process: Option<u32>,
        /// How long it had.
        seconds: u64,
    },
    /// No gateway runs, and none is started for what was asked.
    #[error("no gateway is running")]
    NotRunning,
    /// It ended as often as it was started.
    #[error("the gateway ended while it was asked{}", after(.0))]
    Ended(String),
    /// Contact with the gateway was lost; here are the system's words.
    #[error("lost contact with the gateway: {0}")]
    Io(#[from] io::Error),
    /// It is another version, or not a gateway.
    #[error("the gateway broke the protocol: {0}")]
    Protocol(String),
    /// What was asked cannot be done; what was in force stays.
    #[error("the gateway cannot do that: {0}")]
    Refused(String),
    /// Its lock is held for so many seconds.
    #[error("another cofferdam process has been changing rules for {0} s")]
    Busy(u64),
    /// The registration was given up before.
    #[error("the sandbox has lost its network: {0}")]
    Lost(String),
    /// Tried from inside, it did not stand.
    #[error("it failed its self-test: {0}")]
    Breached(String),
}

impl From<FrameError> for WallError {
    fn from(error: FrameError) -> Self {
        Self::Protocol(error.to_string())
    }
}

impl From<DirectoryError> for WallError {
    fn from(error: DirectoryError) -> Self {
        match error {
            DirectoryError::File {
                action,
                path,
                source,
            } => Self::File(FileError::new(action, path, source)),
            DirectoryError::Directory { path, why } => Self::Directory {
                path,
                why: why.to_owned(),
            },
        }
    }
}

impl From<SearchError> for WallError {
    fn from(error: SearchError) -> Self {
        match error {
            SearchError::Directory(error) => error.into(),
            SearchError::Start(why) => Self::Start(why),
            SearchError::NotRunning => Self::NotRunning,
            SearchError::Ended(words) => Self::Ended(crate::text::printable(&words)),
            SearchError::Silent { process, seconds } => Self::Silent { process, seconds },
        }
    }
}

fn silent(process: Option<u32>, seconds: u64) -> String {
    let named = process.map_or_else(String::new, |pid| format!(", process {pid},"));
    format!("the gateway{named} did not answer within {seconds} s")
}

fn after(words: &str) -> String {
    if words.is_empty() {
        String::new()
    } else {
        format!(": {words}")
    }
}
