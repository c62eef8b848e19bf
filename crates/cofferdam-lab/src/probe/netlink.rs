//! Changes of routes, links and packet rules, asked of the kernel without any program.

use std::io::{self, Read, Write};

use socket2::{Domain, Protocol, Socket, Type};

const ROUTE: i32 = 0;
const NETFILTER: i32 = 12;
const REQUEST_ACK: u16 = 0x1 | 0x4;
const CREATE: u16 = 0x400;

/// Adds a route to 198.51.100.0/24 over `lo`, and takes it away again.
pub(super) fn add_route() -> io::Result<()> {
    let mut body = vec![2, 24, 0, 0, 254, 4, 253, 1, 0, 0, 0, 0];
    body.extend(attribute(1, &[198, 51, 100, 0]));
    body.extend(attribute(4, &1_u32.to_ne_bytes()));
    send(ROUTE, &[message(24, REQUEST_ACK | CREATE, &body)])?;
    send(ROUTE, &[message(25, REQUEST_ACK, &body)])
}

/// Sets `lo` to what it is already: needs the same privilege as any change.
pub(super) fn set_link() -> io::Result<()> {
    let mut body = vec![0; 16];
    body[4] = 1;
    send(ROUTE, &[message(16, REQUEST_ACK, &body)])
}

/// Removes every table of nf_tables.
pub(super) fn flush_rules() -> io::Result<()> {
    let batch = [0, 0, 0, 10];
    send(
        NETFILTER,
        &[
            message(16, 0x1, &batch),
            message((10 << 8) | 2, REQUEST_ACK, &[0; 4]),
            message(17, 0x1, &batch),
        ],
    )
}

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = u16::try_from(4 + value.len()).unwrap_or(4);
    [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), value].concat()
}

fn message(kind: u16, flags: u16, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(16 + body.len()).unwrap_or(16);
    let mut out = length.to_ne_bytes().to_vec();
    out.extend(kind.to_ne_bytes());
    out.extend(flags.to_ne_bytes());
    out.extend([0; 8]);
    out.extend(body);
    out
}

/// The kernel's answer is an error message, with zero for success.
fn send(family: i32, messages: &[Vec<u8>]) -> io::Result<()> {
    let mut socket = Socket::new(Domain::from(16), Type::RAW, Some(Protocol::from(family)))?;
    socket.set_read_timeout(Some(std::time::Duration::from_secs(1)))?;
    socket.write_all(&messages.concat())?;
    let mut answer = [0; 4096];
    let length = socket.read(&mut answer)?;
    match answer.get(16..20).and_then(|code| code.try_into().ok()) {
        Some(code) if length >= 20 => match i32::from_ne_bytes(code) {
            0 => Ok(()),
            code => Err(io::Error::from_raw_os_error(-code)),
        },
        _ => Err(io::Error::other("a short answer")),
    }
}
