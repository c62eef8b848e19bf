//! The wall around a sandbox, from the library's side: where its rules come from, the gateway that
//! carries its connections, and the registration that keeps both together while the sandbox lives.

pub mod allowed;
pub mod rules;

use std::os::fd::OwnedFd;

use crate::home::Home;
use crate::names::{SandboxId, Slug};

pub use cofferdam_wall::control::{Refused, Seen};
pub use cofferdam_wall::{Origin, Rule, RuleError};

/// What a provider needs to put a sandbox behind the wall.
#[derive(Debug, Clone)]
pub struct WallSpec {
    pub home: Home,
    pub sandbox: SandboxId,
    pub name: Slug,
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
