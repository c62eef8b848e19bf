//! What the internet knows: what it is told to answer, and all that came to it.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use super::frame::Packet;

/// Everything that the internet knows.
#[derive(Debug, Default)]
pub(crate) struct World {
    pub(crate) frames: Mutex<Frames>,
    pub(crate) scripts: Mutex<Scripts>,
    pub(crate) queries: Mutex<Vec<Query>>,
    pub(crate) visits: Mutex<Vec<Visit>>,
}

/// A thread that panicked has left nothing half done here.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One answer to a query for a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// Those of the asked family, with this time to live in seconds.
    Addresses {
        addresses: Vec<IpAddr>,
        ttl: u32,
    },
    NoSuchName,
    ServerFailure,
    /// None at all.
    Silence,
    /// After so many milliseconds, these.
    Slow {
        millis: u64,
        addresses: Vec<IpAddr>,
    },
}

/// What a name is answered with: each reply once, the last one from then on.
pub(crate) type Scripts = HashMap<String, Vec<Reply>>;

/// A query as it arrived.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Query {
    /// With the case it had.
    pub name: String,
    pub kind: u16,
    pub class: u16,
    pub tcp: bool,
}

/// What one of the servers met.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Visit {
    /// The address and port that was visited.
    pub at: SocketAddr,
    pub what: String,
}

/// The frames so far.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    pub(crate) all: Vec<(Packet, Box<[u8]>)>,
    /// Frames that no longer fitted.
    pub(crate) lost: u64,
    /// The last mark that came by.
    pub(crate) marked: u64,
}
