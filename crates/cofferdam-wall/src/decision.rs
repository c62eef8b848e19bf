//! The one decision, for every protocol: a lookup, a name, an address, and the addresses of a name.

use std::net::IpAddr;

use crate::class::Class;
use crate::name::HostName;
use crate::policy::Policy;
use crate::refusal::{Reason, Refusal};
use crate::rule::{Kind, Protocol, Rule, Target};

/// Where a connection wants to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Destination<'a> {
    /// A name: from a proxy request, or the one that a synthetic address stands for.
    Name(&'a HostName),
    /// An address that the program chose itself: only a range rule opens it.
    Address(IpAddr),
    /// An address that was found for a name. To be asked about every address before it is dialled.
    Resolved {
        /// The name.
        name: &'a HostName,
        /// One of its addresses.
        address: IpAddr,
    },
}

/// What is to be decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request<'a> {
    /// Where to.
    pub destination: Destination<'a>,
    /// The port.
    pub port: u16,
    /// The transport.
    pub protocol: Protocol,
}

/// A connection that may be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowed<'a> {
    /// The rule that allows it.
    pub rule: &'a Rule,
    /// What has to be looked at in it.
    pub kind: Kind,
}

impl Policy {
    /// Decides about a connection. After a change of policy, ask again about open ones and close those refused.
    ///
    /// # Errors
    /// The refusal says why, and which rule would open it.
    pub fn decide(&self, request: &Request<'_>) -> Result<Allowed<'_>, Refusal> {
        let Request {
            destination,
            port,
            protocol,
        } = *request;
        let refuse = |reason| Refusal {
            reason,
            port: Some(port),
            protocol,
        };
        match destination {
            Destination::Name(name) => self.name(name, port, protocol).map_err(refuse),
            Destination::Address(address) => self.address(address, port, protocol).map_err(refuse),
            Destination::Resolved { name, address } => {
                let allowed = self.name(name, port, protocol).map_err(refuse)?;
                self.resolved(name, address, port, protocol)
                    .map_err(refuse)?;
                Ok(allowed)
            }
        }
    }

    /// Decides about a lookup, which has no port: some rule must name it.
    ///
    /// # Errors
    /// As [`Policy::decide`].
    pub fn decide_lookup(&self, name: &HostName) -> Result<&Rule, Refusal> {
        let refuse = |reason| Refusal {
            reason,
            port: None,
            protocol: Protocol::Tcp,
        };
        match self.any_rule_of_name(name) {
            Some(rule) if is_long_below(rule, name) => Err(refuse(Reason::LongBelow(name.clone()))),
            Some(rule) => Ok(rule),
            None => Err(refuse(Reason::NameNotAllowed(name.clone()))),
        }
    }

    fn name(&self, name: &HostName, port: u16, protocol: Protocol) -> Result<Allowed<'_>, Reason> {
        if protocol == Protocol::Udp {
            return Err(Reason::UdpToName(name.clone()));
        }
        if let Some(rule) = self.rule_of_name(name, port) {
            if is_long_below(rule, name) {
                return Err(Reason::LongBelow(name.clone()));
            }
            return Ok(Allowed {
                rule,
                kind: rule.kind_at(port),
            });
        }
        let allowed = self.ports_of_name(name);
        Err(if allowed.is_empty() {
            Reason::NameNotAllowed(name.clone())
        } else {
            Reason::PortNotAllowed {
                name: name.clone(),
                allowed,
            }
        })
    }

    fn address(
        &self,
        address: IpAddr,
        port: u16,
        protocol: Protocol,
    ) -> Result<Allowed<'_>, Reason> {
        let class = Class::of(address);
        if class == Class::Synthetic {
            return Err(Reason::UnknownSynthetic(address));
        }
        match self.rule_of_address(address, port, protocol) {
            Some(rule) => Ok(Allowed {
                rule,
                kind: rule.kind_at(port),
            }),
            None if class == Class::Public => Err(Reason::AddressNotAllowed(address)),
            None => Err(Reason::Special {
                name: None,
                address,
                class,
            }),
        }
    }

    fn resolved(
        &self,
        name: &HostName,
        address: IpAddr,
        port: u16,
        protocol: Protocol,
    ) -> Result<(), Reason> {
        let class = Class::of(address);
        if name.is_host() {
            // The gateway dials its own loopback for it; what a resolver says about the name is not asked.
            return if class == Class::Loopback {
                Ok(())
            } else {
                Err(Reason::NotTheHost(address))
            };
        }
        if class == Class::Public || self.rule_of_address(address, port, protocol).is_some() {
            return Ok(());
        }
        Err(Reason::Special {
            name: Some(name.clone()),
            address,
            class,
        })
    }
}

/// Whether a wildcard is asked for more than it opens.
fn is_long_below(rule: &Rule, name: &HostName) -> bool {
    match rule.target() {
        Target::Below(apex) => {
            let below = name.as_str().len().saturating_sub(apex.as_str().len() + 1);
            below > Policy::LONGEST_BELOW
        }
        Target::Name(_) | Target::Range(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::Origin;
    use proptest::prelude::*;

    fn policy(rules: &[&str]) -> Policy {
        Policy::compile(
            rules
                .iter()
                .map(|text| Rule::parse(text, Origin::Flag).unwrap())
                .collect(),
        )
        .unwrap()
    }

    /// The rule's text, or `refused: ` and the words. `to` is `NAME:PORT`, `ADDRESS:PORT`, or
    /// `NAME>ADDRESS:PORT` for an address found for a name; ` udp` after it.
    fn ask(policy: &Policy, to: &str) -> String {
        let (to, protocol) = match to.strip_suffix(" udp") {
            Some(to) => (to, Protocol::Udp),
            None => (to, Protocol::Tcp),
        };
        let (host, port) = to.rsplit_once(':').unwrap();
        let port = port.parse().unwrap();
        let name;
        let destination = if let Some((text, address)) = host.split_once('>') {
            name = text.parse::<HostName>().unwrap();
            Destination::Resolved {
                name: &name,
                address: address.parse().unwrap(),
            }
        } else if let Ok(address) = host.parse() {
            Destination::Address(address)
        } else {
            name = host.parse::<HostName>().unwrap();
            Destination::Name(&name)
        };
        match policy.decide(&Request {
            destination,
            port,
            protocol,
        }) {
            Ok(allowed) => format!("{} {:?}", allowed.rule, allowed.kind),
            Err(refusal) => format!("refused: {refusal}"),
        }
    }

    #[track_caller]
    fn check(rules: &[&str], cases: &[(&str, &str)]) {
        let policy = policy(rules);
        for (to, expected) in cases {
            assert_eq!(ask(&policy, to), *expected, "{to} with {rules:?}");
        }
    }

    // covers: S1-73
    #[test]
    fn without_rules_everything_is_refused() {
        check(
            &[],
            &[
                ("example.com:443", "refused: no rule names example.com"),
                (
                    "203.0.113.9:443",
                    "refused: no rule names the address 203.0.113.9 with port 443",
                ),
                (
                    "203.0.113.9:53 udp",
                    "refused: no rule names the address 203.0.113.9 with udp port 53",
                ),
                (
                    "example.com>203.0.113.9:443",
                    "refused: no rule names example.com",
                ),
                (
                    "host.cofferdam.internal:80",
                    "refused: no rule names host.cofferdam.internal",
                ),
                (
                    "2001:db8::1:443",
                    "refused: no rule names the address 2001:db8::1 with port 443",
                ),
            ],
        );
        assert!(
            Policy::default()
                .decide_lookup(&"a.test".parse().unwrap())
                .is_err()
        );
    }

    #[test]
    fn a_name_is_open_on_its_ports_only_and_only_itself() {
        check(
            &["allowed.test", "ssh.test:22"],
            &[
                ("allowed.test:443", "allowed.test:80,443 Tls"),
                ("ALLOWED.TEST.:80", "allowed.test:80,443 Http"),
                (
                    "allowed.test:8443",
                    "refused: allowed.test is allowed on port 80, 443, not on 8443",
                ),
                ("ssh.test:22", "ssh.test:22 Plain"),
                (
                    "allowed.test.evil.test:443",
                    "refused: no rule names allowed.test.evil.test",
                ),
                ("xallowed.test:443", "refused: no rule names xallowed.test"),
                (
                    "sub.allowed.test:443",
                    "refused: no rule names sub.allowed.test",
                ),
                ("test:443", "refused: no rule names test"),
                (
                    "allowed.test:443 udp",
                    "refused: udp to allowed.test: udp works with an address that a rule names only",
                ),
                // A name's addresses are not opened by the name.
                (
                    "203.0.113.9:443",
                    "refused: no rule names the address 203.0.113.9 with port 443",
                ),
            ],
        );
    }

    #[test]
    fn a_wildcard_opens_what_is_below_and_not_the_apex() {
        check(
            &[
                "*.allowed.test",
                "own.allowed.test:8443",
                "*.deep.allowed.test:22",
            ],
            &[
                ("a.allowed.test:443", "*.allowed.test:80,443 Tls"),
                ("a.b.c.allowed.test:443", "*.allowed.test:80,443 Tls"),
                ("allowed.test:443", "refused: no rule names allowed.test"),
                ("own.allowed.test:8443", "own.allowed.test:8443 Plain"),
                ("own.allowed.test:443", "*.allowed.test:80,443 Tls"),
                ("x.deep.allowed.test:22", "*.deep.allowed.test:22 Plain"),
                ("x.deep.allowed.test:443", "*.allowed.test:80,443 Tls"),
                (
                    "x.deep.allowed.test:23",
                    "refused: x.deep.allowed.test is allowed on port 22, 80, 443, not on 23",
                ),
                ("xallowed.test:443", "refused: no rule names xallowed.test"),
                (
                    "a.allowed.test.evil.test:443",
                    "refused: no rule names a.allowed.test.evil.test",
                ),
            ],
        );
    }

    #[test]
    fn a_wildcard_opens_no_messages_and_a_rule_of_its_own_does() {
        let below = |length: usize| {
            let labels = ["a".repeat(49), "b".repeat(length - 50)];
            format!("{}.wild.test", labels.join("."))
        };
        let (fits, long) = (below(100), below(101));
        let policy = policy(&["*.wild.test"]);
        assert!(ask(&policy, &format!("{fits}:443")).starts_with("*.wild.test"));
        assert!(policy.decide_lookup(&fits.parse().unwrap()).is_ok());
        let told = ask(&policy, &format!("{long}:443"));
        assert!(
            told.ends_with("names of up to 100 bytes below it"),
            "{told}"
        );
        let refusal = policy.decide_lookup(&long.parse().unwrap()).unwrap_err();
        let opens = refusal.opening_rule().unwrap();
        assert_eq!(opens, long);
        let policy = self::policy(&["*.wild.test", &opens]);
        assert!(policy.decide_lookup(&long.parse().unwrap()).is_ok());
    }

    // covers: S1-78
    #[test]
    fn a_range_is_open_on_its_ports_and_protocol() {
        check(
            &[
                "203.0.113.0/24:5432",
                "192.0.2.0/24",
                "192.0.2.53:53 udp",
                "[2001:db8::/32]:443",
            ],
            &[
                ("203.0.113.7:5432", "203.0.113.0/24:5432 Plain"),
                (
                    "203.0.113.7:5433",
                    "refused: no rule names the address 203.0.113.7 with port 5433",
                ),
                (
                    "203.0.112.255:5432",
                    "refused: no rule names the address 203.0.112.255 with port 5432",
                ),
                ("192.0.2.9:1", "192.0.2.0/24 Plain"),
                ("192.0.2.9:443", "192.0.2.0/24 Plain"),
                ("192.0.2.53:53 udp", "192.0.2.53:53 udp Plain"),
                ("192.0.2.53:53", "192.0.2.0/24 Plain"),
                (
                    "192.0.2.9:53 udp",
                    "refused: no rule names the address 192.0.2.9 with udp port 53",
                ),
                ("::ffff:203.0.113.7:5432", "203.0.113.0/24:5432 Plain"),
                ("2001:db8::9:443", "[2001:db8::/32]:443 Plain"),
                ("name.test:5432", "refused: no rule names name.test"),
            ],
        );
    }

    #[test]
    fn a_name_that_leads_to_a_special_address_is_refused() {
        let policy = policy(&["allowed.test"]);
        assert_eq!(
            ask(&policy, "allowed.test>203.0.113.9:443"),
            "allowed.test:80,443 Tls"
        );
        assert_eq!(
            ask(&policy, "allowed.test>2606:4700::1:443"),
            "allowed.test:80,443 Tls"
        );
        for address in [
            "127.0.0.1",
            "10.0.0.5",
            "172.16.0.1",
            "192.168.1.1",
            "100.64.0.1",
            "169.254.1.1",
            "169.254.169.254",
            "168.63.129.16",
            "100.100.100.200",
            "0.0.0.0",
            "224.0.0.1",
            "255.255.255.255",
            "198.18.0.1",
            "::",
            "::1",
            "fe80::1",
            "fd00::1",
            "ff02::1",
            "fd00:ec2::254",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.5",
            "64:ff9b::a00:5",
            "2002:a00:5::1",
            "::10.0.0.5",
        ] {
            let answer = ask(&policy, &format!("allowed.test>{address}:443"));
            assert!(
                answer.starts_with("refused: allowed.test leads to "),
                "{address}: {answer}"
            );
        }
    }

    #[test]
    fn a_special_address_is_opened_only_by_a_range_of_such_addresses() {
        check(
            &[
                "allowed.test",
                "10.0.0.0/8:443",
                "100.0.0.0/8",
                "169.254.0.0/16:80",
                "127.0.0.1:5432",
                "168.0.0.0/8",
            ],
            &[
                ("allowed.test>10.0.0.5:443", "allowed.test:80,443 Tls"),
                (
                    "allowed.test>10.0.0.5:80",
                    "refused: allowed.test leads to 10.0.0.5, a private address, and no rule names that address",
                ),
                (
                    "allowed.test>::ffff:10.0.0.5:443",
                    "allowed.test:80,443 Tls",
                ),
                ("10.0.0.5:443", "10.0.0.0/8:443 Plain"),
                (
                    "10.0.0.5:22",
                    "refused: 10.0.0.5 is a private address, and no rule names it",
                ),
                ("100.1.0.1:443", "100.0.0.0/8 Plain"),
                (
                    "100.64.0.1:443",
                    "refused: 100.64.0.1 is an address of a provider's inner network, and no rule names it",
                ),
                ("169.254.3.3:80", "169.254.0.0/16:80 Plain"),
                ("127.0.0.1:5432", "127.0.0.1:5432 Plain"),
                (
                    "127.0.0.2:5432",
                    "refused: 127.0.0.2 is a loopback address, and no rule names it",
                ),
                // Metadata services are not part of the ranges around them.
                (
                    "169.254.169.254:80",
                    "refused: 169.254.169.254 is a cloud metadata service, and no rule names it",
                ),
                (
                    "100.100.100.200:80",
                    "refused: 100.100.100.200 is a cloud metadata service, and no rule names it",
                ),
                (
                    "168.63.129.16:80",
                    "refused: 168.63.129.16 is a cloud metadata service, and no rule names it",
                ),
                ("168.1.1.1:80", "168.0.0.0/8 Plain"),
            ],
        );
        check(
            &["allowed.test", "169.254.169.254:80"],
            &[
                ("169.254.169.254:80", "169.254.169.254:80 Plain"),
                (
                    "allowed.test>169.254.169.254:80",
                    "allowed.test:80,443 Http",
                ),
                (
                    "169.254.169.254:81",
                    "refused: 169.254.169.254 is a cloud metadata service, and no rule names it",
                ),
            ],
        );
    }

    #[test]
    fn synthetic_addresses_are_never_dialled() {
        check(
            &["allowed.test"],
            &[
                (
                    "198.18.0.9:443",
                    "refused: 198.18.0.9 stands for no name of this sandbox: look the name up again",
                ),
                (
                    "::ffff:198.18.0.9:443",
                    "refused: ::ffff:198.18.0.9 stands for no name of this sandbox: look the name up again",
                ),
                (
                    "allowed.test>198.19.0.1:443",
                    "refused: allowed.test leads to 198.19.0.1, an address that stands for a name inside a sandbox, and no rule names that address",
                ),
            ],
        );
    }

    #[test]
    fn this_machine_is_reached_only_by_its_exact_name_and_port() {
        check(
            &["host.cofferdam.internal:5432"],
            &[
                (
                    "host.cofferdam.internal:5432",
                    "host.cofferdam.internal:5432 Plain",
                ),
                (
                    "host.cofferdam.internal>127.0.0.1:5432",
                    "host.cofferdam.internal:5432 Plain",
                ),
                (
                    "host.cofferdam.internal>203.0.113.9:5432",
                    "refused: host.cofferdam.internal leads to 203.0.113.9, which is not this machine's loopback",
                ),
                (
                    "host.cofferdam.internal:80",
                    "refused: host.cofferdam.internal is allowed on port 5432, not on 80",
                ),
                (
                    "127.0.0.1:5432",
                    "refused: 127.0.0.1 is a loopback address, and no rule names it",
                ),
            ],
        );
        check(
            &["*.cofferdam.internal:5432"],
            &[
                (
                    "host.cofferdam.internal:5432",
                    "refused: no rule names host.cofferdam.internal",
                ),
                (
                    "other.cofferdam.internal:5432",
                    "*.cofferdam.internal:5432 Plain",
                ),
            ],
        );
    }

    #[test]
    fn equal_rules_are_one_and_the_first_is_named() {
        let rules = [
            Rule::parse("a.test", Origin::Defaults).unwrap(),
            Rule::parse("a.test", Origin::Global).unwrap(),
            Rule::parse("a.test:443 plain", Origin::Repository).unwrap(),
        ];
        let policy = Policy::compile(rules.to_vec()).unwrap();
        let name = "a.test".parse().unwrap();
        let decide = |port| {
            let destination = Destination::Name(&name);
            policy
                .decide(&Request {
                    destination,
                    port,
                    protocol: Protocol::Tcp,
                })
                .unwrap()
        };
        assert_eq!(
            (decide(80).rule.origin(), decide(80).kind),
            (Origin::Defaults, Kind::Http)
        );
        // What a rule states counts before what follows from a port.
        assert_eq!(
            (decide(443).rule.origin(), decide(443).kind),
            (Origin::Repository, Kind::Plain)
        );
        assert_eq!(policy.rules(), rules);
    }

    #[test]
    fn rules_that_state_different_kinds_make_no_policy() {
        let rules = vec![
            Rule::parse("a.test:443,8443 tls", Origin::Global).unwrap(),
            Rule::parse("a.test:8443 plain", Origin::Repository).unwrap(),
        ];
        assert_eq!(
            Policy::compile(rules).unwrap_err().to_string(),
            "rules `a.test:443,8443 tls` (global config) and `a.test:8443 plain` (repository config) disagree about port 8443: remove one"
        );
    }

    #[test]
    fn many_rules_all_count() {
        let mut rules = Vec::new();
        for i in 0..50_000_u32 {
            rules.push(
                Rule::parse(&format!("n{i}.test:{}", i % 60_000 + 1), Origin::Global).unwrap(),
            );
            let address = std::net::Ipv4Addr::from_bits(0x0b00_0000 + i);
            rules.push(Rule::parse(&address.to_string(), Origin::Global).unwrap());
        }
        let policy = Policy::compile(rules).unwrap();
        assert_eq!(ask(&policy, "n49999.test:50000"), "n49999.test:50000 Plain");
        assert_eq!(
            ask(&policy, "n49999.test:1"),
            "refused: n49999.test is allowed on port 50000, not on 1"
        );
        assert_eq!(ask(&policy, "11.0.195.79:1"), "11.0.195.79 Plain");
        assert_eq!(
            ask(&policy, "11.0.195.80:1"),
            "refused: no rule names the address 11.0.195.80 with port 1"
        );
    }

    #[test]
    fn a_lookup_needs_a_rule_and_no_port() {
        let policy = policy(&["a.test:22", "*.b.test"]);
        let lookup = |name: &str| {
            policy
                .decide_lookup(&name.parse().unwrap())
                .map(ToString::to_string)
        };
        assert_eq!(lookup("a.test").as_deref(), Ok("a.test:22"));
        assert_eq!(lookup("x.b.test").as_deref(), Ok("*.b.test:80,443"));
        let refusal = lookup("b.test").unwrap_err();
        assert_eq!(refusal.to_string(), "no rule names b.test");
        assert_eq!(refusal.opening_rule().as_deref(), Some("b.test"));
    }

    proptest! {
        /// What a refusal proposes does open it, and nothing proposes to open a metadata service or a loopback.
        #[test]
        fn the_proposed_rule_opens_what_was_refused(v4: u32, mapped: bool, by_name: bool, port in 1u16.., udp: bool) {
            let v4 = std::net::Ipv4Addr::from_bits(v4);
            let address: IpAddr = if mapped { v4.to_ipv6_mapped().into() } else { v4.into() };
            let name: HostName = "a.test".parse().unwrap();
            let destination = if by_name { Destination::Resolved { name: &name, address } } else { Destination::Address(address) };
            let protocol = if udp && !by_name { Protocol::Udp } else { Protocol::Tcp };
            let request = Request { destination, port, protocol };
            let mut rules = Vec::new();
            loop {
                let policy = Policy::compile(rules.clone()).unwrap();
                let Err(refusal) = policy.decide(&request) else { break };
                prop_assert!(rules.len() < 2, "{refusal} after {rules:?}");
                let Some(text) = refusal.opening_rule() else {
                    prop_assert!(matches!(Class::of(address), Class::Metadata | Class::Synthetic | Class::Loopback));
                    break;
                };
                rules.push(Rule::parse(&text, Origin::Live).unwrap());
            }
        }
    }
}
