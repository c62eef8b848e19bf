//! A range of addresses in the one form that two programs cannot read differently.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// Why a text is not a range of addresses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CidrError {
    /// Neither an address nor ADDRESS/LENGTH.
    #[error("`{0}` is not an address or a range such as `10.1.0.0/16`")]
    Form(String),
    /// Bits beyond the length are set: the range meant is not clear.
    #[error("range `{given}` has bits set beyond its length: write `{network}`")]
    HostBits {
        /// What was given.
        given: String,
        /// The range that contains it.
        network: String,
    },
    /// An IPv6 range of addresses that carry an IPv4 address: decisions are made on that one.
    #[error("range `{0}` stands for IPv4 addresses: write the IPv4 range itself")]
    Embedded(String),
}

/// A network of addresses, a single address included; bits beyond the length are zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Cidr {
    network: IpAddr,
    length: u8,
}

/// IPv6 ranges whose addresses stand for the IPv4 address in them, which is then what decisions are made on.
pub(crate) const EMBEDDING: [Cidr; 5] = [
    Cidr::v6([0, 0, 0, 0], [0, 0xffff, 0, 0], 96), // mapped, RFC 4291
    Cidr::v6([0, 0, 0, 0], [0xffff, 0, 0, 0], 96), // translated, RFC 2765
    Cidr::v6([0, 0, 0, 0], [0, 0, 0, 0], 96),      // compatible, RFC 4291 (deprecated)
    Cidr::v6([0x64, 0xff9b, 0, 0], [0, 0, 0, 0], 96), // NAT64, RFC 6052
    Cidr::v6([0x2002, 0, 0, 0], [0, 0, 0, 0], 16), // 6to4, RFC 3056
];

impl Cidr {
    /// The range of one address.
    pub fn single(address: IpAddr) -> Self {
        Self {
            network: address,
            length: bits(address),
        }
    }

    /// A range whose `network` has no bit beyond `length`.
    pub(crate) fn masked(network: IpAddr, length: u8) -> Self {
        Self { network, length }
    }

    /// The length of the prefix in bits.
    pub fn length(&self) -> u8 {
        self.length
    }

    /// Its first address.
    pub fn network(&self) -> IpAddr {
        self.network
    }

    /// Whether it is one address.
    pub fn is_single(&self) -> bool {
        self.length == bits(self.network)
    }

    pub fn contains(&self, address: IpAddr) -> bool {
        self.network.is_ipv4() == address.is_ipv4() && mask(address, self.length) == self.network
    }

    /// Whether every address of `other` is in this range.
    pub fn covers(&self, other: &Self) -> bool {
        self.length <= other.length && self.contains(other.network)
    }

    pub(crate) const fn v4(a: u8, b: u8, c: u8, d: u8, length: u8) -> Self {
        Self {
            network: IpAddr::V4(Ipv4Addr::new(a, b, c, d)),
            length,
        }
    }

    pub(crate) const fn v6(high: [u16; 4], low: [u16; 4], length: u8) -> Self {
        Self {
            network: IpAddr::V6(Ipv6Addr::new(
                high[0], high[1], high[2], high[3], low[0], low[1], low[2], low[3],
            )),
            length,
        }
    }
}

/// `::` and `::1` lie in the range of compatible addresses and are none.
pub(crate) fn carries_no_v4(range: &Cidr) -> bool {
    matches!(range.network(), IpAddr::V6(v6) if range.is_single() && v6.to_bits() <= 1)
}

/// The bits of an address of this family.
fn bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// `address` with every bit beyond `length` cleared.
pub(crate) fn mask(address: IpAddr, length: u8) -> IpAddr {
    match address {
        IpAddr::V4(v4) => {
            let kept = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
            Ipv4Addr::from_bits(v4.to_bits() & kept).into()
        }
        IpAddr::V6(v6) => {
            let kept = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
            Ipv6Addr::from_bits(v6.to_bits() & kept).into()
        }
    }
}

impl FromStr for Cidr {
    type Err = CidrError;

    fn from_str(text: &str) -> Result<Self, CidrError> {
        let form = || {
            CidrError::Form(
                text.chars()
                    .take(80)
                    .collect::<String>()
                    .escape_default()
                    .to_string(),
            )
        };
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| form())?;
        let length = match length {
            None => bits(address),
            // One spelling per number: no sign, no leading zero.
            Some(digits) => digits
                .parse()
                .ok()
                .filter(|n: &u8| *n <= bits(address) && n.to_string() == digits)
                .ok_or_else(form)?,
        };
        let network = mask(address, length);
        let cidr = Self { network, length };
        if network != address {
            return Err(CidrError::HostBits {
                given: text.to_owned(),
                network: cidr.to_string(),
            });
        }
        if EMBEDDING.iter().any(|range| range.covers(&cidr)) && !carries_no_v4(&cidr) {
            return Err(CidrError::Embedded(text.to_owned()));
        }
        Ok(cidr)
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_single() {
            self.network.fmt(f)
        } else {
            write!(f, "{}/{}", self.network, self.length)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    // covers: S1-26
    #[test]
    fn one_address_and_a_range_are_both_ranges() {
        let range: Cidr = "10.1.0.0/16".parse().unwrap();
        assert!(range.contains("10.1.255.255".parse().unwrap()));
        assert!(!range.contains("10.2.0.0".parse().unwrap()));
        assert!(!range.contains("::ffff:10.1.0.1".parse().unwrap()));
        let single: Cidr = "203.0.113.9".parse().unwrap();
        assert_eq!("203.0.113.9/32".parse(), Ok(single));
        assert!(single.contains("203.0.113.9".parse().unwrap()));
        assert!(!single.contains("203.0.113.8".parse().unwrap()));
        assert!(range.covers(&"10.1.2.0/24".parse().unwrap()));
        assert!(!range.covers(&"10.0.0.0/8".parse().unwrap()));
        let v6: Cidr = "2001:db8::/32".parse().unwrap();
        assert!(v6.contains("2001:db8:ffff::1".parse().unwrap()));
        assert!(!v6.contains("2001:db9::1".parse().unwrap()));
        let loopback: Cidr = "::1".parse().unwrap();
        assert!(loopback.is_single());
    }

    #[test]
    fn a_range_that_could_be_read_two_ways_is_refused() {
        for text in [
            "",
            "/",
            "10.0.0.0/",
            "10.0.0.0/33",
            "10.0.0.0/+8",
            "10.0.0.0/08",
            "10.0.0.0/-1",
            "10.0.0/8",
            "010.0.0.0/8",
            "0x0a.0.0.0/8",
            "10.0.0.0/8/8",
            "10.0.0.0 /8",
            "::/129",
            "fe80::1%eth0",
            "[::1]",
            "example.com",
            "10.0.0.1/8",
            "2001:db8::1/32",
            "::ffff:10.0.0.1",
            "::ffff:0:0/96",
            "64:ff9b::/96",
            "::ffff:0:10.0.0.1",
            "::ffff:0:0:0/96",
            "2002:a00::/24",
            "::10.0.0.1",
        ] {
            assert!(text.parse::<Cidr>().is_err(), "{text:?} was accepted");
        }
        assert_eq!(
            "10.0.0.1/8".parse::<Cidr>().unwrap_err().to_string(),
            "range `10.0.0.1/8` has bits set beyond its length: write `10.0.0.0/8`"
        );
        assert_eq!(
            "::ffff:10.0.0.1".parse::<Cidr>().unwrap_err().to_string(),
            "range `::ffff:10.0.0.1` stands for IPv4 addresses: write the IPv4 range itself"
        );
    }

    proptest! {
        #[test]
        fn a_range_contains_exactly_the_addresses_with_its_prefix(a: u32, b: u32, length in 0u8..=32) {
            let range = Cidr { network: mask(Ipv4Addr::from_bits(a).into(), length), length };
            let same = length == 0 || (a ^ b) >> (32 - u32::from(length)) == 0;
            prop_assert_eq!(range.contains(Ipv4Addr::from_bits(b).into()), same);
            prop_assert_eq!(range.to_string().parse::<Cidr>(), Ok(range));
        }
    }
}
