//! The gateway as a process of this user: found, started where none runs, and asked.
//!
//! One gateway serves one Cofferdam home. Who takes the lock in its directory starts it; the lock's
//! open file goes on to the gateway and is held for as long as that lives, so there are never two.

mod place;
mod start;
mod wire;

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use cofferdam_wall::control::{self, Answer, Ask};

use super::WallError;
use crate::home::Home;
use place::Place;
pub(crate) use place::{another_lives, remove_dead};
pub(crate) use wire::Connection;

/// How long a gateway may be without a socket, or a socket without room, before that is an error.
const CONNECT_LIMIT: Duration = Duration::from_secs(3);
/// How long one answer may take: many rules are compiled first.
pub(crate) const ANSWER_LIMIT: Duration = Duration::from_secs(5);
/// As [`ANSWER_LIMIT`], where a name is resolved first.
const EXPLAIN_LIMIT: Duration = Duration::from_secs(20);
/// How long to wait before looking again.
const PAUSE: Duration = Duration::from_millis(3);
/// How often a gateway that ends at once is started for one question.
const STARTS: u32 = 3;

/// Whether a question starts a gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    IfNeeded,
    /// Without one: [`WallError::NotRunning`].
    Never,
}

/// Asks the gateway of this home. Bounded: 3 s to reach it, 5 s for the answer (20 s to
/// [`Ask::Explain`]). What it cannot do is [`WallError::Refused`]; there is no [`Answer::Error`] among
/// the answers.
pub async fn ask(home: &Home, ask: &Ask, start: Start) -> Result<Answer, WallError> {
    let frame = control::encode(ask)?;
    let limit = match ask {
        Ask::Explain { .. } => EXPLAIN_LIMIT,
        _ => ANSWER_LIMIT,
    };
    let (_, answer) = begin(home, &frame, &[], start, limit).await?;
    Ok(answer)
}

/// The process that serves this home, as it is written down; it may have ended.
pub fn process(home: &Home) -> Result<Option<u32>, WallError> {
    Ok(Place::find(home)?.and_then(|place| place.process()))
}

/// The first question on a connection of its own. A gateway that ends just then (unused ones do) is
/// replaced: a question that it did not answer, it did not act on.
pub(crate) async fn begin(
    home: &Home,
    frame: &[u8],
    fds: &[BorrowedFd<'_>],
    start: Start,
    limit: Duration,
) -> Result<(Connection, Answer), WallError> {
    let mut ended = WallError::Ended(String::new());
    for _ in 0..STARTS {
        let mut connection = connect(home, start).await?;
        match connection.ask(frame, fds, limit).await {
            Ok(answer) => return Ok((connection, answer)),
            Err(error @ WallError::Ended(_)) => ended = error,
            Err(error) => return Err(error),
        }
    }
    Err(ended)
}

/// A connection to the gateway of this home; what is on the other end may be about to end.
async fn connect(home: &Home, start: Start) -> Result<Connection, WallError> {
    let deadline = Instant::now() + CONNECT_LIMIT;
    let mut starts = 0;
    loop {
        let place = match start {
            Start::IfNeeded => Place::make(home)?,
            Start::Never => Place::find(home)?.ok_or(WallError::NotRunning)?,
        };
        if let Some(stream) = place.connect().await? {
            return Ok(Connection::new(stream, place));
        }
        // Held: between its lock and its socket, at its very end, or stopped with a full queue.
        if let Some(lock) = place.lock()? {
            if start == Start::Never {
                return Err(WallError::NotRunning);
            }
            if starts == STARTS {
                return Err(WallError::Ended(place.last_words()));
            }
            starts += 1;
            start::start(&place, lock)?;
            continue;
        }
        if Instant::now() >= deadline {
            return Err(WallError::Silent {
                process: place.process(),
                seconds: CONNECT_LIMIT.as_secs(),
            });
        }
        tokio::time::sleep(PAUSE).await;
    }
}
