//! What the library and the gateway say to each other, over a unix socket that only its owner can open.
//!
//! In frames of at most [`MAX_FRAME`] bytes. The library asks ([`Ask`]), the gateway answers each question once and in
//! order ([`Answer`]).

use std::net::IpAddr;

pub use cofferdam_frame::{FrameError, HEAD, decode, decode_front};
use serde::{Deserialize, Serialize};

use crate::rule::Origin;

/// Changes whenever a message here changes its meaning: gateways of different numbers do not meet.
pub const PROTOCOL: u32 = 2;
/// The longest body of a frame in bytes: room for 100,000 rules.
pub const MAX_FRAME: usize = 64 << 20;
/// How many descriptors come with [`Ask::Register`]: see [`Registrant`].
pub const DESCRIPTORS: usize = 5;
/// How many bytes the answer has that a proving sandbox must get.
pub const ANSWER: usize = 16;

/// A rule on its way: its text form and who made it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleLine {
    pub text: String,
    pub origin: Origin,
}

/// What the library asks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ask {
    /// Puts a sandbox behind this gateway for as long as the connection lives. Its descriptors travel with
    /// the first byte of this frame. Answered by [`Answer::Done`],
    /// and by [`Answer::Proving`] where it proves.
    Register(Registrant),
    /// On the connection that registered: the self-test is over, the policy counts from now on. Answered by
    /// [`Answer::Seen`].
    Open,
    /// A new policy for a sandbox, from any connection. Answered by [`Answer::RulesSet`]; where a rule does
    /// not compile, by [`Answer::Error`], and the old policy stays.
    SetRules {
        sandbox: String,
        rules: Vec<RuleLine>,
    },
    /// What was refused to a sandbox so far. Answered by [`Answer::Refused`].
    Refused { sandbox: String },
    /// What these rules say about a host (a name or an address) and a port. Answered by
    /// [`Answer::Explained`].
    Explain {
        rules: Vec<RuleLine>,
        host: String,
        port: u16,
    },
    /// Answered by [`Answer::Status`].
    Status,
}

/// A sandbox that wants a network. With it come, in this order: the TCP listener to which every connection
/// of the sandbox is redirected; the TCP listener of the proxy; the UDP socket to which lookups are
/// redirected; the netlink socket on which the kernel reports refused packets; the log, open for appending.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registrant {
    /// The sandbox's id.
    pub sandbox: String,
    pub rules: Vec<RuleLine>,
    /// Counts the tables of synthetic addresses that this sandbox has had.
    pub epoch: u32,
    /// Until [`Ask::Open`] everything is refused and counted, and nothing is logged. One thing is carried: who
    /// connects to the port of [`Answer::Proving`] on this machine, by its name, gets these bytes.
    pub proving: Option<[u8; ANSWER]>,
}

/// What arrived at the gateway while a sandbox was proving.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// Over UDP or TCP.
    pub lookups: u32,
    /// Redirected TCP connections, lookups over TCP not among them.
    pub connections: u32,
    /// To the proxy.
    pub proxied: u32,
    /// Packets that the kernel refused and reported.
    pub packets: u32,
}

/// What the gateway answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    Done,
    /// Registered; the self-test may begin.
    Proving {
        /// The port of `host.cofferdam.internal` that answers as [`Registrant::proving`] says.
        port: u16,
    },
    Seen(Seen),
    /// How many open connections the new policy ended.
    RulesSet {
        closed: u64,
    },
    /// Most often refused first; bounded.
    Refused(Vec<Refused>),
    Explained(Explanation),
    Status(Vec<Status>),
    /// What was asked cannot be done; what was in force stays.
    Error(String),
}

/// One thing that was refused, however often.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// `NAME:PORT`, `NAME`, `ADDRESS:PORT` with ` udp` where it was.
    pub what: String,
    /// Why, in words.
    pub reason: String,
    /// The text of the rule that would open it, if one should.
    pub opens: Option<String>,
    pub count: u64,
}

/// A decision, explained.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explanation {
    pub allowed: bool,
    /// The rule that allows it.
    pub rule: Option<RuleLine>,
    /// What is looked at in such a connection: "http", "tls" or "plain".
    pub kind: Option<String>,
    /// Why it is refused.
    pub reason: Option<String>,
    /// The text of the rule that would open it.
    pub opens: Option<String>,
    /// The addresses of the name, each with the reason why it is not dialled.
    pub addresses: Vec<(IpAddr, Option<String>)>,
    /// Why the name has no address.
    pub unresolved: Option<String>,
}

/// One sandbox behind this gateway.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    pub sandbox: String,
    pub rules: u64,
    pub open_connections: u64,
    /// Counts the policies that this sandbox has had here.
    pub generation: u64,
}

/// A whole frame, head included.
pub fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>, FrameError> {
    cofferdam_frame::encode::<MAX_FRAME>(value)
}

/// The length of the body that follows this head.
pub fn body_length(head: [u8; HEAD]) -> Result<usize, FrameError> {
    cofferdam_frame::body_length::<MAX_FRAME>(head)
}
