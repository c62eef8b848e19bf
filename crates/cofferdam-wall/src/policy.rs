//! The rules of one sandbox, compiled once: a change makes a new [`Policy`] that replaces the old one whole.

use std::collections::HashMap;
use std::net::IpAddr;

use crate::cidr::{self, Cidr};
use crate::class::{self, Class};
use crate::name::HostName;
use crate::rule::{Protocol, Rule, Target};

/// Why rules do not make a policy. The policy in force stays.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// Two rules state different kinds for the same thing.
    #[error("rules `{}` ({}) and `{}` ({}) disagree about port {port}: remove one", .first, .first.origin(), .second, .second.origin())]
    Contradiction {
        /// The rule that came first.
        first: Box<Rule>,
        /// The other one.
        second: Box<Rule>,
        /// Where they disagree.
        port: u16,
    },
}

/// What one sandbox may reach. Without rules: nothing.
///
/// A decision costs a few hash look-ups (one for each label of a name, one for each prefix length in
/// use), however many rules there are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policy {
    rules: Vec<Rule>,
    names: HashMap<HostName, Entries>,
    below: HashMap<HostName, Entries>,
    ranges: HashMap<Cidr, Entries>,
    /// The prefix lengths in use by family, longest first.
    v4_lengths: Vec<u8>,
    v6_lengths: Vec<u8>,
}

/// What the rules of one target open: sorted, each port once.
type Entries = Vec<Entry>;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    protocol: Protocol,
    /// None: all ports.
    port: Option<u16>,
    /// Index into the rules.
    rule: usize,
}

impl Policy {
    /// How many bytes of a name a wildcard opens, its own name and the dot not counted. A name is told to the name
    /// servers of its domain, so a long one is a message; CDNs use about 60.
    pub const LONGEST_BELOW: usize = 100;

    /// Compiles rules. Their order decides which of several equal rules a decision names: the first one.
    pub fn compile(rules: Vec<Rule>) -> Result<Self, PolicyError> {
        let mut names: HashMap<HostName, Entries> = HashMap::new();
        let mut below: HashMap<HostName, Entries> = HashMap::new();
        let mut ranges: HashMap<Cidr, Entries> = HashMap::new();
        for (index, rule) in rules.iter().enumerate() {
            let entries = match rule.target() {
                Target::Name(name) => names.entry(name.clone()).or_default(),
                Target::Below(apex) => below.entry(apex.clone()).or_default(),
                Target::Range(range) => ranges.entry(*range).or_default(),
            };
            let entry = |port| Entry {
                protocol: rule.protocol(),
                port,
                rule: index,
            };
            match rule.ports().listed() {
                None => entries.push(entry(None)),
                Some(ports) => entries.extend(ports.iter().map(|port| entry(Some(*port)))),
            }
        }
        for entries in names
            .values_mut()
            .chain(below.values_mut())
            .chain(ranges.values_mut())
        {
            settle(entries, &rules)?;
        }
        let lengths = |v4: bool| {
            let mut lengths: Vec<u8> = ranges
                .keys()
                .filter(|range| range.network().is_ipv4() == v4)
                .map(Cidr::length)
                .collect();
            lengths.sort_unstable_by(|a, b| b.cmp(a));
            lengths.dedup();
            lengths
        };
        let (v4_lengths, v6_lengths) = (lengths(true), lengths(false));
        Ok(Self {
            rules,
            names,
            below,
            ranges,
            v4_lengths,
            v6_lengths,
        })
    }

    /// Every rule, in the order given.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// The rule that opens `name` on `port`: the name's own before wildcards, nearer ones first.
    pub(crate) fn rule_of_name(&self, name: &HostName, port: u16) -> Option<&Rule> {
        self.entries_of_name(name)
            .find_map(|entries| find(entries, Protocol::Tcp, Some(port)))
            .map(|index| &self.rules[index])
    }

    /// The ports on which rules open `name`, sorted; none if no rule names it.
    pub(crate) fn ports_of_name(&self, name: &HostName) -> Vec<u16> {
        let mut ports: Vec<u16> = self
            .entries_of_name(name)
            .flatten()
            .filter_map(|entry| entry.port)
            .collect();
        ports.sort_unstable();
        ports.dedup();
        ports
    }

    /// Any rule that names it, on whatever port.
    pub(crate) fn any_rule_of_name(&self, name: &HostName) -> Option<&Rule> {
        self.entries_of_name(name)
            .find_map(|entries| entries.first())
            .map(|entry| &self.rules[entry.rule])
    }

    fn entries_of_name<'a>(&'a self, name: &'a HostName) -> impl Iterator<Item = &'a Entries> {
        let own = self.names.get(name).into_iter();
        // A wildcard over its apex was never meant to open this machine.
        let wildcards = name
            .and_above()
            .skip(1)
            .filter(|_| !name.is_host() && !self.below.is_empty())
            .filter_map(|above| self.below.get(above));
        own.chain(wildcards)
    }

    /// The rule whose range contains the address, narrowest first. A special address is opened only by a
    /// range that lies wholly among such addresses: a wide range of the internet never opens an inner network.
    pub(crate) fn rule_of_address(
        &self,
        address: IpAddr,
        port: u16,
        protocol: Protocol,
    ) -> Option<&Rule> {
        let class = Class::of(address);
        let address = class::canonical(address);
        let lengths = if address.is_ipv4() {
            &self.v4_lengths
        } else {
            &self.v6_lengths
        };
        lengths.iter().find_map(|length| {
            let range = Cidr::masked(cidr::mask(address, *length), *length);
            let entries = self.ranges.get(&range)?;
            if class != Class::Public && Class::of_range(&range) != Some(class) {
                return None;
            }
            let index =
                find(entries, protocol, Some(port)).or_else(|| find(entries, protocol, None))?;
            Some(&self.rules[index])
        })
    }
}

/// Sorts the entries of one target and keeps one for each port: a stated kind before one that follows
/// from the port, then the first rule.
fn settle(entries: &mut Entries, rules: &[Rule]) -> Result<(), PolicyError> {
    entries.sort_unstable();
    for pair in entries.chunk_by(|a, b| (a.protocol, a.port) == (b.protocol, b.port)) {
        let mut stated = pair
            .iter()
            .filter(|entry| rules[entry.rule].stated_kind().is_some());
        let Some(first) = stated.next() else { continue };
        let kind = rules[first.rule].stated_kind();
        if let Some(other) = stated.find(|entry| rules[entry.rule].stated_kind() != kind) {
            return Err(PolicyError::Contradiction {
                first: Box::new(rules[first.rule].clone()),
                second: Box::new(rules[other.rule].clone()),
                port: first.port.unwrap_or_default(),
            });
        }
    }
    entries.sort_unstable_by_key(|entry| {
        let implied = rules[entry.rule].stated_kind().is_none();
        (entry.protocol, entry.port, implied, entry.rule)
    });
    entries.dedup_by_key(|entry| (entry.protocol, entry.port));
    Ok(())
}

fn find(entries: &Entries, protocol: Protocol, port: Option<u16>) -> Option<usize> {
    entries
        .binary_search_by_key(&(protocol, port), |entry| (entry.protocol, entry.port))
        .ok()
        .map(|found| entries[found].rule)
}
