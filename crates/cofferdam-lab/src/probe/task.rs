//! What the probe can be asked, and how it answers.

use serde::{Deserialize, Serialize};

/// What the probe is asked to do. Hosts are names or addresses; times have fixed bounds of a few seconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Task {
    /// Asks the C library, as most programs do: the addresses are in `found`.
    Lookup { name: String },
    /// A lookup of any kind, at any server: the answer's records are in `found`, its code is `heard`.
    Query {
        server: String,
        tcp: bool,
        name: String,
        kind: u16,
        class: u16,
    },
    /// Connects to `HOST:PORT` and does the steps: what came back is `heard`.
    Tcp { to: String, steps: Vec<Step> },
    /// A TLS connection with this server name and one request in it: the answer is `heard`.
    Https { to: String, name: String },
    /// Opens a connection that stays, under a key.
    Open { key: String, to: String },
    /// Says something in it: what came back is `heard`.
    Talk { key: String, say: Vec<u8> },
    /// Sends a datagram.
    Udp { to: String, payload: Vec<u8> },
    /// An echo request over a socket for that, or over a raw one.
    Ping {
        to: String,
        payload: Vec<u8>,
        raw: bool,
    },
    /// Opens a socket of this family, type and protocol: no error if it could.
    Socket {
        domain: i32,
        kind: i32,
        protocol: i32,
    },
    /// Sends a whole IP packet with this payload over a raw socket.
    Raw { to: String, payload: Vec<u8> },
    /// Which of these ports take a connection.
    Scan {
        address: String,
        first: u16,
        last: u16,
    },
    /// Which unix sockets take a connection: those below a directory, and the abstract ones.
    UnixSockets { below: String },
    /// Every way to more privilege or another network: those that went are in `found`.
    Escape,
    /// Listens on a port of every address, and counts.
    Listen { port: u16 },
    /// How many came to it: `heard`.
    Hits { port: u16 },
    /// The text of a file: `heard`.
    Read { path: String },
    /// The names of the network interfaces, in `found`.
    Interfaces,
    /// The variables of the environment, in `found`.
    Environment,
    /// Ends the probe.
    Exit,
}

/// One step in a connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Step {
    Say(Vec<u8>),
    /// Waits for something to come.
    Hear,
    /// Takes what comes until the other side closes or is silent for a while.
    HearAll,
}

impl Step {
    pub fn say(text: impl Into<Vec<u8>>) -> Self {
        Self::Say(text.into())
    }
}

/// What came of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// Bytes that are no text are replaced.
    pub heard: String,
    pub found: Vec<String>,
    pub error: Option<String>,
    pub millis: u64,
}
