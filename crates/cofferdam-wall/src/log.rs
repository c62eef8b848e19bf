//! One line of a sandbox's network log, as the gateway writes it and `net log` reads it: JSON, one entry a
//! line. No query strings, no headers, no content.

use std::net::IpAddr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::rule::Origin;

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// The first line: which sandbox this log belongs to. Written by the library.
    Sandbox,
    /// A name was looked up.
    Lookup,
    /// A connection was asked for, and decided about.
    Connect,
    /// One request in an http connection was refused.
    Request,
    /// A connection ended: its bytes.
    Close,
    /// The kernel refused a packet that is no TCP.
    Packet,
    /// Another policy came into force.
    Rules,
    /// Entries were left out because there were too many; `count` says how many.
    Gap,
}

/// What was decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    Allowed,
    Refused,
    /// Allowed, and could not be done: the name has no address, nobody listens there.
    Failed,
}

/// How a connection reached the wall.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Via {
    Transparent,
    Connect,
    Http,
    Socks5,
}

/// One entry. Absent fields do not apply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    pub at: Timestamp,
    pub event: Event,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// Numbers connections: a close has the number of its connect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<u64>,
    /// The name that was asked for. In [`Event::Sandbox`], the sandbox's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The address that the program itself chose, or the one that was dialled for a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// "tcp", "udp", "icmp" or a protocol number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<Via>,
    /// The rule that allowed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Who made that rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    /// Why it was refused or failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The rule that would have allowed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opens: Option<String>,
    /// Bytes that left the sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent: Option<u64>,
    /// Bytes that came in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub received: Option<u64>,
    /// How long the connection was open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub millis: Option<u64>,
    /// How many entries or connections this one stands for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// In [`Event::Sandbox`]: the repository's path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
    /// In [`Event::Sandbox`] of one without a wall, of which nothing is logged: "open" or "none".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
}

impl Entry {
    /// An entry of which only the event is known yet.
    pub fn new(at: Timestamp, event: Event) -> Self {
        Self {
            at,
            event,
            verdict: None,
            id: None,
            name: None,
            address: None,
            port: None,
            protocol: None,
            via: None,
            rule: None,
            origin: None,
            reason: None,
            opens: None,
            sent: None,
            received: None,
            millis: None,
            count: None,
            repository: None,
            network: None,
        }
    }
}
