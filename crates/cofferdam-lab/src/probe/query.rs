//! Lookups by hand: any name, type and class, over UDP or TCP, at any server.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use super::stream;

const WAIT: Duration = Duration::from_secs(1);

/// The response code and the records of the answer section, each as its type and its bytes in hexadecimal.
pub(super) fn ask(
    server: &str,
    tcp: bool,
    name: &str,
    kind: u16,
    class: u16,
) -> io::Result<(u8, Vec<String>)> {
    let message = encode(name, kind, class);
    let mut answer = vec![0; 1 << 14];
    let length = if tcp {
        let mut stream = stream::connect(server)?;
        stream.set_read_timeout(Some(WAIT))?;
        let length = u16::try_from(message.len()).map_err(io::Error::other)?;
        stream.write_all(&[&length.to_be_bytes()[..], &message].concat())?;
        let mut length = [0; 2];
        stream.read_exact(&mut length)?;
        let length = usize::from(u16::from_be_bytes(length)).min(answer.len());
        stream.read_exact(&mut answer[..length])?;
        length
    } else {
        let to: SocketAddr = stream::address(server)?;
        let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let socket = UdpSocket::bind(any)?;
        socket.set_read_timeout(Some(WAIT))?;
        // Connected, so that a refusal is heard at once.
        socket.connect(to)?;
        socket.send(&message)?;
        socket.recv(&mut answer)?
    };
    decode(&answer[..length]).ok_or_else(|| io::Error::other("a malformed answer"))
}

/// Labels longer than 63 bytes keep their low bits only: hostile, but a message.
fn encode(name: &str, kind: u16, class: u16) -> Vec<u8> {
    let mut message = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.trim_end_matches('.').split('.') {
        message.push(label.len().to_le_bytes()[0]);
        message.extend(label.as_bytes());
    }
    message.push(0);
    message.extend(kind.to_be_bytes());
    message.extend(class.to_be_bytes());
    message
}

fn decode(message: &[u8]) -> Option<(u8, Vec<String>)> {
    let word = |at: usize| {
        Some(u16::from_be_bytes([
            *message.get(at)?,
            *message.get(at + 1)?,
        ]))
    };
    let code = message.get(3)? & 0xf;
    let mut at = 12;
    for _ in 0..word(4)? {
        at = skip_name(message, at)? + 4;
    }
    let mut records = Vec::new();
    for _ in 0..word(6)? {
        at = skip_name(message, at)?;
        let kind = word(at)?;
        let length = usize::from(word(at + 8)?);
        let body = message.get(at + 10..at + 10 + length)?;
        let hex: String = body.iter().map(|byte| format!("{byte:02x}")).collect();
        records.push(format!("{kind} {hex}"));
        at += 10 + length;
    }
    Some((code, records))
}

fn skip_name(message: &[u8], mut at: usize) -> Option<usize> {
    loop {
        let length = usize::from(*message.get(at)?);
        match length {
            0 => return Some(at + 1),
            1..64 => at += 1 + length,
            _ => return Some(at + 2),
        }
    }
}
