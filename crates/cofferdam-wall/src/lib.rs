//! Network policy of a sandbox: what may leave it, by name, address and port. Knows nothing of git,
//! agents or engines.
//!
//! Everything here but the processes and the way to them (`gateway`, `client`, and of `supervisor` what is no
//! message) is a pure function of its arguments: no sockets, no files, no clock. The gateway moves the bytes and
//! asks the rest; a supervisor keeps one sandbox's place behind it.
//!
//! - [`HostName`]: the one strict host name, parsed at the edge and compared label by label.
//! - [`Rule`], [`Policy`]: what is allowed and who said so; an empty policy allows nothing.
//! - [`Policy::decide`]: the one decision for every protocol, before and after resolution.
//! - [`dns`], [`Synthetic`]: lookups answered from the policy alone, with an address for each name.
//! - [`ClientHello`]: the outer server name of a TLS connection.
//! - [`defaults`]: the default allowlist, as data.

#[cfg(feature = "client")]
pub mod client;
pub mod control;
pub mod defaults;
pub mod dns;
#[cfg(feature = "gateway")]
pub mod gateway;
#[cfg(feature = "client")]
pub mod keys;
pub mod log;
pub mod supervisor;

mod cidr;
mod class;
mod decision;
#[cfg(test)]
mod fuzz;
#[cfg(feature = "gateway")]
mod inherited;
mod name;
mod policy;
mod refusal;
mod rule;
mod sni;
mod synthetic;

pub use cidr::{Cidr, CidrError};
pub use class::{Class, SYNTHETIC};
pub use decision::{Allowed, Destination, Request};
pub use name::{HostName, NameError};
pub use policy::{Policy, PolicyError};
pub use refusal::{Reason, Refusal};
pub use rule::{Kind, Origin, Ports, Protocol, Rule, RuleError, Target};
pub use sni::{ClientHello, SniError};
pub use synthetic::{Synthetic, TableFull};
