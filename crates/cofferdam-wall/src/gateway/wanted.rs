//! The one thing that every protocol asks for.

use std::net::IpAddr;

use crate::HostName;

/// Where a connection wants to go, as the program said it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wanted {
    Name(HostName),
    Address(IpAddr),
}
