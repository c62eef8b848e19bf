//! The inside of the wall: what makes a namespace in which every connection and every lookup ends at four
//! sockets, and nothing else goes anywhere. The sockets are handed to the host; nothing of the wall
//! runs in the sandbox. See docs/decisions/0007-redirect-and-one-gateway.md.

use std::io;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};

use cofferdam_guest::protocol::{LOOKUPS_PORT, PROXY_PORT, REDIRECT_PORT};

use crate::netlink::{self, Ports, Refused};
use crate::sys;
use crate::tree::Refusal;

/// The group on which the kernel reports refused packets; any would do.
const GROUP: u16 = 7;
/// Connections that wait to be accepted.
const BACKLOG: i32 = 4096;

/// The caller has all capabilities over a namespace whose loopback interface is up, and nothing runs in it.
/// In this order: the reports, the listeners, the rules, and last the route without which all that is nothing.
/// The sockets as the protocol wants them.
pub(crate) fn raise() -> Result<[OwnedFd; 4], Refusal> {
    let step = |what: &'static str| {
        move |error: io::Error| Refusal::Broken(format!("cannot {what}: {error}"))
    };
    let packets = netlink::open(netlink::NETFILTER).map_err(|error| Refusal::Unsupported {
        what: format!("this kernel has no netfilter: {error}"),
        hint: hint("nf_tables"),
    })?;
    netlink::exchange(packets.as_fd(), &netlink::report(GROUP)).map_err(|error| lacking(&error))?;
    let connections = listener(REDIRECT_PORT).map_err(step("listen for connections"))?;
    let proxy = listener(PROXY_PORT).map_err(step("listen as a proxy"))?;
    let lookups =
        UdpSocket::bind((Ipv4Addr::LOCALHOST, LOOKUPS_PORT)).map_err(step("listen for lookups"))?;
    let rules = netlink::open(netlink::NETFILTER).map_err(step("speak to netfilter"))?;
    let ports = Ports {
        connections: REDIRECT_PORT,
        lookups: LOOKUPS_PORT,
        packets: GROUP,
    };
    netlink::exchange(rules.as_fd(), &netlink::rules(ports)).map_err(|error| lacking(&error))?;
    let routes = netlink::open(netlink::ROUTES).map_err(step("speak to the kernel's routes"))?;
    netlink::exchange(routes.as_fd(), &netlink::local_route())
        .map_err(|refused| Refusal::Broken(refused.what()))?;
    Ok([connections.into(), proxy.into(), lookups.into(), packets])
}

fn listener(port: u16) -> io::Result<TcpListener> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    sys::listen(listener.as_fd(), BACKLOG)?;
    Ok(listener)
}

fn lacking(refused: &Refused) -> Refusal {
    Refusal::Unsupported {
        what: format!("the network wall does not come up, {}", refused.what()),
        hint: hint(refused.step.modules),
    }
}

fn hint(modules: &str) -> String {
    format!(
        "load the kernel modules ({modules}), or run with `--network none`: see `cofferdam doctor`"
    )
}
