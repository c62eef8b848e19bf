//! The gateway as a process of this user, for who puts sandboxes behind it: found, started where none runs.
//!
//! One gateway serves one directory. Who takes the lock in it starts it; the lock's open file goes on to the
//! gateway and is held for as long as that lives, so there are never two. Nothing here waits: see [`Search`].

mod directory;
mod error;
pub mod frames;
pub(crate) mod lock;
mod search;
mod series;
mod start;

pub use directory::{DirectoryError, GatewayDirectory};
pub use error::SearchError;
pub use search::{PAUSE, Search};
pub use series::Series;
pub use start::{Program, Starter};

use std::time::Duration;

/// How long one answer may take: many rules are compiled first.
pub const ANSWER_LIMIT: Duration = Duration::from_secs(5);
