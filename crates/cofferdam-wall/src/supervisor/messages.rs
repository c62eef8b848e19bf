//! What is said to a supervisor, in the frames of [`control`].
//!
//! A message begins with the number of its version. A supervisor may be older or newer than who asks, because it
//! lives as long as its sandbox. So some of it never changes: the numbers of [`Ask::Status`] and [`Ask::Stop`],
//! those of their answers and of [`Answer::Refused`], and that the process stands first in a [`Status`].

use serde::{Deserialize, Serialize};

use crate::control::{self, FrameError};

/// Changes whenever a message here changes its meaning.
pub const PROTOCOL: u32 = 1;
/// The longest body of a question in bytes.
#[cfg(feature = "gateway")]
pub(super) const LONGEST: usize = 64;

/// What anybody of the same user may ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ask {
    /// Answered by [`Answer::Status`]. For ever 0.
    Status,
    /// Let go of the sandbox: its network ends, its lock is free, its processes go on. Answered by
    /// [`Answer::Stopped`] when that is done. For ever 1.
    Stop,
    /// Put the list of rules in force as it is now. Who asks holds the lock of changes. Answered by
    /// [`Answer::Reloaded`].
    Reload,
}

/// What a supervisor answers, once to each connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// For ever 0.
    Status(Status),
    /// For ever 1.
    Stopped,
    /// It cannot be done, and why. For ever 2.
    Refused(String),
    /// The list is in force; so many open connections were ended by that.
    Reloaded { closed: u64 },
}

/// How a sandbox's place is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// The supervisor's number. For ever first.
    pub process: u32,
    pub wall: Wall,
    /// As in [`control::Registrant::epoch`], of what was registered last.
    pub epoch: u32,
}

/// A supervised sandbox's network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Wall {
    /// It is not behind the wall: it has none, or the host's own.
    None,
    /// A gateway carries its connections.
    Carried,
    /// The gateway ended; another one is being found or started. Nothing is carried meanwhile.
    Recovering,
    /// Given up, and why. Nothing is carried before a [`Ask::Reload`] succeeds.
    Lost(String),
}

/// What the starter says, once. With it come, in this order: the lock; a pidfd of the sandbox's init; the state
/// directory; and where it is behind the wall the four sockets and the log in the order of
/// [`control::Registrant`], then, if [`Behind::epoch`] says so, the connection that has registered them. Both
/// sides are of one build, so it has no version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Beginning {
    /// The sandbox's id.
    pub sandbox: String,
    pub behind: Option<Behind>,
}

/// How a supervisor finds its gateway.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Behind {
    /// The path of the gateway's directory.
    pub gateway: Vec<u8>,
    /// The path of the lock that is held while rules change.
    pub changes: Vec<u8>,
    /// Whom a gateway becomes where its starter is root.
    pub run_as: u32,
    /// Of the registration that is handed over; `None`: it is to be made.
    pub epoch: Option<u32>,
}

/// A question as a whole frame.
pub fn question(ask: Ask) -> Result<Vec<u8>, FrameError> {
    control::encode(&(PROTOCOL, ask))
}

/// What a frame's body asks. `None`: a version that is not ours asks what only it knows.
#[cfg(feature = "gateway")]
pub(crate) fn read_question(body: &[u8]) -> Result<Option<Ask>, FrameError> {
    let (version, kind): (u32, u32) = control::decode_front(body)?;
    if version == PROTOCOL {
        let (_, ask): (u32, Ask) = control::decode(body)?;
        return Ok(Some(ask));
    }
    Ok(match kind {
        0 => Some(Ask::Status),
        1 => Some(Ask::Stop),
        _ => None,
    })
}

/// An answer as a whole frame.
#[cfg(feature = "gateway")]
pub(super) fn answer(answer: &Answer) -> Result<Vec<u8>, FrameError> {
    control::encode(&(PROTOCOL, answer))
}

/// An answer as it can be understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    Ours(Answer),
    /// Of another version.
    Other {
        version: u32,
        said: Said,
    },
}

/// What is the same in all versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    Status {
        process: u32,
    },
    Stopped,
    Refused(String),
    /// Something that only that version knows.
    More,
}

/// What a frame's body answers.
pub fn read_answer(body: &[u8]) -> Result<Heard, FrameError> {
    let (version, kind): (u32, u32) = control::decode_front(body)?;
    if version == PROTOCOL {
        let (_, answer): (u32, Answer) = control::decode(body)?;
        return Ok(Heard::Ours(answer));
    }
    let said = match kind {
        0 => {
            let (.., process): (u32, u32, u32) = control::decode_front(body)?;
            Said::Status { process }
        }
        1 => Said::Stopped,
        2 => {
            let (.., why): (u32, u32, String) = control::decode_front(body)?;
            Said::Refused(why)
        }
        _ => Said::More,
    };
    Ok(Heard::Other { version, said })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes that no later version may change: a version that is not ours is read by them.
    #[test]
    fn what_all_versions_share_stays() {
        let body = |frame: Vec<u8>| frame[control::HEAD..].to_vec();
        assert_eq!(body(question(Ask::Status).unwrap()), [1, 0]);
        assert_eq!(body(question(Ask::Stop).unwrap()), [1, 1]);
        let status = Answer::Status(Status {
            process: 7,
            wall: Wall::Carried,
            epoch: 9,
        });
        assert_eq!(body(answer(&status).unwrap()), [1, 0, 7, 1, 9]);
        assert_eq!(body(answer(&Answer::Stopped).unwrap()), [1, 1]);
        let refused = Answer::Refused("no".to_owned());
        assert_eq!(body(answer(&refused).unwrap()), [1, 2, 2, b'n', b'o']);
    }

    #[test]
    fn another_version_is_read_as_far_as_it_is_the_same() {
        let (read, heard) = (read_question, read_answer);
        assert_eq!(read(&[2, 0]), Ok(Some(Ask::Status)));
        assert_eq!(read(&[2, 1, 99]), Ok(Some(Ask::Stop)));
        assert_eq!(read(&[2, 2]), Ok(None));
        assert_eq!(read(&[1, 2]), Ok(Some(Ask::Reload)));
        // Ours has no rest.
        assert_eq!(read(&[1, 1, 99]), Err(FrameError::Malformed));
        assert_eq!(read(&[2]), Err(FrameError::Malformed));
        let other = |said| Ok(Heard::Other { version: 2, said });
        assert_eq!(
            heard(&[2, 0, 7, 1, 2, 3]),
            other(Said::Status { process: 7 })
        );
        assert_eq!(heard(&[2, 1, 5]), other(Said::Stopped));
        assert_eq!(
            heard(&[2, 2, 1, b'n', 5]),
            other(Said::Refused("n".to_owned()))
        );
        assert_eq!(heard(&[2, 9]), other(Said::More));
    }
}
