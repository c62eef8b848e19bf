//! Everything that is no connection: datagrams, echo requests, raw sockets.

use std::io;
use std::net::{SocketAddr, UdpSocket};

use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use super::stream;

pub(super) fn udp(to: &str, payload: &[u8]) -> io::Result<()> {
    let to = stream::address(to)?;
    let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(any)?;
    socket.connect(to)?;
    socket.send(payload)?;
    // A refusal of the first packet is reported at the second.
    socket.send(payload)?;
    Ok(())
}

pub(super) fn ping(to: &str, payload: &[u8], raw: bool) -> io::Result<()> {
    let to: SocketAddr = stream::address(&format!("{to}:0"))?;
    let kind = if raw { Type::RAW } else { Type::DGRAM };
    let socket = Socket::new(Domain::IPV4, kind, Some(Protocol::ICMPV4))?;
    let mut message = vec![8, 0, 0, 0, 0, 1, 0, 1];
    message.extend(payload);
    let sum = checksum(&message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    socket.send_to(&message, &SockAddr::from(to)).map(drop)
}

pub(super) fn open(domain: i32, kind: i32, protocol: i32) -> io::Result<()> {
    let (domain, kind) = (Domain::from(domain), Type::from(kind));
    Socket::new(domain, kind, Some(Protocol::from(protocol))).map(drop)
}

/// As protocol 253, which is for experiments (RFC 3692).
pub(super) fn raw(to: &str, payload: &[u8]) -> io::Result<()> {
    let to: SocketAddr = stream::address(&format!("{to}:0"))?;
    let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(253)))?;
    socket.send_to(payload, &SockAddr::from(to)).map(drop)
}

fn checksum(message: &[u8]) -> u16 {
    let mut sum: u32 = message
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)))
        .sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !u16::try_from(sum).unwrap_or(0)
}
