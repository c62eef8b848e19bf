//! Why no gateway is reached.

use super::directory::DirectoryError;

/// Why no gateway is reached.
#[derive(Debug, thiserror::Error)]
pub enum SearchError {
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    #[error("cannot start the gateway: {0}")]
    Start(String),
    #[error("no gateway is running")]
    NotRunning,
    /// As often as it was started, with what it said last.
    #[error("the gateway ends as soon as it is started: {0}")]
    Ended(String),
    /// Its lock is held, and it says nothing.
    #[error("the gateway did not answer within {seconds} s")]
    Silent { process: Option<u32>, seconds: u64 },
}
