//! The gateway as a process of this user: found, started where none runs, and asked.
//!
//! One gateway serves one Cofferdam home. How there is never a second one: [`cofferdam_wall::client`].

mod directories;
pub(super) mod wire;

use std::ffi::OsString;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

pub(crate) use cofferdam_wall::client::ANSWER_LIMIT;
use cofferdam_wall::client::{GatewayDirectory, PAUSE, Program, Search, Starter};
use cofferdam_wall::control::{self, Answer, Ask, PROTOCOL};
use tokio::net::UnixStream;

use super::WallError;
use crate::home::Home;
use crate::{detached, embedded, fsx, ids};
pub(crate) use directories::{another_lives, remove_dead};
pub(crate) use wire::GatewayLink;

/// As [`ANSWER_LIMIT`], where a name is resolved first.
const EXPLAIN_LIMIT: Duration = Duration::from_secs(20);
/// How often a gateway that ends at once is asked again.
const STARTS: u32 = 3;

/// Whether a question starts a gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// One is started where none runs.
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
    Ok(GatewayDirectory::find(&home.gateway(PROTOCOL))?.and_then(|at| at.process()))
}

/// The first question on a connection of its own. A gateway that ends just then (unused ones do) is
/// replaced: a question that it did not answer, it did not act on.
pub(crate) async fn begin(
    home: &Home,
    frame: &[u8],
    fds: &[BorrowedFd<'_>],
    start: Start,
    limit: Duration,
) -> Result<(GatewayLink, Answer), WallError> {
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
async fn connect(home: &Home, start: Start) -> Result<GatewayLink, WallError> {
    if start == Start::IfNeeded {
        fsx::private_dir(home.path())?;
    }
    let directory = home.gateway(PROTOCOL);
    let embedded = Embedded(home.programs());
    let starter = (start == Start::IfNeeded).then_some(&embedded as &dyn Starter);
    let mut search = Search::default();
    loop {
        match search.look(&directory, starter) {
            Ok(Some((stream, at))) => {
                return Ok(GatewayLink::new(UnixStream::from_std(stream)?, at));
            }
            Ok(None) => tokio::time::sleep(PAUSE).await,
            Err(error) => return Err(error.into()),
        }
    }
}

/// Starts gateways from the executable that this library carries. The directory in which it may be kept.
#[derive(Debug)]
struct Embedded(PathBuf);

impl Starter for Embedded {
    fn program(&self) -> Result<Program, String> {
        let made = embedded::gateway(&self.0)
            .map_err(|error| format!("cannot make an executable memory file: {error}"))?;
        Ok(Program {
            executable: OsString::from(made.path),
            file: made.file,
            run_as: run_as()?,
        })
    }

    fn spawn(&self, command: Command) -> io::Result<Option<u32>> {
        detached::start(command)
    }
}

/// Whom a gateway becomes.
pub(crate) fn run_as() -> Result<u32, String> {
    ids::gateway().ok_or_else(|| {
        "root has no unprivileged user id to give to it in this container; run as an ordinary \
         user, or map more ids into the container"
            .to_owned()
    })
}
