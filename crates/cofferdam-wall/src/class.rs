//! What kind of address an address is: which ones a name may never lead to by itself.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

use crate::cidr::Cidr;

/// The addresses that stand for names inside a sandbox (RFC 2544, for tests of networks: never on the
/// internet). They mean something only in the sandbox that looked the name up, and are never dialled.
pub const SYNTHETIC: Cidr = Cidr::v4(198, 18, 0, 0, 15);

/// IPv6 ranges whose addresses carry an IPv4 address, which is then what decisions are made on.
pub(crate) const EMBEDDING: [Cidr; 4] = [
    Cidr::v6([0, 0, 0, 0], [0, 0xffff, 0, 0], 96), // mapped, RFC 4291
    Cidr::v6([0, 0, 0, 0], [0, 0, 0, 0], 96),      // compatible, RFC 4291 (deprecated)
    Cidr::v6([0x64, 0xff9b, 0, 0], [0, 0, 0, 0], 96), // NAT64, RFC 6052
    Cidr::v6([0x2002, 0, 0, 0], [0, 0, 0, 0], 16), // 6to4, RFC 3056
];

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
const SPECIAL: [(Cidr, Class); 20] = [
    (Cidr::v4(0, 0, 0, 0, 8), Class::Reserved),
    (Cidr::v4(10, 0, 0, 0, 8), Class::Private),
    (Cidr::v4(100, 64, 0, 0, 10), Class::CarrierNat),
    (Cidr::v4(127, 0, 0, 0, 8), Class::Loopback),
    (Cidr::v4(169, 254, 0, 0, 16), Class::LinkLocal),
    (Cidr::v4(172, 16, 0, 0, 12), Class::Private),
    (Cidr::v4(192, 0, 0, 0, 24), Class::Reserved),
    (Cidr::v4(192, 168, 0, 0, 16), Class::Private),
    (SYNTHETIC, Class::Synthetic),
    (Cidr::v4(224, 0, 0, 0, 4), Class::Multicast),
    (Cidr::v4(240, 0, 0, 0, 4), Class::Reserved),
    (Cidr::v6([0, 0, 0, 0], [0, 0, 0, 0], 128), Class::Reserved),
    (Cidr::v6([0, 0, 0, 0], [0, 0, 0, 1], 128), Class::Loopback),
    (
        Cidr::v6([0x64, 0xff9b, 1, 0], [0, 0, 0, 0], 48),
        Class::Reserved,
    ), // NAT64 of a site's own
    (
        Cidr::v6([0x100, 0, 0, 0], [0, 0, 0, 0], 64),
        Class::Reserved,
    ), // discard
    (
        Cidr::v6([0x2001, 0, 0, 0], [0, 0, 0, 0], 32),
        Class::Reserved,
    ), // Teredo
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
    /// The class of an address; one that carries an IPv4 address has that one's class.
    pub fn of(address: IpAddr) -> Self {
        let address = canonical(address);
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

/// The IPv4 address that an IPv6 address carries (mapped, compatible, NAT64, 6to4), else the address itself.
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

/// `::` and `::1` lie in the range of compatible addresses and are none.
pub(crate) fn carries_no_v4(range: &Cidr) -> bool {
    matches!(range.network(), IpAddr::V6(v6) if range.is_single() && v6.to_bits() <= 1)
}

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
            ("2001::1", Class::Reserved),
            ("64:ff9b:1::1", Class::Reserved),
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
        ] {
            assert_eq!(class(address), expected, "{address}");
        }
    }
}
