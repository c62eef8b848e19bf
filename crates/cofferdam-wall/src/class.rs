//! What kind of address an address is: which ones a name may never lead to by itself.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

use crate::cidr::{Cidr, EMBEDDING, carries_no_v4};

/// The addresses that stand for names inside a sandbox (RFC 2544, for tests of networks: never on the
/// internet). They mean something only in the sandbox that looked the name up, and are never dialled.
pub const SYNTHETIC: Cidr = Cidr::v4(198, 18, 0, 0, 15);

/// Services that hand out a machine's own credentials or identity to whoever asks.
const METADATA: [Cidr; 13] = [
    Cidr::v4(169, 254, 169, 254, 32), // AWS, Azure, Google, OpenStack, DigitalOcean, Hetzner, Oracle
    Cidr::v4(169, 254, 169, 253, 32), // AWS DNS
    Cidr::v4(169, 254, 170, 2, 32),   // AWS ECS task credentials
    Cidr::v4(169, 254, 170, 23, 32),  // AWS EKS pod identity
    Cidr::v4(169, 254, 0, 23, 32),    // Tencent
    Cidr::v4(169, 254, 42, 42, 32),   // Scaleway
    Cidr::v4(100, 100, 100, 200, 32), // Alibaba
    Cidr::v4(168, 63, 129, 16, 32),   // Azure's agent endpoint: a public address
    Cidr::v4(192, 0, 0, 192, 32),     // Oracle, older
    Cidr::v6([0xfd00, 0xec2, 0, 0], [0, 0, 0, 0x254], 128), // AWS
    Cidr::v6([0xfd00, 0xec2, 0, 0], [0, 0, 0, 0x23], 128), // AWS EKS pod identity
    Cidr::v6([0xfd20, 0xce, 0, 0], [0, 0, 0, 0x254], 128), // Google
    Cidr::v6([0xfe80, 0, 0, 0], [0, 0, 0xa9fe, 0xa9fe], 128), // OpenStack
];

/// Ranges that do not belong to the public internet (IANA special-purpose registries, RFC 6890).
const SPECIAL: [(Cidr, Class); 22] = [
    (Cidr::v4(0, 0, 0, 0, 8), Class::Reserved),
    (Cidr::v4(10, 0, 0, 0, 8), Class::Private),
    (Cidr::v4(100, 64, 0, 0, 10), Class::CarrierNat),
    (Cidr::v4(127, 0, 0, 0, 8), Class::Loopback),
    (Cidr::v4(169, 254, 0, 0, 16), Class::LinkLocal),
    (Cidr::v4(172, 16, 0, 0, 12), Class::Private),
    (Cidr::v4(192, 0, 0, 0, 24), Class::Reserved),
    (Cidr::v4(192, 88, 99, 0, 24), Class::Reserved), // relays of 6to4, RFC 7526
    (Cidr::v4(192, 168, 0, 0, 16), Class::Private),
    (SYNTHETIC, Class::Synthetic),
    (Cidr::v4(224, 0, 0, 0, 4), Class::Multicast),
    (Cidr::v4(240, 0, 0, 0, 4), Class::Reserved),
    (Cidr::v6([0, 0, 0, 0], [0, 0, 0, 0], 128), Class::Reserved),
    (Cidr::v6([0, 0, 0, 0], [0, 0, 0, 1], 128), Class::Loopback),
    (SITE_NAT64, Class::Reserved),
    (
        Cidr::v6([0x100, 0, 0, 0], [0, 0, 0, 0], 48),
        Class::Reserved,
    ), // discard and dummy
    (
        Cidr::v6([0x2001, 0, 0, 0], [0, 0, 0, 0], 23),
        Class::Reserved,
    ), // protocols' own, Teredo among them
    (
        Cidr::v6([0x5f00, 0, 0, 0], [0, 0, 0, 0], 16),
        Class::Reserved,
    ), // segments of a route, RFC 9602
    (Cidr::v6([0xfc00, 0, 0, 0], [0, 0, 0, 0], 7), Class::Private),
    (
        Cidr::v6([0xfe80, 0, 0, 0], [0, 0, 0, 0], 10),
        Class::LinkLocal,
    ),
    (
        Cidr::v6([0xfec0, 0, 0, 0], [0, 0, 0, 0], 10),
        Class::Private,
    ), // site-local, deprecated
    (
        Cidr::v6([0xff00, 0, 0, 0], [0, 0, 0, 0], 8),
        Class::Multicast,
    ),
];

/// What an address belongs to. All but [`Class::Public`] are refused unless a rule names them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// The internet (ranges for documentation count as such: nothing is there to protect).
    Public,
    /// A service that hands out a cloud machine's credentials.
    Metadata,
    /// The machine that dials.
    Loopback,
    /// The machine's own link.
    LinkLocal,
    /// RFC 1918, and the unique local addresses of IPv6.
    Private,
    /// A provider's address translation, RFC 6598.
    CarrierNat,
    /// Many receivers.
    Multicast,
    /// Of no use as a destination, or a tunnel.
    Reserved,
    /// Stands for a name inside one sandbox: [`SYNTHETIC`].
    Synthetic,
}

impl Class {
    /// The class of an address. One that stands for an IPv4 address has that one's class; one that only carries
    /// some in a tunnel's way has the first class of them that is not public, if it is public itself.
    pub fn of(address: IpAddr) -> Self {
        let address = canonical(address);
        let carried: Vec<Self> = tunnelled(address).map(Self::of_itself).collect();
        if carried.contains(&Self::Metadata) {
            return Self::Metadata;
        }
        match Self::of_itself(address) {
            Self::Public => carried
                .into_iter()
                .find(|class| *class != Self::Public)
                .unwrap_or(Self::Public),
            class => class,
        }
    }

    fn of_itself(address: IpAddr) -> Self {
        if METADATA.iter().any(|one| one.contains(address)) {
            return Self::Metadata;
        }
        SPECIAL
            .iter()
            .find(|(range, _)| range.contains(address))
            .map_or(Self::Public, |(_, class)| *class)
    }

    /// The class that the whole of a range has, metadata addresses inside wider ranges aside.
    pub(crate) fn of_range(range: &Cidr) -> Option<Self> {
        if METADATA.contains(range) {
            return Some(Self::Metadata);
        }
        match SPECIAL.iter().find(|(special, _)| special.covers(range)) {
            Some((_, class)) => Some(*class),
            None if SPECIAL.iter().any(|(special, _)| range.covers(special)) => None,
            None => Some(Self::Public),
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Public => "a public address",
            Self::Metadata => "a cloud metadata service",
            Self::Loopback => "a loopback address",
            Self::LinkLocal => "a link-local address",
            Self::Private => "a private address",
            Self::CarrierNat => "an address of a provider's inner network",
            Self::Multicast => "a multicast address",
            Self::Reserved => "a reserved address",
            Self::Synthetic => "an address that stands for a name inside a sandbox",
        })
    }
}

/// The IPv4 address that an IPv6 address stands for (mapped, translated, compatible, NAT64, 6to4), else the address
/// itself.
pub(crate) fn canonical(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address else {
        return address;
    };
    if !EMBEDDING.iter().any(|range| range.contains(address))
        || carries_no_v4(&Cidr::single(address))
    {
        return address;
    }
    let octets = v6.octets();
    let at = if octets[..2] == [0x20, 0x02] { 2 } else { 12 };
    Ipv4Addr::new(octets[at], octets[at + 1], octets[at + 2], octets[at + 3]).into()
}

/// The IPv4 addresses to which a tunnel or a translator of this machine may lead what is sent to an IPv6 address
/// that does not simply stand for one: ISATAP (RFC 5214) below any prefix, the client and the server of Teredo (RFC
/// 4380), NAT64 with a prefix of a site's own (RFC 8215), which has one of four lengths (RFC 6052, 2.2).
pub(crate) fn tunnelled(address: IpAddr) -> impl Iterator<Item = IpAddr> {
    let IpAddr::V6(v6) = address else {
        return Vec::new().into_iter();
    };
    let octets = v6.octets();
    let at = |places: [usize; 4]| IpAddr::V4(places.map(|place| octets[place]).into());
    let last = [12, 13, 14, 15];
    let mut found = Vec::new();
    // Bits for a universal and a group identifier aside.
    if octets[8] & 0xfc == 0 && octets[9..12] == [0, 0x5e, 0xfe] {
        found.push(at(last));
    }
    if TEREDO.contains(address) {
        let client = last.map(|place| !octets[place]);
        found.extend([at([4, 5, 6, 7]), IpAddr::V4(client.into())]);
    }
    if SITE_NAT64.contains(address) {
        found.extend([[6, 7, 9, 10], [7, 9, 10, 11], [9, 10, 11, 12], last].map(at));
    }
    found.into_iter()
}

const TEREDO: Cidr = Cidr::v6([0x2001, 0, 0, 0], [0, 0, 0, 0], 32);
const SITE_NAT64: Cidr = Cidr::v6([0x64, 0xff9b, 1, 0], [0, 0, 0, 0], 48);

#[cfg(test)]
mod tests {
    use super::*;

    fn class(text: &str) -> Class {
        Class::of(text.parse().unwrap())
    }

    #[test]
    fn every_special_range_is_known_to_its_edges() {
        for (address, expected) in [
            ("8.8.8.8", Class::Public),
            ("203.0.113.9", Class::Public),
            ("9.255.255.255", Class::Public),
            ("10.0.0.0", Class::Private),
            ("10.255.255.255", Class::Private),
            ("11.0.0.0", Class::Public),
            ("172.15.255.255", Class::Public),
            ("172.16.0.0", Class::Private),
            ("172.31.255.255", Class::Private),
            ("172.32.0.0", Class::Public),
            ("192.168.0.1", Class::Private),
            ("100.63.255.255", Class::Public),
            ("100.64.0.0", Class::CarrierNat),
            ("100.127.255.255", Class::CarrierNat),
            ("100.128.0.0", Class::Public),
            ("100.100.100.200", Class::Metadata),
            ("127.0.0.1", Class::Loopback),
            ("127.255.255.255", Class::Loopback),
            ("0.0.0.0", Class::Reserved),
            ("169.254.1.1", Class::LinkLocal),
            ("169.254.169.254", Class::Metadata),
            ("169.254.170.2", Class::Metadata),
            ("168.63.129.16", Class::Metadata),
            ("192.0.0.192", Class::Metadata),
            ("192.0.0.8", Class::Reserved),
            ("198.17.255.255", Class::Public),
            ("198.18.0.0", Class::Synthetic),
            ("198.19.255.255", Class::Synthetic),
            ("198.20.0.0", Class::Public),
            ("223.255.255.255", Class::Public),
            ("224.0.0.1", Class::Multicast),
            ("240.0.0.1", Class::Reserved),
            ("255.255.255.255", Class::Reserved),
            ("2606:4700::1", Class::Public),
            ("::", Class::Reserved),
            ("::1", Class::Loopback),
            ("fe80::1", Class::LinkLocal),
            ("fec0::1", Class::Private),
            ("fc00::1", Class::Private),
            ("fd12:3456::1", Class::Private),
            ("fd00:ec2::254", Class::Metadata),
            ("fd20:ce::254", Class::Metadata),
            ("fe80::a9fe:a9fe", Class::Metadata),
            ("ff02::1", Class::Multicast),
            ("100::1", Class::Reserved),
            ("2000:ffff::1", Class::Public),
            ("2001::1", Class::Reserved),
            ("2001:1ff::1", Class::Reserved),
            ("2001:200::1", Class::Public),
            ("64:ff9b:1::1", Class::Reserved),
            ("64:ff9b:2::1", Class::Public),
            ("5eff::1", Class::Public),
            ("5f00::1", Class::Reserved),
            ("5f00:ffff::1", Class::Reserved),
            ("5f01::1", Class::Public),
            ("192.88.98.255", Class::Public),
            ("192.88.99.1", Class::Reserved),
        ] {
            assert_eq!(class(address), expected, "{address}");
        }
    }

    #[test]
    fn an_embedded_address_has_the_class_of_what_it_carries() {
        for (address, expected) in [
            ("::ffff:8.8.8.8", Class::Public),
            ("::ffff:127.0.0.1", Class::Loopback),
            ("::ffff:10.0.0.5", Class::Private),
            ("::ffff:169.254.169.254", Class::Metadata),
            ("::10.0.0.5", Class::Private),
            ("64:ff9b::169.254.169.254", Class::Metadata),
            ("64:ff9b::808:808", Class::Public),
            ("2002:7f00:1::1", Class::Loopback),
            ("2002:a9fe:a9fe::", Class::Metadata),
            ("2002:808:808::1", Class::Public),
            ("2002:a00:5:1:2:3:4:5", Class::Private),
            ("::ffff:0:8.8.8.8", Class::Public),
            ("::ffff:0:127.0.0.1", Class::Loopback),
            ("::ffff:0:169.254.169.254", Class::Metadata),
            ("::ffff:0:10.0.0.5", Class::Private),
            ("::7f00:1", Class::Loopback),
            ("64:ff9b::7f00:1", Class::Loopback),
            // ISATAP, below a prefix of anybody's.
            ("2606:4700::5efe:8.8.8.8", Class::Public),
            ("2606:4700::5efe:10.0.0.5", Class::Private),
            ("2606:4700::200:5efe:127.0.0.1", Class::Loopback),
            ("2606:4700::300:5efe:169.254.169.254", Class::Metadata),
            ("2606:4700::400:5efe:10.0.0.5", Class::Public),
            ("2606:4700::5eff:10.0.0.5", Class::Public),
            ("fe80::5efe:8.8.8.8", Class::LinkLocal),
            // Teredo: its server, and its client with every bit turned.
            ("2001:0:808:808:0:0:f7f7:f7f7", Class::Reserved),
            ("2001:0:a9fe:a9fe::", Class::Metadata),
            ("2001:0:808:808:0:0:5601:5601", Class::Metadata),
            // NAT64 of a site's own, of the four lengths.
            ("64:ff9b:1::8.8.8.8", Class::Reserved),
            ("64:ff9b:1:a9fe:a9:fe00::", Class::Metadata),
            ("64:ff9b:1:a9:fe:a9fe::", Class::Metadata),
            ("64:ff9b:1:0:a9:fea9:fe00:0", Class::Metadata),
            ("64:ff9b:1::a9fe:a9fe", Class::Metadata),
        ] {
            assert_eq!(class(address), expected, "{address}");
        }
    }
}
