//! Resolve, check, dial: the address dialled is one that this very decision has seen.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

use crate::gateway::door::Place;
use crate::gateway::resolve::{Family, Resolver};
use crate::{Destination, HostName, Policy, Protocol, Refusal, Request};

/// Until a connection stands, resolution included.
const IN_ALL: Duration = Duration::from_secs(10);
/// Until the next address of a name is tried.
const ONE: Duration = Duration::from_secs(4);

/// Why no address was reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unreached {
    /// All addresses of the name are refused.
    Refused(Refusal),
    Failed(String),
}

/// Dials a place that `policy` allows by name or address already; with the address that answered.
pub(super) async fn dial(
    policy: &Policy,
    resolver: &Resolver,
    place: &Place,
    port: u16,
) -> Result<(TcpStream, IpAddr), Unreached> {
    let deadline = Instant::now() + IN_ALL;
    let work = async {
        match place {
            Place::Address(address) => first_of(&[*address], port, deadline)
                .await
                .map_err(|failure| Unreached::Failed(failure.unwrap_or_default())),
            Place::Name(name) => dial_name(policy, resolver, name, port, deadline).await,
        }
    };
    timeout_at(deadline, work).await.unwrap_or_else(|_| {
        Err(Unreached::Failed(format!(
            "no answer within {} s",
            IN_ALL.as_secs()
        )))
    })
}

async fn dial_name(
    policy: &Policy,
    resolver: &Resolver,
    name: &HostName,
    port: u16,
    deadline: Instant,
) -> Result<(TcpStream, IpAddr), Unreached> {
    let mut refused = None;
    let mut failed = None;
    // The second family is asked for only if the first does not lead anywhere.
    for family in [Family::V4, Family::V6] {
        let addresses = match addresses(resolver, name, family).await {
            Ok(addresses) => addresses,
            Err(error) => {
                failed.get_or_insert(error);
                continue;
            }
        };
        let mut passed = Vec::new();
        for address in addresses {
            match check(policy, name, address, port) {
                Ok(()) => passed.push(address),
                Err(refusal) => {
                    refused.get_or_insert(refusal);
                }
            }
        }
        match first_of(&passed, port, deadline).await {
            Ok(reached) => return Ok(reached),
            Err(Some(error)) => failed = Some(error),
            Err(None) => {}
        }
    }
    Err(match (refused, failed) {
        (Some(refusal), _) => Unreached::Refused(refusal),
        (None, Some(failed)) => Unreached::Failed(failed),
        (None, None) => Unreached::Failed(format!("{name} has no address")),
    })
}

/// The addresses of a name. This machine's own name is not looked up: its loopback is meant.
pub(super) async fn addresses(
    resolver: &Resolver,
    name: &HostName,
    family: Family,
) -> Result<Vec<IpAddr>, String> {
    match (name.is_host(), family) {
        (true, Family::V4) => Ok(vec![IpAddr::V4(Ipv4Addr::LOCALHOST)]),
        (true, Family::V6) => Ok(Vec::new()),
        (false, family) => resolver.addresses(name, family).await,
    }
}

/// Whether an address that was found for a name may be dialled.
pub(super) fn check(
    policy: &Policy,
    name: &HostName,
    address: IpAddr,
    port: u16,
) -> Result<(), Refusal> {
    policy
        .decide(&Request {
            destination: Destination::Resolved { name, address },
            port,
            protocol: Protocol::Tcp,
        })
        .map(|_| ())
}

/// The first address that answers; none of them is the error `None`.
async fn first_of(
    addresses: &[IpAddr],
    port: u16,
    deadline: Instant,
) -> Result<(TcpStream, IpAddr), Option<String>> {
    let mut failed = None;
    for address in addresses {
        let to = SocketAddr::new(*address, port);
        let until = deadline.min(Instant::now() + ONE);
        failed = Some(match timeout_at(until, TcpStream::connect(to)).await {
            Ok(Ok(stream)) => return Ok((stream, *address)),
            Ok(Err(error)) => format!("{to}: {error}"),
            Err(_) => format!("{to}: no answer"),
        });
    }
    Err(failed)
}
