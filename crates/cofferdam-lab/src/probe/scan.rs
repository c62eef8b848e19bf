//! Looks around: open ports, unix sockets, network interfaces.

use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Directories that are not walked: the kernel's own views.
const SKIPPED: [&str; 2] = ["/proc", "/sys"];
const MOST_ENTRIES: usize = 2_000_000;

pub(super) fn ports(address: &str, first: u16, last: u16) -> io::Result<Vec<String>> {
    let address: IpAddr = address.parse().map_err(io::Error::other)?;
    let open = (first..=last).filter(|port| {
        let to = SocketAddr::new(address, *port);
        let stream = TcpStream::connect_timeout(&to, Duration::from_millis(300));
        // A connection may meet itself where its own port was the one it tried.
        stream.is_ok_and(|stream| stream.local_addr().is_ok_and(|local| local != to))
    });
    Ok(open.map(|port| port.to_string()).collect())
}

pub(super) fn unix_sockets(below: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut left = vec![PathBuf::from(below)];
    let mut entries = 0;
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            entries += 1;
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            let path = entry.path();
            if kind.is_socket() && takes_connection(&path) {
                found.push(path.display().to_string());
            } else if kind.is_dir()
                && entries < MOST_ENTRIES
                && !SKIPPED.iter().any(|skipped| path == Path::new(skipped))
            {
                left.push(path);
            }
        }
    }
    let table = fs::read_to_string("/proc/net/unix").unwrap_or_default();
    for name in table.lines().filter_map(|line| line.split_once('@')) {
        let address = UnixAddress::from_abstract_name(name.1);
        if address.is_ok_and(|address| UnixStream::connect_addr(&address).is_ok()) {
            found.push(format!("@{}", name.1));
        }
    }
    found
}

fn takes_connection(path: &Path) -> bool {
    UnixStream::connect(path).is_ok()
        || UnixDatagram::unbound().is_ok_and(|socket| socket.connect(path).is_ok())
}

pub(super) fn interfaces() -> io::Result<Vec<String>> {
    let table = fs::read_to_string("/proc/net/dev")?;
    let names = table
        .lines()
        .skip(2)
        .filter_map(|line| line.split_once(':'));
    Ok(names.map(|(name, _)| name.trim().to_owned()).collect())
}
