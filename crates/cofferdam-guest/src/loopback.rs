//! Second addresses of the loopback interface, so that lookups for "the configured families" find something.
//!
//! With AI_ADDRCONFIG the C library leaves out each family of which it sees no address but 127.0.0.1 and `::1`, and
//! it finds nothing at all where one family is asked for (`curl -4`). So both families have one more, or none
//! has: with one alone a lookup for both would lose the other, and `::1` with it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsFd;

use crate::netlink::{self, Refused};
use crate::tree::Refusal;

/// In 127.0.0.0/8, which is the agent's own in the wall's rules too.
const V4: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
/// A unique local address (RFC 4193): the range of everybody's own networks.
const V6: Ipv6Addr = Ipv6Addr::new(0xfd43, 0x6f66, 0x6665, 0, 0, 0, 0, 1);

/// IPv6 first: where the kernel has none, there is no `::1` to lose.
pub(crate) fn count_as_configured() -> Result<(), Refusal> {
    let routes = netlink::open(netlink::ROUTES).map_err(|error| {
        Refusal::Broken(format!("cannot speak to the kernel's routes: {error}"))
    })?;
    let add = |address| netlink::exchange(routes.as_fd(), &netlink::address(address));
    match add(IpAddr::V6(V6)) {
        Err(refused) if !has_no_ipv6(&refused) => return Err(Refusal::Broken(refused.what())),
        _ => {}
    }
    add(IpAddr::V4(V4)).map_err(|refused| Refusal::Broken(refused.what()))
}

/// Switched off by a sysctl, by the kernel's command line, or not built in.
fn has_no_ipv6(refused: &Refused) -> bool {
    let off = [
        libc::EACCES,
        libc::EPERM,
        libc::EOPNOTSUPP,
        libc::EAFNOSUPPORT,
        libc::ENODEV,
    ];
    refused
        .error
        .raw_os_error()
        .is_some_and(|errno| off.contains(&errno))
}
