//! The internet's name server: answers as it was told to, and keeps every query as it came.

use std::io::{self, Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use super::place;
use super::world::{Query, Reply, World, locked};

const A: u16 = 1;
const AAAA: u16 = 28;
const LONGEST: usize = 4096;

pub(crate) fn start(world: Arc<World>) -> io::Result<()> {
    let datagrams = UdpSocket::bind((place::DNS, 53))?;
    let connections = TcpListener::bind((place::DNS, 53))?;
    let shared = Arc::clone(&world);
    std::thread::spawn(move || {
        let mut buffer = [0; LONGEST];
        while let Ok((length, from)) = datagrams.recv_from(&mut buffer) {
            let Some((query, reply)) = take(&shared, &buffer[..length], false) else {
                continue;
            };
            let message = buffer[..length].to_vec();
            if let Reply::Slow { millis, .. } = reply {
                let Ok(socket) = datagrams.try_clone() else {
                    continue;
                };
                std::thread::spawn(move || {
                    std::thread::sleep(Duration::from_millis(millis));
                    if let Some(answer) = answer(&message, &query, &reply) {
                        let _ = socket.send_to(&answer, from);
                    }
                });
            } else if let Some(answer) = answer(&message, &query, &reply) {
                let _ = datagrams.send_to(&answer, from);
            }
        }
    });
    std::thread::spawn(move || {
        for stream in connections.incoming().flatten() {
            let world = Arc::clone(&world);
            std::thread::spawn(move || serve(&world, stream));
        }
    });
    Ok(())
}

fn serve(world: &World, mut stream: TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_millis(400)))?;
    loop {
        let mut length = [0; 2];
        stream.read_exact(&mut length)?;
        let mut message = vec![0; usize::from(u16::from_be_bytes(length))];
        stream.read_exact(&mut message)?;
        let Some((query, reply)) = take(world, &message, true) else {
            return Ok(());
        };
        if let Reply::Slow { millis, .. } = reply {
            std::thread::sleep(Duration::from_millis(millis));
        }
        if let Some(answer) = answer(&message, &query, &reply) {
            let length = u16::try_from(answer.len()).map_err(io::Error::other)?;
            stream.write_all(&[&length.to_be_bytes()[..], &answer].concat())?;
        }
    }
}

/// Writes the query down and takes the next reply of its name's script.
fn take(world: &World, message: &[u8], tcp: bool) -> Option<(Query, Reply)> {
    let (name, end) = read_name(message, 12)?;
    let number = |at: usize| {
        let bytes = message.get(at..at + 2)?;
        Some(u16::from_be_bytes([bytes[0], bytes[1]]))
    };
    let query = Query {
        kind: number(end)?,
        class: number(end + 2)?,
        name,
        tcp,
    };
    locked(&world.queries).push(query.clone());
    let mut scripts = locked(&world.scripts);
    let name = query.name.to_ascii_lowercase();
    let key = scripts.contains_key(&name).then_some(name).or_else(|| {
        let name = query.name.to_ascii_lowercase();
        let parents = name.match_indices('.').map(|(at, _)| &name[at + 1..]);
        let mut wild = parents.map(|parent| format!("*.{parent}"));
        wild.find(|key| scripts.contains_key(key))
    });
    let script = scripts.get_mut(key.as_deref().unwrap_or("*"));
    let reply = match script {
        Some(replies) if replies.len() > 1 => replies.remove(0),
        Some(replies) => replies.first()?.clone(),
        None => Reply::NoSuchName,
    };
    Some((query, reply))
}

/// The name at `at` and where it ends. Queries have no pointers.
fn read_name(message: &[u8], mut at: usize) -> Option<(String, usize)> {
    let mut name = String::new();
    loop {
        let length = usize::from(*message.get(at)?);
        at += 1;
        if length == 0 {
            return Some((name, at));
        }
        if length > 63 {
            return None;
        }
        if !name.is_empty() {
            name.push('.');
        }
        name.push_str(&String::from_utf8_lossy(message.get(at..at + length)?));
        at += length;
    }
}

/// The whole message; nothing for silence. Types other than addresses get a record of sixteen bytes, so that
/// whoever forwards them is seen to.
fn answer(message: &[u8], query: &Query, reply: &Reply) -> Option<Vec<u8>> {
    let (addresses, ttl, code): (&[IpAddr], u32, u8) = match reply {
        Reply::Addresses { addresses, ttl } => (addresses, *ttl, 0),
        Reply::Slow { addresses, .. } => (addresses, 60, 0),
        Reply::NoSuchName => (&[], 0, 3),
        Reply::ServerFailure => (&[], 0, 2),
        Reply::Silence => return None,
    };
    let (_, end) = read_name(message, 12)?;
    let records: Vec<Vec<u8>> = match query.kind {
        _ if code != 0 => Vec::new(),
        A | AAAA => addresses
            .iter()
            .filter_map(|address| match address {
                IpAddr::V4(v4) if query.kind == A => Some(v4.octets().to_vec()),
                IpAddr::V6(v6) if query.kind == AAAA => Some(v6.octets().to_vec()),
                _ => None,
            })
            .collect(),
        _ => vec![b"\x0flab-was-asked-!".to_vec()],
    };
    let mut out = message.get(..2)?.to_vec();
    out.extend([0x81, 0x80 | code, 0, 1]);
    out.extend(u16::try_from(records.len()).ok()?.to_be_bytes());
    out.extend([0; 4]);
    out.extend(message.get(12..end + 4)?);
    for record in records {
        out.extend([0xc0, 12]);
        out.extend(query.kind.to_be_bytes());
        out.extend(query.class.to_be_bytes());
        out.extend(ttl.to_be_bytes());
        out.extend(u16::try_from(record.len()).ok()?.to_be_bytes());
        out.extend(record);
    }
    Some(out)
}
