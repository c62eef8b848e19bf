//! What an attack meets where nobody is careful: a proxy that reads names as it likes, and a server that takes
//! no notice of how long a body says it is. The same bytes go to them and to the wall.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// Nobody here waits longer for bytes.
const PATIENCE: Duration = Duration::from_secs(5);

/// A proxy for CONNECT, SOCKS5 and requests in absolute form, as far as the attacks speak them.
pub(crate) fn relay(mut client: TcpStream) -> std::io::Result<()> {
    client.set_read_timeout(Some(PATIENCE))?;
    let mut buffer = [0; 8192];
    let length = client.read(&mut buffer)?;
    let said = &buffer[..length];
    if said.first() == Some(&5) {
        return socks(client);
    }
    let text = String::from_utf8_lossy(said).into_owned();
    let line = text.split("\r\n").next().unwrap_or_default();
    let line = line.rsplit_once(" HTTP/").map_or(line, |(line, _)| line);
    if let Some(target) = line.strip_prefix("CONNECT ") {
        let (host, port) = place(target);
        let server = dial(&host, port)?;
        client.write_all(b"HTTP/1.1 200 OK\r\n\r\n")?;
        return both_ways(client, server);
    }
    let target = line.split_once("http://").map_or("", |(_, target)| target);
    let (host, port) = place(target);
    let mut server = dial(&host, port)?;
    server.write_all(said)?;
    both_ways(client, server)
}

/// After the greeting.
fn socks(mut client: TcpStream) -> std::io::Result<()> {
    client.write_all(&[5, 0])?;
    let mut head = [0; 5];
    client.read_exact(&mut head)?;
    let mut name = vec![0; usize::from(head[4])];
    client.read_exact(&mut name)?;
    let mut port = [0; 2];
    client.read_exact(&mut port)?;
    let host = read_host(&String::from_utf8_lossy(&name));
    let server = dial(&host, u16::from_be_bytes(port))?;
    client.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0])?;
    both_ways(client, server)
}

/// Host and port of a target: what a library for URLs, or one that counts to a NUL, makes of it.
fn place(target: &str) -> (String, u16) {
    let end = target
        .find(['/', '#', '?', '\\', '\0'])
        .unwrap_or(target.len());
    let authority = &target[..end.min(target.find("%00").unwrap_or(end))];
    let authority = authority
        .rsplit_once('@')
        .map_or(authority, |(_, place)| place);
    let after = authority.rfind(']').map_or(0, |at| at + 1);
    match authority[after..].rsplit_once(':') {
        Some((before, port)) => {
            let host = &authority[..after + before.len()];
            (read_host(host), port.parse().unwrap_or(80))
        }
        None => (read_host(authority), 80),
    }
}

/// A name as lenient readers take it.
fn read_host(text: &str) -> String {
    let end = text.find(['/', '#', '?', '\\', '\0']).unwrap_or(text.len());
    let text = &text[..end.min(text.find("%00").unwrap_or(end))];
    let text = text.rsplit_once('@').map_or(text, |(_, place)| place);
    let text: String = text.chars().filter(|c| c.is_ascii() && *c != '*').collect();
    let labels = text.split('.').filter(|label| !label.is_empty());
    let labels: Vec<&str> = labels.map(|label| &label[..label.len().min(63)]).collect();
    labels.join(".")
}

fn dial(host: &str, port: u16) -> std::io::Result<TcpStream> {
    let mut last = std::io::Error::other(format!("`{host}` has no address"));
    for address in format!("{host}:{port}").to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn both_ways(client: TcpStream, server: TcpStream) -> std::io::Result<()> {
    server.set_read_timeout(Some(PATIENCE))?;
    let (mut from, mut to) = (client.try_clone()?, server.try_clone()?);
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut from, &mut to);
        let _ = to.shutdown(std::net::Shutdown::Write);
    });
    let (mut from, mut to) = (server, client);
    let _ = std::io::copy(&mut from, &mut to);
    to.shutdown(std::net::Shutdown::Write)
}

/// Reads all that comes and answers each line that could begin a request: the Host headers that it met.
pub(crate) fn serve(stream: &mut TcpStream) -> std::io::Result<String> {
    const PAUSE: Duration = Duration::from_millis(500);
    stream.set_read_timeout(Some(PAUSE))?;
    let mut text = String::new();
    let mut buffer = [0; 8192];
    while let Ok(length @ 1..) = stream.read(&mut buffer) {
        text.push_str(&String::from_utf8_lossy(&buffer[..length]));
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nmet\n")?;
    }
    let hosts = text.lines().filter_map(|line| line.strip_prefix("Host: "));
    Ok(hosts.collect::<Vec<_>>().join(" "))
}
