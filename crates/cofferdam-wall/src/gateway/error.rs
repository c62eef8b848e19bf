//! How the gateway ends.

use std::io;

use crate::gateway::filter::FilterError;
use crate::gateway::start::StartError;

/// Why the gateway ended otherwise than by having nothing to do.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    #[error(transparent)]
    Start(#[from] StartError),
    #[error(transparent)]
    Filter(#[from] FilterError),
    #[error("the gateway cannot start a thread: {0}")]
    Thread(io::Error),
    #[error("the gateway's control socket does not work: {0}")]
    Control(io::Error),
    #[error("a thread of the gateway ended")]
    Worker,
}
