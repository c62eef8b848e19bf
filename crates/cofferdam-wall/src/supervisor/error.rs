//! Why a supervisor ends otherwise than it should.

use std::io;

use rustix::io::Errno;

use crate::control::FrameError;

/// Why a supervisor does not begin, or ends otherwise than asked.
#[derive(Debug, thiserror::Error)]
pub enum SupervisorError {
    #[error("standard input is not a starter's socket: {0}")]
    Begin(io::Error),
    #[error("its beginning cannot be read: {0}")]
    Message(#[from] FrameError),
    #[error("it begins with other descriptors than it should")]
    Descriptors,
    #[error("the sandbox's init is dead")]
    Dead,
    #[error("its lock cannot be signed: {0}")]
    Sign(io::Error),
    #[error("its socket cannot be made: {0}")]
    Socket(io::Error),
    #[error("it cannot give up what it does not need: {0}")]
    GiveUp(Errno),
    #[error("it cannot wait: {0}")]
    Wait(io::Error),
}
