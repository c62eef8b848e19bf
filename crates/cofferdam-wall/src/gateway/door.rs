//! What the parts of the gateway that read a protocol ask of the part that decides and dials.

use tokio::net::TcpStream;

use crate::Kind;
use crate::gateway::budget::Budget;
use crate::gateway::failure::Failure;
use crate::gateway::flows::Flow;
use crate::gateway::wanted::Wanted;
use crate::log::Via;

/// A way out: decided about, resolved, checked and dialled.
#[derive(Debug)]
pub(crate) struct Way {
    pub(crate) stream: TcpStream,
    pub(crate) kind: Kind,
    pub(crate) flow: Flow,
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

/// Something that was refused for what stands in it, not for where its connection goes.
#[derive(Debug)]
pub(crate) struct Objection<'a> {
    /// What it asks for; none if that cannot be read.
    pub(crate) to: Option<(&'a Wanted, u16)>,
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
    fn decide(&self, wanted: &Wanted, port: u16, via: Via) -> Result<Kind, Closed>;

    /// Decides, resolves, checks every address and dials one that passed. Logs what came of it.
    fn dial(
        &self,
        wanted: &Wanted,
        port: u16,
        via: Via,
    ) -> impl Future<Output = Result<Way, Closed>> + Send;

    /// The text of the rule that would open this; none if it is open, or if no rule should.
    fn opening_rule(&self, wanted: &Wanted, port: u16) -> Option<String>;

    /// The sandbox's memory for what is not complete.
    fn budget(&self) -> &Budget;

    /// Logs that something was refused in an allowed connection or on the way to one: a request for another
    /// host, another server name, what cannot be read.
    fn refused(&self, objection: &Objection<'_>);
}
