//! What the parts of the gateway that read a protocol ask of the part that decides and dials.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use crate::gateway::flows::Entry;
use crate::log::Via;
use crate::{HostName, Kind};

/// Where a connection wants to go, as the program said it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    Name(HostName),
    Address(IpAddr),
}

/// A way out: decided about, resolved, checked and dialled.
#[derive(Debug)]
pub(crate) struct Way {
    pub(crate) stream: TcpStream,
    pub(crate) kind: Kind,
    pub(crate) flow: Flow,
}

/// One open connection in the gateway's books. Cancelled when its rule goes. Dropping it logs the end.
#[derive(Debug)]
pub(crate) struct Flow {
    pub(crate) end: CancellationToken,
    /// Bytes out of and into the sandbox.
    pub(crate) sent: Arc<AtomicU64>,
    pub(crate) received: Arc<AtomicU64>,
    /// Its line in the books; none where a protocol is tried without a sandbox.
    #[expect(dead_code, reason = "it is there to be dropped")]
    pub(crate) entry: Option<Entry>,
}

/// Why there is no way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Closed {
    /// Policy: the reason in words, and the rule that would open it.
    Refused {
        reason: String,
        opens: Option<String>,
    },
    /// Allowed, and could not be done.
    Failed(Failure),
}

/// Why something that is allowed could not be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) reason: String,
    /// Nobody said no: the time was over.
    pub(crate) late: bool,
}

impl Failure {
    pub(crate) fn new(reason: String) -> Self {
        let late = false;
        Self { reason, late }
    }

    pub(crate) fn late(reason: String) -> Self {
        let late = true;
        Self { reason, late }
    }
}

/// Something that was refused for what stands in it, not for where its connection goes.
#[derive(Debug)]
pub(crate) struct Objection<'a> {
    /// What it asks for; none if that cannot be read.
    pub(crate) to: Option<(&'a Place, u16)>,
    pub(crate) via: Via,
    /// One request, others of the same connection may be carried.
    pub(crate) is_request: bool,
    pub(crate) reason: &'a str,
    /// The rule that would open it.
    pub(crate) opens: Option<&'a str>,
}

/// Decides and dials for one sandbox, and writes its log.
pub(crate) trait Door: Clone + Send + Sync + Unpin + 'static {
    /// What policy says before anything is read or dialled. Logs a refusal.
    fn decide(&self, place: &Place, port: u16, via: Via) -> Result<Kind, Closed>;

    /// Decides, resolves, checks every address and dials one that passed. Logs what came of it.
    fn dial(
        &self,
        place: &Place,
        port: u16,
        via: Via,
    ) -> impl Future<Output = Result<Way, Closed>> + Send;

    /// The text of the rule that would open this; none if it is open, or if no rule should.
    fn opening_rule(&self, place: &Place, port: u16) -> Option<String>;

    /// Logs that something was refused in an allowed connection or on the way to one: a request for another
    /// host, another server name, what cannot be read.
    fn refused(&self, objection: &Objection<'_>);
}
