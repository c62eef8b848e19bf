//! Trying the wall from inside: what is attempted, and what was found.

use serde::{Deserialize, Serialize};

/// What is carried while the wall is tried, and nothing else is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passage {
    pub name: String,
    pub port: u16,
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
    pub outcome: Observed,
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
pub enum Observed {
    /// The error number; 0 where the connection was closed without a byte.
    Refused(i32),
    /// It could be done; the first bytes of what came back.
    Answered(Vec<u8>),
    /// Nothing came back in time.
    Silence,
}
