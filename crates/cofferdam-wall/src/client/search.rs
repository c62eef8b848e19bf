//! Reaching the gateway of a directory, in looks that do not wait.

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use super::directory::GatewayDirectory;
use super::error::SearchError;
use super::start::{Starter, start};

/// How long a gateway may be without a socket, or a socket without room, before that is an error.
const LIMIT: Duration = Duration::from_secs(3);
/// How long to wait before looking again.
pub const PAUSE: Duration = Duration::from_millis(3);
/// How often a gateway that ends at once is started in one search.
const STARTS: u32 = 3;

/// A search for a gateway. Bounded: 3 s from its beginning.
#[derive(Debug)]
pub struct Search {
    deadline: Instant,
    starts: u32,
}

impl Default for Search {
    fn default() -> Self {
        Self {
            deadline: Instant::now() + LIMIT,
            starts: 0,
        }
    }
}

impl Search {
    /// Looks, and starts a gateway where none runs and there is a `starter`. `None`: look again after [`PAUSE`].
    /// What is on the other end may be about to end.
    pub fn look(
        &mut self,
        directory: &Path,
        starter: Option<&dyn Starter>,
    ) -> Result<Option<(UnixStream, GatewayDirectory)>, SearchError> {
        loop {
            let at = match starter {
                Some(_) => GatewayDirectory::make(directory)?,
                None => GatewayDirectory::find(directory)?.ok_or(SearchError::NotRunning)?,
            };
            if let Some(stream) = at.connect()? {
                return Ok(Some((stream, at)));
            }
            // Held: between its lock and its socket, at its very end, or stopped with a full queue.
            let Some(lock) = at.lock()? else {
                if Instant::now() >= self.deadline {
                    return Err(SearchError::Silent {
                        process: at.process(),
                        seconds: LIMIT.as_secs(),
                    });
                }
                return Ok(None);
            };
            let Some(starter) = starter else {
                return Err(SearchError::NotRunning);
            };
            if self.starts == STARTS {
                return Err(SearchError::Ended(at.last_words()));
            }
            self.starts += 1;
            start(&at, lock, starter)?;
        }
    }
}
