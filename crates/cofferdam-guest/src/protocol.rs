//! Frames: a little-endian `u32` length, at most [`MAX_FRAME`], then one postcard value.
//!
//! The host first sends a [`Setup`], then [`Request`]s; the guest answers with [`Reply`]s. The three
//! file descriptors of a [`Request::Exec`] travel with the first byte of its frame.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The longest body of a frame in bytes.
pub const MAX_FRAME: usize = 1 << 20;
/// The length of a frame's head in bytes.
pub const HEAD: usize = 4;
/// The agent's uid and gid as seen inside.
pub const AGENT_ID: u32 = 1000;

/// The ports of the wall's sockets on the sandbox's loopback address.
pub const REDIRECT_PORT: u16 = 15001;
pub const LOOKUPS_PORT: u16 = 15053;
/// For programs that want a proxy: CONNECT, absolute-form HTTP, SOCKS5.
pub const PROXY_PORT: u16 = 3128;
/// How many descriptors come with [`Reply::Ready`] where the set-up asks for [`Network::Wall`]: the listener
/// for connections, the listener of the proxy, the socket for lookups, the reports of refused packets.
pub const WALL_SOCKETS: usize = 4;
/// What `/etc/resolv.conf` names behind the wall. Lookups are redirected wherever they go, so any address does
/// that is not loopback; this one is for documentation only (RFC 5737), and never stands for a name.
pub const NAMESERVER: [u8; 4] = [192, 0, 2, 53];
/// Asked for when the wall is tried: nothing can allow it (RFC 2606).
pub const REFUSED_NAME: &str = "wall.cofferdam.invalid";
/// Connected to when the wall is tried: it stands for no name and no rule may contain it.
pub const REFUSED_ADDRESS: [u8; 4] = [198, 19, 255, 254];

/// The frame does not follow the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameError {
    /// Longer than [`MAX_FRAME`].
    TooLong(usize),
    /// Not a value of the expected type.
    Malformed,
}

impl std::fmt::Display for FrameError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TooLong(length) => write!(f, "a frame of {length} bytes is too long"),
            Self::Malformed => f.write_str("a malformed frame"),
        }
    }
}

impl std::error::Error for FrameError {}

/// A whole frame, head included.
pub fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>, FrameError> {
    let frame = postcard::to_extend(value, vec![0u8; HEAD]).map_err(|_| FrameError::Malformed)?;
    finish(frame)
}

fn finish(mut frame: Vec<u8>) -> Result<Vec<u8>, FrameError> {
    let length = frame.len() - HEAD;
    if length > MAX_FRAME {
        return Err(FrameError::TooLong(length));
    }
    let head = u32::try_from(length).map_err(|_| FrameError::TooLong(length))?;
    frame[..HEAD].copy_from_slice(&head.to_le_bytes());
    Ok(frame)
}

/// The length of the body that follows this head.
pub fn body_length(head: [u8; HEAD]) -> Result<usize, FrameError> {
    let length = u32::from_le_bytes(head) as usize;
    if length > MAX_FRAME {
        Err(FrameError::TooLong(length))
    } else {
        Ok(length)
    }
}

/// The value of a frame's body; bytes left over are an error.
pub fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T, FrameError> {
    match postcard::take_from_bytes(body) {
        Ok((value, [])) => Ok(value),
        _ => Err(FrameError::Malformed),
    }
}

/// What a sandbox is made of. Paths are bytes: host paths need not be UTF-8.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setup {
    pub hostname: String,
    pub agent: Agent,
    /// Mounted in this order.
    pub mounts: Vec<SetupMount>,
    pub limits: ProcessLimits,
    /// Programs start here unless a request says otherwise.
    pub workdir: Vec<u8>,
    pub network: Network,
}

/// What the sandbox's network namespace is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Network {
    /// Its own, with the loopback interface alone.
    None,
    /// Its own; connections and lookups are led to the sockets that come with [`Reply::Ready`].
    Wall,
    /// The host's.
    Open,
}

/// Whose host ids the sandbox's processes have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Agent {
    /// An ordinary caller's own.
    Caller,
    /// The caller is root: these, and what is mounted is mapped to them.
    Separate { uid: u32, gid: u32 },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetupMount {
    pub source: Source,
    pub target: Vec<u8>,
    pub writable: bool,
    /// Left out without a word where the source cannot be opened.
    pub optional: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Source {
    Path(Vec<u8>),
    /// An empty directory that nobody can write.
    Nothing,
    /// What an earlier mount shows at the target already. No symlink is followed.
    Target,
    /// No mount: a symlink of ours with this text.
    Link(Vec<u8>),
}

/// Limits that every program inherits. `None` leaves the caller's in force.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessLimits {
    /// Processes and threads of the whole sandbox (`RLIMIT_NPROC` counts inside a user namespace).
    pub processes: Option<u64>,
    /// Of one process.
    pub open_files: Option<u64>,
    /// Bytes of one file.
    pub file_size: Option<u64>,
}

/// What the host asks. Every `request` and every `exec` is a number that the host uses once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    Exec {
        exec: u64,
        arguments: Vec<Vec<u8>>,
        /// The whole environment.
        environment: Vec<(Vec<u8>, Vec<u8>)>,
        /// The set-up's workdir unless given.
        directory: Option<Vec<u8>>,
    },
    /// To the program's process group; `SIGKILL` also to its descendants and its session.
    Signal {
        request: u64,
        exec: u64,
        signal: i32,
    },
    /// Stops every process but the guest itself.
    Freeze {
        request: u64,
    },
    Thaw {
        request: u64,
    },
    Ping {
        request: u64,
    },
    /// Tries the wall from inside, as a program would: answered by [`Reply::Proved`].
    Prove {
        request: u64,
        passes: Passage,
    },
}

/// What is carried while the wall is tried, and nothing else is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passage {
    pub name: String,
    pub port: u16,
}

/// What the guest answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// The sandbox is up and privileges are gone.
    Ready,
    /// This machine cannot give what the set-up asks.
    Unsupported {
        what: String,
        hint: String,
    },
    /// Setting up failed otherwise.
    Broken {
        what: String,
    },
    Started {
        exec: u64,
    },
    NotStarted {
        exec: u64,
        errno: i32,
        step: ExecStep,
    },
    Exited {
        exec: u64,
        exit: GuestExit,
    },
    Done {
        request: u64,
    },
    /// The request could not be carried out.
    Failed {
        request: u64,
        errno: i32,
    },
    Proved {
        request: u64,
        findings: Findings,
    },
}

/// What was found when the wall was tried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Findings {
    /// Every network interface of the namespace.
    pub interfaces: Vec<String>,
    pub attempts: Vec<Finding>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    pub attempt: Attempt,
    pub outcome: Outcome,
}

/// What is tried. A wall that stands refuses each but the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Attempt {
    /// [`REFUSED_NAME`], from a server out there.
    LookupUdp,
    LookupTcp,
    /// [`REFUSED_ADDRESS`].
    Address,
    /// The metadata service of most clouds, and of another one.
    Metadata,
    OtherMetadata,
    /// UDP, not to a name server.
    Datagram,
    /// ICMP without a privilege.
    Ping,
    /// Packets of one's own making.
    Raw,
    Packet,
    ConnectV6,
    DatagramV6,
    /// [`REFUSED_NAME`] by way of the proxy.
    Proxy,
    /// The [`Passage`]: looked up, connected to and read to its end.
    Passage,
}

impl Attempt {
    pub const ALL: [Self; 13] = [
        Self::LookupUdp,
        Self::LookupTcp,
        Self::Address,
        Self::Metadata,
        Self::OtherMetadata,
        Self::Datagram,
        Self::Ping,
        Self::Raw,
        Self::Packet,
        Self::ConnectV6,
        Self::DatagramV6,
        Self::Proxy,
        Self::Passage,
    ];
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// The error number; 0 where the connection was closed without a byte.
    Refused(i32),
    /// It could be done; the first bytes of what came back.
    Answered(Vec<u8>),
    /// Nothing came back in time.
    Silence,
}

/// What a program that was not started failed at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExecStep {
    Process,
    Directory,
    Limits,
    Filter,
    Program,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum GuestExit {
    Code(i32),
    Signal(i32),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_survive_and_nothing_else_does() {
        let reply = Reply::NotStarted {
            exec: 7,
            errno: 2,
            step: ExecStep::Program,
        };
        let frame = encode(&reply).unwrap();
        let (head, body) = frame.split_at(HEAD);
        assert_eq!(body_length(head.try_into().unwrap()), Ok(body.len()));
        assert_eq!(decode::<Reply>(body), Ok(reply));
        let mut longer = body.to_vec();
        longer.push(0);
        assert_eq!(decode::<Reply>(&longer), Err(FrameError::Malformed));
        assert_eq!(
            decode::<Reply>(&body[..body.len() - 1]),
            Err(FrameError::Malformed)
        );
        assert_eq!(decode::<Reply>(&[0xff; 9]), Err(FrameError::Malformed));
    }

    /// What a guest says, and what is said to it: no bytes do more than be refused.
    #[test]
    fn fuzz_guest_protocol() {
        let replies = [
            Reply::Ready,
            Reply::Unsupported {
                what: "this".to_owned(),
                hint: "that".to_owned(),
            },
            Reply::Exited {
                exec: 300,
                exit: GuestExit::Signal(9),
            },
            Reply::Proved {
                request: 1,
                findings: Findings {
                    interfaces: vec!["lo".to_owned()],
                    attempts: vec![Finding {
                        attempt: Attempt::Proxy,
                        outcome: Outcome::Answered(vec![1, 2, 3]),
                    }],
                },
            },
        ];
        let request = Request::Exec {
            exec: 1,
            arguments: vec![b"true".to_vec()],
            environment: vec![(b"A".to_vec(), b"b".to_vec())],
            directory: None,
        };
        let frames = replies.iter().map(encode).chain([encode(&request)]);
        let seeds: Vec<_> = frames.map(|frame| frame.unwrap()).collect();
        cofferdam_lab::fuzz::mutate("guest protocol", &seeds, |frame| {
            let Some((head, body)) = frame.split_first_chunk::<HEAD>() else {
                return;
            };
            let _ = body_length(*head);
            if let Ok(reply) = decode::<Reply>(body) {
                let again = encode(&reply).unwrap();
                assert_eq!(decode::<Reply>(&again[HEAD..]), Ok(reply));
            }
            let _ = (decode::<Request>(body), decode::<Setup>(body));
        });
    }

    #[test]
    fn long_frames_are_refused_on_both_sides() {
        let long = Reply::Broken {
            what: "x".repeat(MAX_FRAME),
        };
        assert!(matches!(encode(&long), Err(FrameError::TooLong(_))));
        assert_eq!(
            body_length(u32::MAX.to_le_bytes()),
            Err(FrameError::TooLong(0xffff_ffff))
        );
    }
}
