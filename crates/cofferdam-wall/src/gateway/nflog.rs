//! What the kernel says about a packet that it refused: messages of `nfnetlink_log`, read strictly.
//!
//! The packet inside was written by the sandbox. Layout: `linux/netfilter/nfnetlink_log.h`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// `NFNL_SUBSYS_ULOG` and `NFULNL_MSG_PACKET`.
const PACKET: u16 = 4 << 8;
const NETLINK_HEAD: usize = 16;
/// `struct nfgenmsg`.
const FAMILY_HEAD: usize = 4;
const NFULA_PAYLOAD: u16 = 9;
/// The bits of an attribute's type that are flags.
const FLAGS: u16 = 0xc000;

/// A packet that did not leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Packet {
    /// The number of its protocol (IANA).
    pub(super) protocol: u8,
    pub(super) to: IpAddr,
    /// Where the protocol has ports, and the packet is the first of its fragments.
    pub(super) port: Option<u16>,
}

impl Packet {
    /// The protocol's name, or its number.
    pub(super) fn protocol_name(&self) -> String {
        match self.protocol {
            1 | 58 => "icmp".to_owned(),
            6 => "tcp".to_owned(),
            17 => "udp".to_owned(),
            132 => "sctp".to_owned(),
            number => number.to_string(),
        }
    }
}

/// The packets that one datagram of the socket tells of. What is not understood is passed over.
pub(super) fn packets(mut datagram: &[u8]) -> Vec<Packet> {
    let mut packets = Vec::new();
    while let Some((message, rest)) = netlink_message(datagram) {
        packets.extend(message);
        datagram = rest;
    }
    packets
}

/// One netlink message, and what comes after it.
fn netlink_message(datagram: &[u8]) -> Option<(Option<Packet>, &[u8])> {
    let length = usize::try_from(u32::from_ne_bytes(*datagram.first_chunk()?)).ok()?;
    if length < NETLINK_HEAD {
        return None;
    }
    let message = datagram.get(..length)?;
    let kind = u16::from_ne_bytes([message[4], message[5]]);
    let rest = datagram.get(aligned(length)..).unwrap_or_default();
    let packet = (kind == PACKET)
        .then(|| message.get(NETLINK_HEAD + FAMILY_HEAD..))
        .flatten()
        .and_then(payload)
        .and_then(packet);
    Some((packet, rest))
}

/// The content of the attribute that holds the packet.
fn payload(mut attributes: &[u8]) -> Option<&[u8]> {
    loop {
        let [a, b, c, d, ..] = *attributes else {
            return None;
        };
        let length = usize::from(u16::from_ne_bytes([a, b]));
        let content = attributes.get(4..length)?;
        if u16::from_ne_bytes([c, d]) & !FLAGS == NFULA_PAYLOAD {
            return Some(content);
        }
        attributes = attributes.get(aligned(length)..)?;
    }
}

fn packet(bytes: &[u8]) -> Option<Packet> {
    let (protocol, to, transport) = match bytes.first()? >> 4 {
        4 => {
            let head = bytes.first_chunk::<20>()?;
            let length = usize::from(head[0] & 0x0f) * 4;
            let to = Ipv4Addr::new(head[16], head[17], head[18], head[19]);
            // Its place among the fragments, without the flags above it.
            let first = (head[6] & 0x1f, head[7]) == (0, 0);
            let transport = first.then(|| bytes.get(length.max(20)..)).flatten();
            (head[9], IpAddr::V4(to), transport)
        }
        6 => {
            let head = bytes.first_chunk::<40>()?;
            let to: [u8; 16] = *head.last_chunk()?;
            (head[6], IpAddr::V6(Ipv6Addr::from(to)), bytes.get(40..))
        }
        _ => return None,
    };
    let port = match (protocol, transport) {
        (6 | 17 | 132, Some([_, _, high, low, ..])) => Some(u16::from_be_bytes([*high, *low])),
        _ => None,
    };
    Some(Packet { protocol, to, port })
}

fn aligned(length: usize) -> usize {
    length.next_multiple_of(4)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn attribute(kind: u16, content: &[u8]) -> Vec<u8> {
        let length = u16::try_from(content.len() + 4).unwrap();
        let mut bytes = [&length.to_ne_bytes(), &kind.to_ne_bytes(), content].concat();
        bytes.resize(aligned(bytes.len()), 0);
        bytes
    }

    fn message(kind: u16, attributes: &[u8]) -> Vec<u8> {
        let length = u32::try_from(NETLINK_HEAD + FAMILY_HEAD + attributes.len()).unwrap();
        let mut bytes = length.to_ne_bytes().to_vec();
        bytes.extend_from_slice(&kind.to_ne_bytes());
        bytes.resize(NETLINK_HEAD + FAMILY_HEAD, 0);
        bytes.extend_from_slice(attributes);
        bytes
    }

    /// An IPv4 packet with `options` bytes of options.
    fn v4(protocol: u8, fragment: u16, options: u8, transport: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0u8; 20 + usize::from(options)];
        bytes[0] = 0x45 + options / 4;
        bytes[6..8].copy_from_slice(&fragment.to_be_bytes());
        bytes[9] = protocol;
        bytes[16..20].copy_from_slice(&[203, 0, 113, 9]);
        bytes.extend_from_slice(transport);
        bytes
    }

    fn read(packet: &[u8]) -> Vec<Packet> {
        let attributes = [attribute(10, b"prefix\0"), attribute(9, packet)].concat();
        packets(&message(PACKET, &attributes))
    }

    fn found(protocol: u8, port: Option<u16>) -> Vec<Packet> {
        let to = "203.0.113.9".parse().unwrap();
        vec![Packet { protocol, to, port }]
    }

    #[test]
    fn a_packet_says_where_it_was_to_go() {
        let to_443 = [0x30, 0x39, 0x01, 0xbb, 0, 8, 0, 0];
        assert_eq!(read(&v4(17, 0, 0, &to_443)), found(17, Some(443)));
        assert_eq!(read(&v4(17, 0x2000, 8, &to_443)), found(17, Some(443)));
        assert_eq!(read(&v4(17, 0x0001, 0, &to_443)), found(17, None));
        assert_eq!(read(&v4(17, 0, 0, &to_443[..3])), found(17, None));
        assert_eq!(read(&v4(1, 0, 0, &to_443)), found(1, None));
        let mut v6 = vec![0x60, 0, 0, 0, 0, 8, 17, 64];
        v6.extend_from_slice(&[0; 16]);
        v6.extend_from_slice(&"2001:db8::1".parse::<Ipv6Addr>().unwrap().octets());
        v6.extend_from_slice(&to_443);
        assert_eq!(read(&v6)[0].to.to_string(), "2001:db8::1");
    }

    #[test]
    fn several_messages_come_in_one_datagram_and_others_are_passed_over() {
        let one = message(PACKET, &attribute(9, &v4(1, 0, 0, &[])));
        let other = message(3, &attribute(9, &v4(1, 0, 0, &[])));
        assert_eq!(packets(&[one.clone(), other, one].concat()).len(), 2);
        assert_eq!(packets(&message(PACKET, &[])), vec![]);
    }

    proptest! {
        #[test]
        fn no_bytes_break_it(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            prop_assert!(packets(&bytes).len() <= bytes.len() / NETLINK_HEAD);
            prop_assert!(read(&bytes).len() <= 1);
        }

        #[test]
        fn no_length_of_an_attribute_breaks_it(length: u16, rest in proptest::collection::vec(any::<u8>(), 0..60)) {
            let attributes = [&length.to_ne_bytes()[..], &rest].concat();
            prop_assert!(packets(&message(PACKET, &attributes)).len() <= 1);
        }
    }

    /// What is told of packets was in the datagram, and there are not more of them than fit into it.
    #[test]
    fn fuzz_refused_packets() {
        let to_443 = [0x30, 0x39, 0x01, 0xbb, 0, 8, 0, 0];
        let datagram = |packet: &[u8]| message(PACKET, &attribute(9, packet));
        let one = datagram(&v4(17, 0, 8, &to_443));
        let mut v6 = vec![0x60, 0, 0, 0, 0, 8, 6, 64];
        v6.resize(40, 1);
        v6.extend(to_443);
        let seeds = [
            one.clone(),
            datagram(&v6),
            [one, datagram(&v4(1, 1, 0, &to_443))].concat(),
        ];
        assert_eq!(seeds.each_ref().map(|seed| packets(seed).len()), [1, 1, 2]);
        cofferdam_lab::fuzz::mutate("refused packets", &seeds, |datagram| {
            let found = packets(datagram);
            assert!(found.len() <= datagram.len() / (NETLINK_HEAD + FAMILY_HEAD));
            for packet in found {
                let within = |bytes: &[u8]| datagram.windows(bytes.len()).any(|one| one == bytes);
                assert!(match packet.to {
                    IpAddr::V4(to) => within(&to.octets()),
                    IpAddr::V6(to) => within(&to.octets()),
                });
                assert!(packet.port.is_none_or(|port| within(&port.to_be_bytes())));
            }
        });
    }
}
