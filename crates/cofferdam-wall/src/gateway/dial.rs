//! Resolve, check, dial: the address dialled is one that this very decision has seen.

use std::fmt::Display;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

use crate::class::{canonical, tunnelled};
use crate::gateway::failure::Failure;
use crate::gateway::resolve::{Family, Resolver};
use crate::gateway::wanted::Wanted;
use crate::{Class, Destination, HostName, Policy, Protocol, Reason, Refusal, Request};

/// Until a connection stands, resolution included.
const IN_ALL: Duration = Duration::from_secs(10);
/// Until the next address of a name is tried.
const ONE: Duration = Duration::from_secs(4);

/// Why no address was reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unreached {
    /// All addresses of the name are refused.
    Refused(Refusal),
    Failed(Failure),
}

/// Dials a place that `policy` allows by name or address already; with the address that answered.
pub(super) async fn dial(
    policy: &Policy,
    resolver: &Resolver,
    wanted: &Wanted,
    port: u16,
) -> Result<(TcpStream, IpAddr), Unreached> {
    let deadline = Instant::now() + IN_ALL;
    let work = async {
        match wanted {
            Wanted::Address(address) => first_of(&[*address], port, deadline)
                .await
                .map_err(|failed| Unreached::Failed(failed.unwrap_or_else(|| none(address)))),
            Wanted::Name(name) => dial_name(policy, resolver, name, port, deadline).await,
        }
    };
    timeout_at(deadline, work).await.unwrap_or_else(|_| {
        Err(Unreached::Failed(Failure::late(format!(
            "no answer within {} s",
            IN_ALL.as_secs()
        ))))
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
        (None, None) => Unreached::Failed(none(name)),
    })
}

fn none(of: &impl Display) -> Failure {
    Failure::new(format!("{of} has no address"))
}

/// The addresses of a name. This machine's own name is not looked up: its loopback is meant.
pub(super) async fn addresses(
    resolver: &Resolver,
    name: &HostName,
    family: Family,
) -> Result<Vec<IpAddr>, Failure> {
    match (name.is_host(), family) {
        (true, Family::V4) => Ok(vec![IpAddr::V4(Ipv4Addr::LOCALHOST)]),
        (true, Family::V6) => Ok(Vec::new()),
        (false, family) => resolver.addresses(name, family).await,
    }
}

/// Whether an address that was found for a name may be dialled: policy allows it, and it is not one of this
/// machine's own (its services trust those who connect from here), unless a range rule names it.
pub(super) fn check(
    policy: &Policy,
    name: &HostName,
    address: IpAddr,
    port: u16,
) -> Result<(), Refusal> {
    let ask = |destination| {
        let request = Request {
            destination,
            port,
            protocol: Protocol::Tcp,
        };
        policy.decide(&request).map(|_| ())
    };
    ask(Destination::Resolved { name, address })?;
    let named = || ask(Destination::Address(address)).is_ok();
    if name.is_host() || !is_own(address) || named() {
        return Ok(());
    }
    Err(Refusal {
        reason: Reason::ThisMachine {
            name: Some(name.clone()),
            address,
        },
        port: Some(port),
        protocol: Protocol::Tcp,
    })
}

/// The refusal as a person is told of it: of an address of this machine it says by which name its services are
/// reached. No rule is proposed for one: what is meant to be reached has that name, and the rest of the machine trusts
/// whoever comes from here.
pub(super) fn told(refusal: Refusal) -> Refusal {
    let (address, name) = match &refusal.reason {
        Reason::AddressNotAllowed(address) => (*address, None),
        Reason::Special {
            address,
            name,
            class,
        } if *class != Class::Metadata => (*address, name.clone()),
        _ => return refusal,
    };
    if !is_own(address) {
        return refusal;
    }
    Refusal {
        reason: Reason::ThisMachine { name, address },
        ..refusal
    }
}

/// The rule that would open what a sandbox asked for and was refused, to be shown unasked. Never one for what is not
/// of the public internet: the sandbox chose it, and what is around this machine was not made for strangers.
/// `cofferdam net test` shows that one, to whoever asks for it.
pub(super) fn offer(refusal: &Refusal) -> Option<String> {
    match refusal.reason {
        Reason::Special { .. } => None,
        _ => refusal.opening_rule(),
    }
}

/// Whether it is an address of this machine, or carries one.
fn is_own(address: IpAddr) -> bool {
    [address, canonical(address)]
        .into_iter()
        .chain(tunnelled(address))
        .any(is_local)
}

/// Whether the kernel would send from the very address that it sends to. No packet leaves for the answer.
fn is_local(address: IpAddr) -> bool {
    /// Discard (RFC 863): any port would do.
    const PORT: u16 = 9;
    let any: IpAddr = match address {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    UdpSocket::bind((any, 0))
        .and_then(|socket| {
            socket.connect((address, PORT))?;
            socket.local_addr()
        })
        .is_ok_and(|from| from.ip() == address)
}

/// The first address that answers; none of them is the error `None`.
async fn first_of(
    addresses: &[IpAddr],
    port: u16,
    deadline: Instant,
) -> Result<(TcpStream, IpAddr), Option<Failure>> {
    let mut failed = None;
    for address in addresses {
        let to = SocketAddr::new(*address, port);
        let until = deadline.min(Instant::now() + ONE);
        failed = Some(match timeout_at(until, TcpStream::connect(to)).await {
            Ok(Ok(stream)) => return Ok((stream, *address)),
            Ok(Err(error)) if error.kind() == ErrorKind::TimedOut => {
                Failure::late(format!("{to}: {error}"))
            }
            Ok(Err(error)) => Failure::new(format!("{to}: {error}")),
            Err(_) => Failure::late(format!("{to}: no answer")),
        });
    }
    Err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Origin, Rule};

    #[test]
    fn addresses_of_this_machine_are_known() {
        for (address, own) in [
            ("127.0.0.1", true),
            ("127.3.2.1", false),
            ("192.0.2.1", false),
            ("2001:db8::1", false),
            // Carried in every way, each beside another machine's address carried so.
            ("::ffff:127.0.0.1", true),
            ("::ffff:192.0.2.1", false),
            ("::ffff:0:127.0.0.1", true),
            ("::ffff:0:192.0.2.1", false),
            ("::127.0.0.1", true),
            ("::192.0.2.1", false),
            ("64:ff9b::127.0.0.1", true),
            ("64:ff9b::192.0.2.1", false),
            ("2002:7f00:1::5", true),
            ("2002:c000:201::5", false),
            ("2001:db8::5efe:127.0.0.1", true),
            ("2001:db8::5efe:192.0.2.1", false),
            ("2001:db8::200:5efe:127.0.0.1", true),
            ("2001:0:7f00:1::", true),
            ("2001:0:c000:201:0:0:80ff:fffe", true),
            ("2001:0:c000:201::", false),
            ("64:ff9b:1:7f00:0:100::", true),
            ("64:ff9b:1:7f:0:1::", true),
            ("64:ff9b:1:0:7f:0:100:0", true),
            ("64:ff9b:1::127.0.0.1", true),
            ("64:ff9b:1::192.0.2.1", false),
        ] {
            assert_eq!(is_own(address.parse().unwrap()), own, "{address}");
        }
    }

    #[test]
    fn no_rule_for_this_machine_or_what_is_around_it_is_offered() {
        let policy = Policy::default();
        let offered = |address: &str| {
            let refusal = policy.decide(&Request {
                destination: Destination::Address(address.parse().unwrap()),
                port: 80,
                protocol: Protocol::Tcp,
            });
            offer(&told(refusal.unwrap_err()))
        };
        for (address, expected) in [
            ("127.0.0.1", None),
            ("127.9.9.9", None),
            ("::1", None),
            ("::ffff:0:127.0.0.1", None),
            ("2001:db8::5efe:127.0.0.1", None),
            ("2001:db8::5efe:10.0.0.5", None),
            ("10.0.0.1", None),
            ("192.168.1.1", None),
            ("172.16.0.1", None),
            ("100.64.0.1", None),
            ("169.254.0.1", None),
            ("169.254.169.254", None),
            ("224.0.0.1", None),
            ("fd00::1", None),
            ("fe80::1", None),
            ("::ffff:10.0.0.1", None),
            ("192.0.2.1", Some("192.0.2.1:80")),
            ("2002:c000:201::", Some("192.0.2.1:80")),
            ("2001:db8::1", Some("[2001:db8::1]:80")),
        ] {
            assert_eq!(offered(address).as_deref(), expected, "{address}");
        }
    }

    /// An address of an interface, which no class tells apart.
    #[test]
    fn no_rule_for_an_address_of_an_interface_is_offered() {
        // The kernel says from where it would send: whichever that is, it is this machine's.
        let own = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).and_then(|socket| {
            socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9))?;
            socket.local_addr()
        });
        let own = own.map_or(Ipv4Addr::LOCALHOST.into(), |own| own.ip());
        let refusal = Refusal {
            reason: Reason::AddressNotAllowed(own),
            port: Some(80),
            protocol: Protocol::Tcp,
        };
        let refusal = told(refusal);
        assert_eq!(offer(&refusal), None, "{own}");
        assert_eq!(
            refusal.to_string(),
            format!(
                "{own} is this machine: its services are reached as host.cofferdam.internal:80"
            )
        );
        // The control: another's address is told as it is.
        let other = Refusal {
            reason: Reason::AddressNotAllowed(Ipv4Addr::new(192, 0, 2, 1).into()),
            ..refusal
        };
        assert_eq!(told(other.clone()), other);
    }

    #[test]
    fn a_name_that_leads_to_this_machine_needs_a_rule_for_the_address() {
        let check = |rules: &[&str]| {
            let rules = rules
                .iter()
                .map(|text| Rule::parse(text, Origin::Flag).unwrap());
            let policy = Policy::compile(rules.collect()).unwrap();
            let name = "a.example.com".parse().unwrap();
            check(&policy, &name, "127.0.0.1".parse().unwrap(), 443)
        };
        assert!(check(&["a.example.com"]).is_err());
        assert_eq!(check(&["a.example.com", "127.0.0.1:443"]), Ok(()));
    }
}
