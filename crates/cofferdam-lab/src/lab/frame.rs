//! Reads the heads of a captured frame.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};

/// What carries the payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Transport {
    /// The first packet of a connection.
    Syn,
    /// Any other TCP.
    Tcp,
    Udp,
    Icmp,
    /// An IP protocol number.
    Other(u8),
    /// No IP: an Ethernet type.
    Link(u16),
}

/// One frame on the wire between the house and the internet, in either direction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Packet {
    pub transport: Transport,
    pub from: IpAddr,
    pub to: IpAddr,
    /// Zero where the transport has none.
    pub from_port: u16,
    pub to_port: u16,
}

const ETHERNET: usize = 14;

impl Packet {
    /// As much as can be read; an unknown frame is a packet too.
    pub(super) fn read(frame: &[u8]) -> Self {
        let kind = word(frame, 12);
        let body = frame.get(ETHERNET..).unwrap_or_default();
        match kind {
            0x0800 => Self::ip_4(body),
            0x86dd => Self::ip_6(body),
            kind => Self {
                transport: Transport::Link(kind),
                from: Ipv4Addr::UNSPECIFIED.into(),
                to: Ipv4Addr::UNSPECIFIED.into(),
                from_port: 0,
                to_port: 0,
            },
        }
    }

    fn ip_4(body: &[u8]) -> Self {
        let address = |at: usize| Ipv4Addr::from(bytes::<4>(body, at)).into();
        let head = usize::from(body.first().copied().unwrap_or(0) & 0xf) * 4;
        let protocol = body.get(9).copied().unwrap_or(0);
        let payload = body.get(head..).unwrap_or_default();
        Self::with_ports(address(12), address(16), protocol, payload)
    }

    /// Extension heads are not looked behind: such a packet keeps their number.
    fn ip_6(body: &[u8]) -> Self {
        let address = |at: usize| Ipv6Addr::from(bytes::<16>(body, at)).into();
        let protocol = body.get(6).copied().unwrap_or(0);
        let payload = body.get(40..).unwrap_or_default();
        Self::with_ports(address(8), address(24), protocol, payload)
    }

    fn with_ports(from: IpAddr, to: IpAddr, protocol: u8, payload: &[u8]) -> Self {
        let flags = payload.get(13).copied().unwrap_or(0);
        let transport = match protocol {
            6 if flags & 0x12 == 0x02 => Transport::Syn,
            6 => Transport::Tcp,
            17 => Transport::Udp,
            1 | 58 => Transport::Icmp,
            other => Transport::Other(other),
        };
        let ported = matches!(protocol, 6 | 17);
        Self {
            transport,
            from,
            to,
            from_port: if ported { word(payload, 0) } else { 0 },
            to_port: if ported { word(payload, 2) } else { 0 },
        }
    }
}

fn bytes<const N: usize>(body: &[u8], at: usize) -> [u8; N] {
    body.get(at..at + N)
        .and_then(|slice| slice.try_into().ok())
        .unwrap_or([0; N])
}

fn word(body: &[u8], at: usize) -> u16 {
    u16::from_be_bytes(bytes(body, at))
}
