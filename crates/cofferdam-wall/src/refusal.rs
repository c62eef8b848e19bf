//! Why something was refused, in plain words, and the rule that would open it.

use std::fmt;
use std::net::IpAddr;

use crate::cidr::Cidr;
use crate::class::Class;
use crate::name::HostName;
use crate::policy::Policy;
use crate::rule::Protocol;

/// Why the wall refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// No rule names it.
    NameNotAllowed(HostName),
    /// The name is allowed, on other ports.
    PortNotAllowed {
        /// The name.
        name: HostName,
        /// The ports that rules open, sorted.
        allowed: Vec<u16>,
    },
    /// Only a wildcard names it, and what stands below the wildcard's name is long enough to be a message.
    LongBelow(HostName),
    /// Names are reached over TCP only.
    UdpToName(HostName),
    /// No range contains the address with this port and protocol.
    AddressNotAllowed(IpAddr),
    /// The address is special, and no rule for exactly such addresses contains it.
    Special {
        /// The allowed name that led there, if one did.
        name: Option<HostName>,
        /// The address.
        address: IpAddr,
        /// What it is.
        class: Class,
    },
    /// The address stands for no name of this sandbox (any more).
    UnknownSynthetic(IpAddr),
    /// The name of this machine led somewhere else.
    NotTheHost(IpAddr),
    /// An address of this machine itself, which no rule names.
    ThisMachine {
        /// The allowed name that led there, if one did.
        name: Option<HostName>,
        /// The address.
        address: IpAddr,
    },
}

/// A refused lookup or connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Why.
    pub reason: Reason,
    /// The port; none for a lookup.
    pub port: Option<u16>,
    /// The transport.
    pub protocol: Protocol,
}

impl Refusal {
    /// The text of a rule that would allow this very thing; none where no rule should.
    pub fn opening_rule(&self) -> Option<String> {
        let name = |name: &HostName| match self.port {
            Some(port) => Some(format!("{name}:{port}")),
            // A lookup of it is not refused; a rule for it needs a port.
            None if name.is_host() => None,
            None => Some(name.to_string()),
        };
        match &self.reason {
            Reason::NameNotAllowed(host)
            | Reason::LongBelow(host)
            | Reason::PortNotAllowed { name: host, .. } => name(host),
            // What is meant to be reached on this machine has a name.
            Reason::Special {
                class: Class::Metadata | Class::Synthetic | Class::Loopback,
                ..
            }
            | Reason::UdpToName(_)
            | Reason::UnknownSynthetic(_)
            | Reason::NotTheHost(_)
            | Reason::ThisMachine { .. } => None,
            Reason::AddressNotAllowed(address) | Reason::Special { address, .. } => {
                // No range opens an address that is special for what it carries.
                let class = Class::of(*address);
                let address = crate::class::canonical(*address);
                if Class::of_range(&Cidr::single(address)) != Some(class) {
                    return None;
                }
                let port = self.port?;
                let udp = if self.protocol == Protocol::Udp {
                    " udp"
                } else {
                    ""
                };
                Some(match address {
                    IpAddr::V4(v4) => format!("{v4}:{port}{udp}"),
                    IpAddr::V6(v6) => format!("[{v6}]:{port}{udp}"),
                })
            }
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.reason {
            Reason::NameNotAllowed(name) => write!(f, "no rule names {name}"),
            Reason::PortNotAllowed { name, allowed } => {
                let allowed: Vec<String> = allowed.iter().take(8).map(u16::to_string).collect();
                write!(f, "{name} is allowed on port {}", allowed.join(", "))?;
                match self.port {
                    Some(port) => write!(f, ", not on {port}"),
                    None => Ok(()),
                }
            }
            Reason::LongBelow(name) => {
                write!(
                    f,
                    "{name} is named by a wildcard only, which opens names of up to {} bytes below it",
                    Policy::LONGEST_BELOW
                )
            }
            Reason::UdpToName(name) => {
                write!(
                    f,
                    "udp to {name}: udp works with an address that a rule names only"
                )
            }
            Reason::AddressNotAllowed(address) => {
                write!(f, "no rule names the address {address}")?;
                match (self.port, self.protocol) {
                    (Some(port), Protocol::Tcp) => write!(f, " with port {port}"),
                    (Some(port), Protocol::Udp) => write!(f, " with udp port {port}"),
                    (None, _) => Ok(()),
                }
            }
            Reason::Special {
                name: Some(name),
                address,
                class,
            } => {
                write!(
                    f,
                    "{name} leads to {address}, {class}, and no rule names that address"
                )
            }
            Reason::Special {
                name: None,
                address,
                class,
            } => {
                write!(f, "{address} is {class}, and no rule names it")
            }
            Reason::UnknownSynthetic(address) => {
                write!(
                    f,
                    "{address} stands for no name of this sandbox: look the name up again"
                )
            }
            Reason::ThisMachine { name, address } => {
                match name {
                    Some(name) => write!(f, "{name} leads to {address}, which is this machine")?,
                    None => write!(f, "{address} is this machine")?,
                }
                write!(f, ": its services are reached as {}", HostName::HOST)?;
                self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
            }
            Reason::NotTheHost(address) => {
                write!(
                    f,
                    "{} leads to {address}, which is not this machine's loopback",
                    HostName::HOST
                )
            }
        }
    }
}

impl std::error::Error for Refusal {}
