//! The wall around a sandbox, from the library's side: where its rules come from, the gateway that
//! carries its connections, and who keeps both together while the sandbox lives: the registration of a sandbox that
//! lives as long as its command, the supervisor of one that lives on.

pub mod allowed;
pub mod change;
mod error;
mod gateway;
mod journal;
pub mod log;
mod registration;
pub mod rules;
pub mod supervisor;

use std::os::fd::OwnedFd;

use crate::home::Home;
use crate::names::{RepoPath, SandboxId, Slug};
use crate::registry::Record;

pub use cofferdam_wall::control::{Answer, Ask, Explanation, Refused, RuleLine, Seen};
pub use cofferdam_wall::{Origin, Rule, RuleError, Target};
pub use error::WallError;
pub(crate) use gateway::remove_dead as remove_dead_gateways;
pub use gateway::{Start, ask, process as gateway_process};
pub(crate) use journal::{remove_old as remove_old_logs, say_unlogged};
pub use registration::{HandedOver, Health, Proof, Registration, refused};

/// What a provider needs to put a sandbox behind the wall.
#[derive(Debug, Clone)]
pub struct WallSpec {
    /// Cofferdam's own directory.
    pub home: Home,
    /// By which the sandbox is known.
    pub sandbox: SandboxId,
    /// By which people call it.
    pub name: Slug,
    /// Where its rules come from.
    pub sources: rules::Sources,
}

/// What a sandbox hands to the gateway: all made in the sandbox's own network namespace.
#[derive(Debug)]
pub struct Sockets {
    /// Every TCP connection of the sandbox is redirected to this listener.
    pub connections: OwnedFd,
    /// The listener for programs that want a proxy.
    pub proxy: OwnedFd,
    /// The UDP socket to which lookups are redirected.
    pub lookups: OwnedFd,
    /// The netlink socket on which the kernel reports refused packets.
    pub packets: OwnedFd,
}

/// Where the rules of a sandbox come from, as its record tells it; `None`: it has no wall.
pub fn sources_of(home: &Home, record: &Record) -> Option<rules::Sources> {
    let flags = record.network.as_ref()?.rules()?;
    // Another repository may be reached by that path now: its rules are not this sandbox's.
    let repository = RepoPath::resolve(&record.repository)
        .ok()
        .filter(|real| real.as_path() == record.repository);
    Some(rules::Sources {
        home: home.clone(),
        repository,
        sandbox: Some(record.id),
        flags,
    })
}
