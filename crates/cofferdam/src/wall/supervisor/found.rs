//! A supervisor that is found by its socket in the sandbox's state directory, and asked. It may be of another version;
//! what then can still be said to it is its status and to stop.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cofferdam_wall::client::frames;
use cofferdam_wall::supervisor::{self as protocol, Answer, Ask, Heard, Said, Wall};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{PidfdFlags, Signal};
use tokio::net::UnixStream;

use super::error::SupervisorError;
use crate::wall::change::right::Change;
use crate::wall::gateway::wire;

/// For a question that is answered from memory.
const LIMIT: Duration = Duration::from_secs(5);
/// For rules to be in force: a gateway may have to be started first.
const RELOAD_LIMIT: Duration = Duration::from_secs(20);
/// How long to wait before trying again where a queue is full.
const PAUSE: Duration = Duration::from_millis(3);
/// The same where others crowd it out.
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// A sandbox's supervisor, found.
#[derive(Debug)]
pub struct Supervisor {
    /// The sandbox's state directory; its path may be longer than a socket's may.
    pub(super) directory: OwnedFd,
    pub(super) path: PathBuf,
}

/// How a sandbox's place is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// The supervisor's.
    pub process: u32,
    /// Of what it speaks. Equal to [`VERSION`], or only [`Supervisor::stop`] and this are understood.
    pub version: u32,
    /// `None`: of another version.
    pub wall: Option<Wall>,
}

/// The version of what is said to a supervisor here.
pub const VERSION: u32 = protocol::PROTOCOL;

impl Supervisor {
    /// The supervisor of the sandbox with this state directory, whatever its version, with its status. `None`:
    /// nobody keeps the sandbox's place. Bounded: 5 s.
    pub async fn connect(
        state_directory: &Path,
    ) -> Result<Option<(Self, Status)>, SupervisorError> {
        let Some(supervisor) = Self::at(state_directory)? else {
            return Ok(None);
        };
        match supervisor.again_and_again(Ask::Status, LIMIT).await {
            Ok(heard) => Ok(Some((supervisor, status_of(heard)?))),
            Err(SupervisorError::NotRunning) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// As [`Self::ask`], but for what one that ended and one that lives on and has no time say alike: asked again, it says which.
    async fn again_and_again(&self, ask: Ask, limit: Duration) -> Result<Heard, SupervisorError> {
        let until = Instant::now() + limit;
        let mut pause = PAUSE;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.ask(ask, left.max(PAUSE)).await {
                Err(SupervisorError::Ended) if Instant::now() + pause < until => {
                    tokio::time::sleep(pause).await;
                    pause = (2 * pause).min(LONGEST_PAUSE);
                }
                Err(SupervisorError::Silent(_)) => {
                    return Err(SupervisorError::Silent(limit.as_secs()));
                }
                heard => return heard,
            }
        }
    }

    /// `None`: there is no such directory.
    pub(super) fn at(state_directory: &Path) -> Result<Option<Self>, SupervisorError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::open(state_directory, flags, Mode::empty()) {
            Ok(directory) => Ok(Some(Self {
                directory,
                path: state_directory.to_owned(),
            })),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(SupervisorError::file("open", state_directory, errno)),
        }
    }

    /// How the sandbox's place is kept now. Bounded: 5 s.
    pub async fn status(&self) -> Result<Status, SupervisorError> {
        status_of(self.ask(Ask::Status, LIMIT).await?)
    }

    /// Puts the list of rules in force as [`write_rules`](super::rules::write_rules) left it; how many open connections that ended. Where the
    /// network was lost, it is there again. A list that cannot be read ends it: an error says why nothing is
    /// carried. `_change` is what the list was written under. Bounded: 20 s.
    pub async fn reload(&self, _change: &Change) -> Result<u64, SupervisorError> {
        match self.again_and_again(Ask::Reload, RELOAD_LIMIT).await? {
            Heard::Ours(Answer::Reloaded { closed }) => Ok(closed),
            heard => Err(unexpected(heard)),
        }
    }

    /// The same of the one with this state directory, asked nothing else before. `None`: nobody keeps the sandbox's place,
    /// so nothing is carried. Bounded: 20 s.
    pub async fn reload_at(
        state_directory: &Path,
        change: &Change,
    ) -> Result<Option<u64>, SupervisorError> {
        let Some(supervisor) = Self::at(state_directory)? else {
            return Ok(None);
        };
        match supervisor.reload(change).await {
            Ok(closed) => Ok(Some(closed)),
            Err(SupervisorError::NotRunning) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Ends the keeping of the sandbox's place: nothing of it is carried any more, and its lock is free. Whoever
    /// was faster is fine. Bounded: 5 s.
    pub async fn stop(self) -> Result<(), SupervisorError> {
        match self.ask(Ask::Stop, LIMIT).await {
            Ok(
                Heard::Ours(Answer::Stopped)
                | Heard::Other {
                    said: Said::Stopped,
                    ..
                },
            )
            | Err(SupervisorError::NotRunning) => Ok(()),
            Ok(heard) => Err(unexpected(heard)),
            Err(SupervisorError::Ended) => match self.ask(Ask::Status, LIMIT).await {
                Err(SupervisorError::NotRunning) => Ok(()),
                Err(error) => Err(error),
                Ok(_) => Err(SupervisorError::Ended),
            },
            Err(error) => Err(error),
        }
    }

    /// As [`Self::stop`] of the one with this state directory, if there is one; one that answers nobody is killed. Bounded:
    /// 15 s.
    pub async fn end(state_directory: &Path) -> Result<(), SupervisorError> {
        let silent = match Self::connect(state_directory).await {
            Ok(None) => return Ok(()),
            Ok(Some((supervisor, _))) => match supervisor.stop().await {
                Err(error @ SupervisorError::Silent(_)) => error,
                done => return done,
            },
            Err(error @ SupervisorError::Silent(_)) => error,
            Err(error) => return Err(error),
        };
        let Some(supervisor) = Self::at(state_directory)? else {
            return Ok(());
        };
        match tokio::time::timeout(LIMIT, supervisor.kill()).await {
            Ok(killed) => killed,
            Err(_) => Err(silent),
        }
    }

    #[expect(
        deprecated,
        reason = "an OwnedFd stays what it is; the successor is an unsafe function"
    )]
    async fn kill(&self) -> Result<(), SupervisorError> {
        let listener = || async {
            let peer = self.stream().await?.peer_cred()?;
            Ok::<_, SupervisorError>(peer.pid().and_then(rustix::process::Pid::from_raw))
        };
        let found = match listener().await {
            Err(SupervisorError::NotRunning) => return Ok(()),
            found => found?,
        };
        let Some(pid) = found else {
            return Err(SupervisorError::NotRunning);
        };
        let process =
            rustix::process::pidfd_open(pid, PidfdFlags::empty()).map_err(io::Error::from)?;
        // It listens still, so the number was its own when the descriptor was made.
        match listener().await {
            Ok(again) if again == found => {}
            Err(SupervisorError::NotRunning) => return Ok(()),
            other => return other.and(Err(SupervisorError::Ended)),
        }
        rustix::process::pidfd_send_signal(&process, Signal::KILL).map_err(io::Error::from)?;
        // Readable once it is dead.
        tokio::io::unix::AsyncFd::with_interest(process, tokio::io::Interest::READABLE)?
            .readable()
            .await?
            .retain_ready();
        Ok(())
    }

    async fn ask(&self, ask: Ask, limit: Duration) -> Result<Heard, SupervisorError> {
        let asked = async {
            let mut stream = self.stream().await?;
            let frame = protocol::question(ask)?;
            exchange(&mut stream, &frame).await
        };
        let silent = SupervisorError::Silent(limit.as_secs());
        tokio::time::timeout(limit, asked)
            .await
            .unwrap_or(Err(silent))
    }

    async fn stream(&self) -> Result<UnixStream, SupervisorError> {
        let socket = protocol::SOCKET;
        let short = format!("/proc/self/fd/{}/{socket}", self.directory.as_raw_fd());
        loop {
            match UnixStream::connect(&short).await {
                Ok(stream) => {
                    let peer = stream.peer_cred()?;
                    if peer.uid() != rustix::process::geteuid().as_raw() {
                        return Err(SupervisorError::Stranger(peer.uid()));
                    }
                    return Ok(stream);
                }
                Err(error) => match error.kind() {
                    io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                        return Err(SupervisorError::NotRunning);
                    }
                    // Whoever listened closed before it took this in.
                    io::ErrorKind::ConnectionReset => return Err(SupervisorError::Ended),
                    io::ErrorKind::WouldBlock => tokio::time::sleep(PAUSE).await,
                    _ => {
                        let path = self.path.join(socket);
                        return Err(SupervisorError::file("connect to", &path, error));
                    }
                },
            }
        }
    }
}

/// A question and its answer.
pub(super) async fn exchange(
    stream: &mut UnixStream,
    frame: &[u8],
) -> Result<Heard, SupervisorError> {
    let exchanged = async {
        wire::send(stream, frame, &[]).await?;
        wire::receive(stream).await
    };
    match exchanged.await {
        Ok(body) => Ok(protocol::read_answer(&body)?),
        Err(error) if frames::is_end(&error) => Err(SupervisorError::Ended),
        Err(error) => Err(error.into()),
    }
}

/// What a status says, made safe to show.
pub(super) fn status_of(heard: Heard) -> Result<Status, SupervisorError> {
    match heard {
        Heard::Ours(Answer::Status(status)) => Ok(Status {
            process: status.process,
            version: VERSION,
            wall: Some(match status.wall {
                Wall::Lost(why) => Wall::Lost(crate::text::printable(&why)),
                wall => wall,
            }),
        }),
        Heard::Other {
            version,
            said: Said::Status { process },
        } => Ok(Status {
            process,
            version,
            wall: None,
        }),
        heard => Err(unexpected(heard)),
    }
}

/// An answer that is not the one to the question.
fn unexpected(heard: Heard) -> SupervisorError {
    match heard {
        Heard::Ours(Answer::Refused(why)) => SupervisorError::Refused(crate::text::printable(&why)),
        Heard::Other { version, .. } => SupervisorError::OtherVersion(version),
        Heard::Ours(_) => SupervisorError::Protocol("an answer to another question".to_owned()),
    }
}
