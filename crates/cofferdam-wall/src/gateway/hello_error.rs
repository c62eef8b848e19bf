//! Why a connection is closed for what its TLS client hello says, or because none comes.

use std::io;
use std::time::Duration;

use crate::gateway::budget::Spent;
use crate::{HostName, SniError};

/// For the client hello to be complete.
pub(super) const TIME: Duration = Duration::from_secs(10);

/// Why the connection is closed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HelloError {
    #[error(transparent)]
    Sni(#[from] SniError),
    #[error("its TLS client hello names {0} instead")]
    Other(HostName),
    #[error("what follows its TLS client hello is not what TLS sends there")]
    After,
    #[error("its rule compares a name, and this is an address")]
    NoName,
    #[error("no TLS client hello came within {} s", TIME.as_secs())]
    Late,
    #[error(transparent)]
    Spent(#[from] Spent),
    /// The client went away: nothing was refused.
    #[error("the connection ended before its TLS client hello: {0}")]
    Ended(#[from] io::Error),
}
