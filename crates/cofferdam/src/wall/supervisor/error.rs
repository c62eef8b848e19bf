//! Why a sandbox's supervisor cannot be started, or does not do what it should.

use std::io;
use std::path::Path;

use cofferdam_wall::control::FrameError;
use cofferdam_wall::supervisor::PROTOCOL;

use crate::fsx::FileError;

/// Why something about a sandbox's supervisor could not be done.
#[derive(Debug, thiserror::Error)]
pub enum SupervisorError {
    /// Something could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// Another process holds the sandbox's lock: it keeps the place, or is about to.
    #[error("another process keeps the sandbox's place")]
    Taken,
    /// It could not be started, or ended before it said that it serves.
    #[error("cannot start the sandbox's supervisor: {0}")]
    Start(String),
    /// It ended, or never was.
    #[error("nobody keeps the sandbox's place")]
    NotRunning,
    /// It did not answer within this many seconds.
    #[error("the sandbox's supervisor did not answer within {0} s")]
    Silent(u64),
    /// Nobody keeps the place any more.
    #[error("the sandbox's supervisor ended while it was asked")]
    Ended,
    /// What was asked needs one of this version: it is stopped, and another one started.
    #[error(
        "the sandbox's supervisor is of another version of cofferdam (it speaks {0}, this one {PROTOCOL})"
    )]
    OtherVersion(u32),
    /// It cannot do that; here is why, as a sentence fragment.
    #[error("the sandbox's supervisor cannot do that: {0}")]
    Refused(String),
    /// What listens there belongs to the user with this id.
    #[error("what answers for the sandbox belongs to another user ({0})")]
    Stranger(u32),
    /// It is another version, or not a supervisor.
    #[error("the sandbox's supervisor broke the protocol: {0}")]
    Protocol(String),
    /// Contact with it was lost; here are the system's words.
    #[error("lost contact with the sandbox's supervisor: {0}")]
    Io(#[from] io::Error),
}

impl SupervisorError {
    pub(super) fn file(action: &'static str, path: &Path, error: impl Into<io::Error>) -> Self {
        FileError::new(action, path, error.into()).into()
    }
}

impl From<FrameError> for SupervisorError {
    fn from(error: FrameError) -> Self {
        Self::Protocol(error.to_string())
    }
}
