//! Ports of this machine that lead into a dev sandbox, on the loopback alone. Whoever watches its checkout listens there, as long as
//! the sandbox runs, and connects as to any server inside: nothing of an engine's is used, and no wall is opened.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::num::NonZeroU16;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::starting;
use crate::fsx::{self, FileError};
use crate::network::NetworkKind;
use crate::published::PublishedPort;
use crate::sandbox::{self, Handle, Sandbox};

/// In the state directory: those at which nobody listens, and why.
const UNPUBLISHED: &str = "unpublished";
const MOST_READ: u64 = 64 << 10;
/// So many connections one sandbox has.
const MOST: usize = 128;
/// How long somebody inside may go on whose other side has said its last word.
const LAST: Duration = Duration::from_mins(5);
/// So many ports are tried for one that is free.
const TRIED: usize = 100;
/// After a connection could not be taken: descriptors may be free again.
const PAUSE: Duration = Duration::from_millis(100);

/// Why ports are not published.
#[derive(Debug, thiserror::Error)]
pub enum PortsError {
    /// The sandbox is no dev sandbox: a run ends, and its ports would with it.
    #[error("ports of this machine are published for dev sandboxes, which somebody watches")]
    NotDev,
    /// There nothing of the sandbox is asked who comes.
    #[error(
        "no ports lead into a sandbox with the network `open`: with the wall, which is the default, they do"
    )]
    Open,
    /// Somebody else listens there, or nobody may.
    #[error("port {port} of this machine cannot be published: {source}")]
    Taken {
        /// The port of this machine.
        port: NonZeroU16,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

/// A port of this machine at which nobody listens for a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Unpublished {
    /// The port of this machine.
    pub port: NonZeroU16,
    /// In the system's words.
    pub why: String,
    /// Somebody else listens there. Absent where an earlier build wrote it.
    #[serde(default)]
    pub is_taken: bool,
}

/// Those that a sandbox has. What a configuration says for all is left out where it cannot be.
pub(super) fn wanted(
    ports: &[PublishedPort],
    configured: bool,
    is_dev: bool,
    network: Option<NetworkKind>,
) -> Result<Vec<PublishedPort>, PortsError> {
    if configured {
        let possible = is_dev && check_network(network).is_ok();
        return Ok(if possible { ports.to_vec() } else { Vec::new() });
    }
    check(ports, is_dev, network)?;
    Ok(ports.to_vec())
}

/// Whether a sandbox can have them, and they can be published now.
pub(super) fn check(
    ports: &[PublishedPort],
    is_dev: bool,
    network: Option<NetworkKind>,
) -> Result<(), PortsError> {
    if ports.is_empty() {
        return Ok(());
    }
    if !is_dev {
        return Err(PortsError::NotDev);
    }
    check_network(network)?;
    Doors::open(ports).map(drop)
}

/// Whether what listens inside is the sandbox's.
pub(super) fn check_network(network: Option<NetworkKind>) -> Result<(), PortsError> {
    match network {
        Some(NetworkKind::Open) => Err(PortsError::Open),
        _ => Ok(()),
    }
}

/// The first port from this one on that could be published now, but for these. `None`: none of the next hundred.
pub fn free_port(from: NonZeroU16, but: &[NonZeroU16]) -> Option<NonZeroU16> {
    let ports = (from.get()..=u16::MAX).filter_map(NonZeroU16::new);
    let is_free = |host: NonZeroU16| Doors::open(&[PublishedPort { host, inside: host }]).is_ok();
    ports
        .take(TRIED)
        .find(|&port| !but.contains(&port) && is_free(port))
}

/// Listens at ports of this machine's loopback.
#[derive(Debug, Default)]
pub(super) struct Doors(Vec<(TcpListener, PublishedPort)>);

impl Doors {
    /// At all of them, or at none.
    pub(super) fn open(ports: &[PublishedPort]) -> Result<Self, PortsError> {
        let mut doors = Self::default();
        for one in ports {
            doors.add(*one)?;
        }
        Ok(doors)
    }

    /// At both addresses of this machine's loopback, where it has the second.
    fn add(&mut self, port: PublishedPort) -> Result<(), PortsError> {
        let taken = |source| PortsError::Taken {
            port: port.host,
            source,
        };
        let at = |address: IpAddr| TcpListener::bind(SocketAddr::new(address, port.host.get()));
        let first = at(Ipv4Addr::LOCALHOST.into()).map_err(taken)?;
        match at(Ipv6Addr::LOCALHOST.into()) {
            Ok(second) => self.0.push((second, port)),
            // Whoever listens there would have a part of those who ask for `localhost`.
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => return Err(taken(error)),
            Err(_) => {}
        }
        self.0.push((first, port));
        Ok(())
    }

    /// Takes connections until what is returned is dropped.
    pub(super) fn serve(self, sandbox: &Arc<dyn Sandbox>) -> Result<JoinSet<()>, PortsError> {
        let room = Arc::new(Semaphore::new(MOST));
        let mut serving = JoinSet::new();
        for (door, port) in self.0 {
            let polled = door.set_nonblocking(true);
            let door = polled.and_then(|()| tokio::net::TcpListener::from_std(door));
            let door = door.map_err(|source| PortsError::Taken {
                port: port.host,
                source,
            })?;
            let to = (Arc::clone(sandbox), port.inside.get());
            serving.spawn(take(door, to, Arc::clone(&room)));
        }
        Ok(serving)
    }
}

/// What is told of ports at which nobody listens, as the watcher left it.
pub(super) fn unpublished(state: &Path) -> Result<Vec<Unpublished>, FileError> {
    let path = state.join(UNPUBLISHED);
    match fsx::read_bounded(&path, MOST_READ) {
        Ok(text) => Ok(serde_json::from_slice(&text).unwrap_or_default()),
        Err(error) if error.is_not_found() => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// The ports of a sandbox, as long as this value is there. On a thread of its own: whoever watches the checkout waits for nobody's
/// connection.
#[derive(Debug)]
pub(super) struct Published {
    stop: CancellationToken,
    serving: Option<JoinHandle<()>>,
}

impl Drop for Published {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Published {
    /// Listens before it returns. `handle`: of the sandbox that they lead to.
    pub(super) fn begin(
        ports: &[PublishedPort],
        provider: &str,
        handle: Handle,
    ) -> Result<Self, FileError> {
        let stop = CancellationToken::new();
        let mut published = Self {
            stop: stop.clone(),
            serving: None,
        };
        let (mut doors, mut failed) = (Doors::default(), Vec::new());
        for one in ports {
            if let Err(PortsError::Taken { port, source }) = doors.add(*one) {
                failed.push(Unpublished {
                    port,
                    why: source.to_string(),
                    is_taken: source.kind() == io::ErrorKind::AddrInUse,
                });
            }
        }
        let path = handle.state.join(UNPUBLISHED);
        write(&path, &failed)?;
        if doors.0.is_empty() {
            return Ok(published);
        }
        let provider = provider.to_owned();
        let serve = move || -> Result<(), Box<dyn std::error::Error>> {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            runtime.block_on(async {
                // A connection of its own: the watcher's is what lets programs run.
                let provider = sandbox::provider_of(&provider, &handle.state)?;
                let _serving = doors.serve(&provider.open(&handle).await?)?;
                stop.cancelled().await;
                Ok(())
            })
        };
        let all: Vec<NonZeroU16> = ports.iter().map(|one| one.host).collect();
        let told = move |why: &str| {
            let ended = all.iter().map(|&port| Unpublished {
                port,
                why: why.to_owned(),
                is_taken: false,
            });
            // Where that cannot be written either there is nobody to tell.
            let _ = write(&path, &ended.collect::<Vec<_>>());
        };
        let begun = std::thread::Builder::new().spawn(move || {
            if let Err(error) = serve() {
                told(&error.to_string());
            }
        });
        let begun =
            begun.map_err(|error| FileError::new("start a thread for", UNPUBLISHED, error))?;
        published.serving = Some(begun);
        Ok(published)
    }

    /// Returns once nobody listens any more: the next watcher can.
    pub(super) fn close(mut self) {
        self.stop.cancel();
        if let Some(serving) = self.serving.take() {
            // What went wrong in it was told.
            let _ = serving.join();
        }
    }
}

fn write(path: &Path, failed: &[Unpublished]) -> Result<(), FileError> {
    let text = serde_json::to_vec(failed).unwrap_or_default();
    fsx::write_private(path, &text)
}

async fn take(
    door: tokio::net::TcpListener,
    (sandbox, port): (Arc<dyn Sandbox>, u16),
    room: Arc<Semaphore>,
) {
    let mut carried = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = door.accept() => accepted,
            Some(_) = carried.join_next() => continue,
        };
        let Ok((outside, _)) = accepted else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        // Whoever finds none is refused, not kept waiting.
        let Ok(place) = Arc::clone(&room).try_acquire_owned() else {
            continue;
        };
        let sandbox = Arc::clone(&sandbox);
        carried.spawn(async move {
            // Whatever ends it ends both sides.
            let _ = carry(outside, sandbox.as_ref(), port).await;
            drop(place);
        });
    }
}

/// Each side may end what it says and still hear the other.
async fn carry(outside: TcpStream, sandbox: &dyn Sandbox, port: u16) -> io::Result<()> {
    let connected = starting::connect(sandbox, port).await;
    let mut inside = connected.map_err(|error| {
        // Told by a reset, as where nobody listens: an end would be an empty answer.
        let _ = outside.set_zero_linger();
        io::Error::other(error)
    })?;
    outside.set_nodelay(true)?;
    let (mut from, mut to) = outside.into_split();
    let inward = async {
        tokio::io::copy(&mut from, &mut inside.input).await?;
        inside.input.shutdown().await
    };
    let outward = async {
        tokio::io::copy(&mut inside.output, &mut to).await?;
        to.shutdown().await
    };
    tokio::pin!(outward);
    tokio::select! {
        said = inward => said?,
        heard = &mut outward => {
            heard?;
            // Nobody inside listens any more to whom it would be said.
            return Ok(());
        }
    }
    tokio::time::timeout(LAST, outward).await?
}
