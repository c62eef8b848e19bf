//! Tries the wall from inside, as a program of the sandbox: every attempt but one must be refused. Runs in a
//! process with exactly a program's privileges and filter, before any program of the agent.
//!
//! One after the other, because the answers come from this machine: all of it takes about a millisecond.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use cofferdam_guest::protocol::{
    Attempt, Finding, Findings, Observed, PROXY_PORT, Passage, REFUSED_ADDRESS, REFUSED_NAME,
};

use crate::sys;

/// An answer that takes longer is none: the wall is broken, and the sandbox will not start.
const LIMIT: Duration = Duration::from_secs(2);
/// How much of an answer is kept.
const KEPT: usize = 64;

/// A server of the internet as far as anybody can tell: TEST-NET-1 and the documentation prefix.
const FAR_V4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const FAR_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);

pub(crate) fn findings(passes: &Passage) -> Findings {
    let attempts = [
        (
            Attempt::LookupUdp,
            lookup_over_udp as fn() -> io::Result<Vec<u8>>,
        ),
        (Attempt::LookupTcp, lookup_over_tcp),
        (Attempt::Address, || connect(REFUSED_ADDRESS.into(), 443)),
        (Attempt::Metadata, || {
            connect([169, 254, 169, 254].into(), 80)
        }),
        (Attempt::OtherMetadata, || {
            connect([100, 100, 100, 200].into(), 80)
        }),
        (Attempt::Datagram, || datagram(FAR_V4.into())),
        (Attempt::Ping, || {
            socket(libc::AF_INET, libc::SOCK_DGRAM, libc::IPPROTO_ICMP)
        }),
        (Attempt::Raw, || {
            socket(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_TCP)
        }),
        (Attempt::Packet, || {
            socket(libc::AF_PACKET, libc::SOCK_RAW, 0)
        }),
        (Attempt::ConnectV6, || connect(FAR_V6.into(), 443)),
        (Attempt::DatagramV6, || datagram(FAR_V6.into())),
        (Attempt::Proxy, proxy),
    ];
    Findings {
        interfaces: sys::interfaces().unwrap_or_default(),
        attempts: attempts
            .into_iter()
            .map(|(attempt, run)| (attempt, run()))
            .chain(std::iter::once_with(|| (Attempt::Passage, passage(passes))))
            .map(|(attempt, result)| Finding {
                attempt,
                outcome: outcome(result),
            })
            .collect(),
    }
}

fn outcome(result: io::Result<Vec<u8>>) -> Observed {
    match result {
        Ok(answer) => Observed::Answered(answer.into_iter().take(KEPT).collect()),
        Err(error) => match (error.kind(), error.raw_os_error()) {
            (io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut, _) => Observed::Silence,
            (io::ErrorKind::UnexpectedEof, _) => Observed::Refused(0),
            (_, errno) => Observed::Refused(errno.unwrap_or(libc::EIO)),
        },
    }
}

/// A question for the A record of a name.
fn query(name: &str) -> Vec<u8> {
    let mut message = vec![0x43, 0x64, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        message.push(u8::try_from(label.len()).unwrap_or_default());
        message.extend_from_slice(label.as_bytes());
    }
    message.extend_from_slice(&[0, 0, 1, 0, 1]);
    message
}

fn lookup_over_udp() -> io::Result<Vec<u8>> {
    look_up(REFUSED_NAME)
}

fn look_up(name: &str) -> io::Result<Vec<u8>> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.set_read_timeout(Some(LIMIT))?;
    socket.connect((FAR_V4, 53))?;
    socket.send(&query(name))?;
    let mut answer = vec![0; 512];
    let got = socket.recv(&mut answer)?;
    answer.truncate(got);
    Ok(answer)
}

fn lookup_over_tcp() -> io::Result<Vec<u8>> {
    let mut stream = dial(FAR_V4.into(), 53)?;
    let query = query(REFUSED_NAME);
    let length = u16::try_from(query.len()).unwrap_or_default();
    stream.write_all(&[&length.to_be_bytes()[..], &query].concat())?;
    let mut head = [0; 2];
    stream.read_exact(&mut head)?;
    let mut answer = vec![0; usize::from(u16::from_be_bytes(head)).min(512)];
    stream.read_exact(&mut answer)?;
    Ok(answer)
}

fn dial(address: IpAddr, port: u16) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&SocketAddr::new(address, port), LIMIT)?;
    stream.set_read_timeout(Some(LIMIT))?;
    Ok(stream)
}

/// The connection may be taken and then reset: only a byte, or an open end, would be an answer.
fn connect(address: IpAddr, port: u16) -> io::Result<Vec<u8>> {
    let mut stream = dial(address, port)?;
    stream.write_all(b"GET / HTTP/1.1\r\nHost: cofferdam.invalid\r\n\r\n")?;
    first_bytes(&mut stream)
}

fn first_bytes(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut answer = vec![0; KEPT];
    match stream.read(&mut answer)? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        got => {
            answer.truncate(got);
            Ok(answer)
        }
    }
}

fn datagram(address: IpAddr) -> io::Result<Vec<u8>> {
    let unspecified: IpAddr = match address {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((unspecified, 0))?;
    socket.send_to(b"cofferdam", (address, 443))?;
    Ok(Vec::new())
}

fn socket(family: i32, kind: i32, protocol: i32) -> io::Result<Vec<u8>> {
    sys::try_socket(family, kind, protocol).map(|()| Vec::new())
}

fn proxy() -> io::Result<Vec<u8>> {
    let mut stream = dial(Ipv4Addr::LOCALHOST.into(), PROXY_PORT)?;
    let request =
        format!("CONNECT {REFUSED_NAME}:443 HTTP/1.1\r\nHost: {REFUSED_NAME}:443\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    first_bytes(&mut stream)
}

/// What a program would do that may: the answer of whoever is there, up to its end.
fn passage(passes: &Passage) -> io::Result<Vec<u8>> {
    let message = look_up(&passes.name)?;
    // One record (RFC 1035, 4.1.1), whose address the message ends with.
    let address = match (message.get(6..8), message.last_chunk::<4>()) {
        (Some([0, 1]), Some(address)) => Ipv4Addr::from(*address),
        _ => return Err(io::Error::from_raw_os_error(libc::ENOENT)),
    };
    let stream = dial(address.into(), passes.port)?;
    let mut answer = Vec::new();
    stream.take(KEPT as u64).read_to_end(&mut answer)?;
    Ok(answer)
}
