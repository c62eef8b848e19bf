//! A way to a real engine that changes what it is told, as one does that has other defaults or is somebody else's.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;

use cofferdam::sandbox::engine::Kind;

use crate::world::around;

/// What becomes of a request's bytes.
type Change = dyn Fn(String) -> String + Send + Sync;

pub(crate) struct Between {
    place: tempfile::TempDir,
}

impl Between {
    /// `owner`: whose it is to the kernel. Root alone can name another than itself.
    pub(crate) fn to(
        kind: Kind,
        owner: Option<u32>,
        change: impl Fn(String) -> String + Send + Sync + 'static,
    ) -> Self {
        let place = tempfile::tempdir().unwrap();
        std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
        let path = place.path().join("s");
        // Who begins to listen is whose it is, and that is a thread's own.
        let listens = std::thread::spawn(move || {
            if let Some(owner) = owner {
                let same = rustix::process::Uid::from_raw(owner);
                let root = rustix::process::Uid::ROOT;
                rustix::thread::set_thread_res_uid(root, same, root).unwrap();
            }
            UnixListener::bind(path).unwrap()
        });
        let listener = listens.join().unwrap();
        let engine = socket(kind);
        let change: Arc<Change> = Arc::new(change);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let (Ok(client), Ok(there)) = (client, UnixStream::connect(&engine)) else {
                    return;
                };
                let (mut back, mut to) = (there.try_clone().unwrap(), client.try_clone().unwrap());
                std::thread::spawn(move || {
                    let _ = std::io::copy(&mut back, &mut to);
                    let _ = to.shutdown(Shutdown::Both);
                });
                let change = Arc::clone(&change);
                std::thread::spawn(move || forward(client, there, &*change));
            }
        });
        Self { place }
    }

    /// As a variable names it.
    pub(crate) fn host(&self) -> String {
        format!("unix://{}/s", self.place.path().display())
    }
}

/// Request by request; those that have a body say how long it is.
fn forward(client: UnixStream, mut engine: UnixStream, change: &Change) {
    let mut client = std::io::BufReader::new(client);
    loop {
        let (mut head, mut length) = (String::new(), None);
        loop {
            let mut line = String::new();
            match std::io::BufRead::read_line(&mut client, &mut line) {
                Ok(1..) => {}
                _ => return,
            }
            if line == "\r\n" {
                break;
            }
            match line.to_ascii_lowercase().strip_prefix("content-length:") {
                Some(number) => length = number.trim().parse::<usize>().ok(),
                None => head.push_str(&line),
            }
        }
        let mut body = vec![0; length.unwrap_or(0)];
        if client.read_exact(&mut body).is_err() {
            return;
        }
        let body = match String::from_utf8(body) {
            Ok(text) => change(text).into_bytes(),
            // An archive.
            Err(other) => other.into_bytes(),
        };
        if length.is_some() {
            head.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        head.push_str("\r\n");
        let sent = engine.write_all(head.as_bytes());
        if sent.and_then(|()| engine.write_all(&body)).is_err() {
            return;
        }
    }
}

/// Where the real one is.
fn socket(kind: Kind) -> PathBuf {
    let around = around();
    let (named, usual) = match kind {
        Kind::Docker => (around.docker_host, "/var/run/docker.sock"),
        Kind::Podman => (around.container_host, "/run/podman/podman.sock"),
    };
    named.map_or_else(
        || PathBuf::from(usual),
        |host| {
            let host = host.into_string().unwrap();
            host.trim_start_matches("unix://").into()
        },
    )
}
