//! The messages between the host and the guest.
//!
//! The host first sends a [`Setup`], then [`Request`]s; the guest answers with [`Reply`]s. Descriptors travel with the
//! first byte of the frame that they belong to. A sandbox that outlives its maker is spoken to by others too, over the
//! listener that came with its set-up: there each side first says its [`greeting`].

pub mod browse;
pub mod files;
mod frame;
mod proof;
pub mod push;
mod setup;

use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use frame::{FrameError, HEAD, MAX_FRAME, body_length, decode, encode};
pub use proof::{Attempt, Finding, Findings, Observed, Passage};
pub use setup::{
    Agent, AsRoot, Attach, Attached, Expected, Lifetime, Network, ProcessLimits, Seen, Setup,
    SetupMount, Source, UNFINISHED_RENAME, UPPER, WORK,
};

/// Changes whenever a message here changes its meaning: a host and a guest of different numbers do not go on.
/// Also with each new question: who does not know one ends the connection over it, and the programs that hang on that. Not so with
/// one that is asked of no guest but those whose maker has asked it already ([`Request::Watch`]).
pub const PROTOCOL: u32 = 4;
/// In a guest's greeting beside [`PROTOCOL`]: it knows [`Request::Browse`] and [`Request::Memory`], which are asked of no other one.
pub const BROWSES: u32 = 1 << 16;
/// What a guest of this version greets with.
pub const SPOKEN: u32 = PROTOCOL | BROWSES;
/// The length of a [`greeting`] in bytes.
pub const GREETING: usize = 8;
/// What no other protocol begins with.
const MAGIC: [u8; 4] = *b"cdam";

/// What each side says first over the listener, the host before the guest. Its form never changes, so that two that do
/// not understand each other can still say so.
pub fn greeting(version: u32) -> [u8; GREETING] {
    let mut bytes = [0; GREETING];
    bytes[..4].copy_from_slice(&MAGIC);
    bytes[4..].copy_from_slice(&version.to_le_bytes());
    bytes
}

/// Whether a greeting with this version is of somebody who is understood, whatever else they know.
pub fn is_spoken(version: u32) -> bool {
    version & 0xffff == PROTOCOL
}

/// The version that a greeting names; none where it is no greeting.
pub fn greeted(bytes: [u8; GREETING]) -> Option<u32> {
    let [a, b, c, d, version @ ..] = bytes;
    ([a, b, c, d] == MAGIC).then(|| u32::from_le_bytes(version))
}

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

/// The name of the control group that a sandbox's programs are in, below that of its init.
pub const PROGRAMS_GROUP: &str = "programs";
/// How many bytes of a program's arguments are remembered for [`Request::Programs`].
pub const SHOWN_ARGUMENTS: usize = 256;
/// So many programs are listed, the last ones that were started.
pub const LISTED: usize = 1024;
/// So many bytes of a detached program's output are kept. What follows is dropped, with a line that says so.
pub const MOST_OUTPUT: u64 = 64 << 20;

/// So many connections to ports are made for one of the host's processes at once.
pub const MOST_CONNECTING: usize = 16;
/// The longest that one of them may take.
pub const MOST_PATIENCE: Duration = Duration::from_secs(10);

/// What the host asks. Every `request` and every `exec` is a number that is used once on its connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    Exec {
        exec: u64,
        arguments: Vec<Vec<u8>>,
        /// Added to the set-up's environment.
        environment: Vec<(Vec<u8>, Vec<u8>)>,
        /// The set-up's workdir unless given.
        directory: Option<Vec<u8>>,
        streams: Streams,
    },
    /// To the program's process group; `SIGKILL` also to its descendants and its session.
    Signal {
        request: u64,
        exec: u64,
        signal: i32,
    },
    /// The same to a program that any connection has started, by its number in [`Reply::Programs`].
    SignalProgram {
        request: u64,
        program: u64,
        signal: i32,
    },
    /// Stops every process but the guest itself, until [`Request::Thaw`] or the end of this connection.
    Freeze {
        request: u64,
    },
    Thaw {
        request: u64,
    },
    /// Stops every process but the guest itself, until [`Request::Resume`], whoever asks for it.
    Pause {
        request: u64,
    },
    Resume {
        request: u64,
    },
    /// Somebody sees to what appears in files that the sandbox shares with its user. From the first one on, programs go on, and are
    /// started, only while a connection lives that has asked it.
    Watch {
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
    /// On the connection of the set-up: the sandbox is whole. From now on nothing but [`Request::End`] ends it.
    Stay {
        request: u64,
    },
    /// Ends the sandbox with everything in it. The end of the connection is the answer.
    End,
    /// Answered by [`Reply::Status`].
    Status {
        request: u64,
    },
    /// Answered by [`Reply::Programs`].
    Programs {
        request: u64,
    },
    /// Answered by [`Reply::Sockets`] with duplicates of the wall's sockets, or by [`Reply::Failed`] where there is
    /// no wall.
    Sockets {
        request: u64,
    },
    /// Answered by [`Reply::Terminals`] with the directory of the sandbox's terminals (a devpts).
    Terminals {
        request: u64,
    },
    /// Puts files into a directory, which is made where it is missing, as the agent. Two streams come along: entries
    /// to read ([`files::Entry`]), and where what is known of them is written ([`files::Known`]). What is there already
    /// is replaced, a directory only by a directory.
    Unpack {
        request: u64,
        /// An absolute path without symlinks.
        directory: Vec<u8>,
        /// See [`files::Known::Path`].
        tracked: bool,
    },
    /// Tells what is in a directory that was not put there as it is. Two streams come along: what is known, to read,
    /// and where the entries are written.
    Snapshot {
        request: u64,
        directory: Vec<u8>,
        /// Bytes of one file.
        largest: u64,
    },
    /// Brings files to places anywhere inside, as the agent. Two streams come along: [`files::Parcel`], to read, and where for
    /// each file one [`files::Receipt`] is written. Missing directories are made. No symlink is followed on the way, and one at
    /// the place itself is replaced. What goes wrong with one file does not hold up the others.
    Deliver {
        request: u64,
    },
    /// A connection to a TCP server on the sandbox's own loopback: 127.0.0.1, and `::1` where nobody listens there.
    /// Answered by [`Reply::Connected`], by [`Reply::Stopped`], or by [`Reply::Failed`]: ECONNREFUSED, nobody listens;
    /// ETIMEDOUT, the server does not take it; EAGAIN, [`MOST_CONNECTING`] are being made; EACCES, the port is the wall's;
    /// EOPNOTSUPP, its loopback is the machine's.
    Connect {
        request: u64,
        port: u16,
        /// In milliseconds, [`MOST_PATIENCE`] at most.
        patience: u32,
    },
    /// Tells what is at a place inside, as the agent sees it. Two streams come along: one [`browse::Question`], to read, and where the
    /// answer is written ([`browse::Seen`]). Only of guests that say [`BROWSES`].
    Browse {
        request: u64,
    },
    /// Answered by [`Reply::Memory`]. Only of guests that say [`BROWSES`].
    Memory {
        request: u64,
    },
}

impl Request {
    /// How many streams come with it. Here they are descriptors; a transport that cannot pass any carries as many
    /// streams of frames, by the request's number and theirs.
    pub fn streams(&self) -> usize {
        match self {
            Self::Exec { streams, .. } => streams.descriptors(),
            Self::Unpack { .. }
            | Self::Snapshot { .. }
            | Self::Deliver { .. }
            | Self::Browse { .. } => 2,
            _ => 0,
        }
    }
}

/// What a program's standard descriptors are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Streams {
    /// The three that came with the request.
    Given,
    /// The three that came with the request are one terminal, which becomes the program's controlling terminal.
    Terminal,
    /// Two came with the request. What the program prints is appended to the first one, at most [`MOST_OUTPUT`]; when
    /// it has ended, [`end_text`] is written to the second one. The end of the connection does not end the program.
    Detached,
}

impl Streams {
    /// How many descriptors come with the request.
    pub fn descriptors(self) -> usize {
        match self {
            Self::Given | Self::Terminal => 3,
            Self::Detached => 2,
        }
    }
}

/// What is written where the end of a detached program is told: `code 0` or `signal 9`, and a line's end. `lost`: so many bytes
/// of its output are missing at the end; where there are any, a line `lost 5` follows.
pub fn end_text(exit: GuestExit, lost: u64) -> String {
    let exit = match exit {
        GuestExit::Code(code) => format!("code {code}\n"),
        GuestExit::Signal(signal) => format!("signal {signal}\n"),
    };
    match lost {
        0 => exit,
        lost => format!("{exit}lost {lost}\n"),
    }
}

/// The other direction; none where it is no such text.
pub fn read_end_text(text: &[u8]) -> Option<(GuestExit, u64)> {
    let text = std::str::from_utf8(text).ok()?;
    let mut lines = text.split_inclusive('\n').map(|line| line.split_once(' '));
    let (kind, number) = lines.next()??;
    let number: i32 = number.trim_end().parse().ok()?;
    let exit = match kind {
        "code" => GuestExit::Code(number),
        "signal" => GuestExit::Signal(number),
        _ => return None,
    };
    let lost = match lines.next() {
        None => 0,
        Some(line) => line?.1.trim_end().parse().ok()?,
    };
    // Only as it is written: no sign, no zeros before it.
    (end_text(exit, lost) == text).then_some((exit, lost))
}

/// What stands in a detached program's output where bytes are missing.
pub fn lost_note(bytes: u64) -> String {
    format!("\n[cofferdam: {bytes} bytes are missing here, they could not be written]\n")
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
        /// Its number in [`Reply::Programs`].
        program: u64,
    },
    NotStarted {
        exec: u64,
        errno: i32,
        step: ExecStep,
    },
    /// Nothing is started, and nobody connected to, while everything has stopped.
    Stopped {
        /// Of the exec or the request.
        number: u64,
        stop: Stop,
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
    Status {
        request: u64,
        status: Status,
    },
    Programs {
        request: u64,
        /// In the order in which they were started.
        programs: Vec<ProgramEntry>,
    },
    Sockets {
        request: u64,
    },
    Terminals {
        request: u64,
    },
    /// With the connected socket.
    Connected {
        request: u64,
    },
    Memory {
        request: u64,
        /// Bytes that its processes have for themselves, not those of files that they share.
        bytes: u64,
    },
}

/// Why everything has stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stop {
    /// Until [`Request::Resume`].
    Pause,
    /// A connection holds it by [`Request::Freeze`].
    Freeze,
    /// Until somebody asks [`Request::Watch`] again.
    Unwatched,
}

/// How a sandbox is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    pub paused: bool,
    /// Stopped by connections, for as long as they live.
    pub frozen: bool,
    /// How many programs run. What they started is not counted.
    pub programs: u32,
    pub stopping: Stopping,
}

/// By what a sandbox is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stopping {
    /// The kernel keeps all programs frozen.
    Freezer,
    /// SIGSTOP: some events wake a program for a moment.
    Signals,
}

/// A program that the host started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramEntry {
    pub program: u64,
    /// As many as fit into [`SHOWN_ARGUMENTS`], the last one cut there.
    pub arguments: Vec<Vec<u8>>,
    pub detached: bool,
    /// The connection lives that started it, and it is to end with that.
    pub awaited: bool,
    pub terminal: bool,
    /// So many bytes that it printed last could not be written, where it is [`Streams::Detached`].
    pub lost: u64,
    /// None while it runs.
    pub exit: Option<GuestExit>,
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
            Reply::Started {
                exec: 1,
                program: 9,
            },
            Reply::Stopped {
                number: 2,
                stop: Stop::Freeze,
            },
            Reply::Status {
                request: 4,
                status: Status {
                    paused: true,
                    frozen: false,
                    programs: 7,
                    stopping: Stopping::Freezer,
                },
            },
            Reply::Programs {
                request: 5,
                programs: vec![ProgramEntry {
                    program: 3,
                    arguments: vec![b"sleep".to_vec(), b"9".to_vec()],
                    detached: true,
                    awaited: false,
                    terminal: false,
                    lost: 9,
                    exit: Some(GuestExit::Code(1)),
                }],
            },
            Reply::Sockets { request: 6 },
            Reply::Connected { request: 7 },
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
                        outcome: Observed::Answered(vec![1, 2, 3]),
                    }],
                },
            },
        ];
        let requests = [
            Request::Exec {
                exec: 1,
                arguments: vec![b"true".to_vec()],
                environment: vec![(b"A".to_vec(), b"b".to_vec())],
                directory: None,
                streams: Streams::Detached,
            },
            Request::SignalProgram {
                request: 2,
                program: 3,
                signal: 15,
            },
            Request::Snapshot {
                request: 3,
                directory: b"/work".to_vec(),
                largest: 9,
            },
            Request::Connect {
                request: 4,
                port: 8080,
                patience: 5000,
            },
            Request::End,
        ];
        let frames = replies
            .iter()
            .map(encode)
            .chain(requests.iter().map(encode));
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

    /// The two things that are no frames: a greeting, and the end of a detached program.
    #[test]
    fn fuzz_guest_greetings_and_ends() {
        let exits = [GuestExit::Code(0), GuestExit::Signal(9)];
        let mut seeds = vec![greeting(PROTOCOL).to_vec()];
        seeds.extend(exits.map(|exit| end_text(exit, 0).into_bytes()));
        seeds.extend(exits.map(|exit| end_text(exit, 70).into_bytes()));
        seeds.extend(["code +1\n", "signal 09\n", "code 1", "code 1\n\n"].map(Into::into));
        cofferdam_lab::fuzz::mutate("guest greetings and ends", &seeds, |bytes| {
            if let Ok(eight) = <[u8; GREETING]>::try_from(bytes)
                && let Some(version) = greeted(eight)
            {
                assert_eq!(greeting(version), eight);
            }
            if let Some((exit, lost)) = read_end_text(bytes) {
                assert_eq!(end_text(exit, lost).as_bytes(), bytes);
            }
        });
    }

    #[test]
    fn ends_are_written_in_one_way() {
        for exit in [
            GuestExit::Code(0),
            GuestExit::Code(-1),
            GuestExit::Signal(9),
        ] {
            for lost in [0, 1, u64::MAX] {
                let text = end_text(exit, lost);
                assert_eq!(read_end_text(text.as_bytes()), Some((exit, lost)));
            }
        }
        for other in [
            "",
            "code",
            "code 1",
            "code +1\n",
            "code 01\n",
            "code 1\n\n",
            "end 1\n",
            "code 1\nlost 0\n",
            "code 1\nlost 5",
            "code 1\nlost 5\nlost 5\n",
            "code 1\nkept 5\n",
        ] {
            assert_eq!(read_end_text(other.as_bytes()), None, "{other:?}");
        }
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
