//! The socket by which a sandbox is found again that outlives its maker.
//!
//! It lies in a directory of the host's that no sandbox sees; the guest listens on it and serves whoever is outside of its
//! pid namespace.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, Mode, OFlags, inotify};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use tokio::net::UnixStream;

use super::connection::ANSWER_LIMIT;
use crate::sandbox::{Mount, SandboxError, SandboxSpec};

const SOCKET: &str = "guest.sock";
/// Of the root of a container.
const ROOT_SOCKET: &str = "root.sock";
/// Between two attempts to connect where many others do.
const PAUSE: Duration = Duration::from_millis(2);

/// The directory in which a sandbox's socket lies. Its path may be longer than the address of a socket.
#[derive(Debug)]
pub(in crate::sandbox) struct Door {
    directory: OwnedFd,
    name: &'static str,
}

impl Door {
    /// The directory is the caller's, and nobody else can enter it.
    pub(in crate::sandbox) fn at(state: &Path) -> Result<Self, SandboxError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let failed = |error: io::Error| failed(state, &error);
        let directory = match rustix::fs::open(state, flags, Mode::empty()) {
            Err(Errno::NOENT) => return Err(SandboxError::NotRunning),
            other => other.map_err(|errno| failed(errno.into()))?,
        };
        let found = rustix::fs::fstat(&directory).map_err(|errno| failed(errno.into()))?;
        let ours = found.st_uid == rustix::process::geteuid().as_raw();
        if !ours || found.st_mode & 0o077 != 0 {
            return Err(failed(io::Error::other("others can enter it")));
        }
        let name = SOCKET;
        Ok(Self { directory, name })
    }

    /// Where the root of a container listens, beside this one.
    pub(in crate::sandbox) fn of_root(self) -> Self {
        Self {
            name: ROOT_SOCKET,
            ..self
        }
    }

    fn address(&self) -> io::Result<SocketAddrUnix> {
        let path = format!("/proc/self/fd/{}/{}", self.directory.as_raw_fd(), self.name);
        Ok(SocketAddrUnix::new(path)?)
    }

    /// For a sandbox that is to listen at it. It is nobody's until init makes it its own. After the listener comes its
    /// file, by which init sees that nobody will find it any more, and what wakes it up then, unless the user's instances
    /// of inotify are used up.
    pub(in crate::sandbox) fn bind(&self) -> io::Result<Vec<OwnedFd>> {
        let socket = self.bind_alone()?;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.directory, self.name, flags, Mode::empty())?;
        let watch = watch(&file).ok();
        Ok([Some(socket), Some(file), watch]
            .into_iter()
            .flatten()
            .collect())
    }

    /// The listener without what tells of its file.
    pub(in crate::sandbox) fn bind_alone(&self) -> io::Result<OwnedFd> {
        self.remove();
        let socket = socket()?;
        rustix::net::bind(&socket, &self.address()?)?;
        let mode = Mode::RUSR | Mode::WUSR;
        rustix::fs::chmodat(&self.directory, self.name, mode, AtFlags::empty())?;
        Ok(socket)
    }

    pub(in crate::sandbox) fn remove(&self) {
        let _ = rustix::fs::unlinkat(&self.directory, self.name, AtFlags::empty());
    }

    /// Whether a guest does. Where that cannot be told one does.
    fn is_listened_at(&self) -> bool {
        let asked = self.address().and_then(|address| {
            let socket = socket()?;
            Ok(rustix::net::connect(&socket, &address))
        });
        !matches!(asked, Ok(Err(Errno::NOENT | Errno::CONNREFUSED)))
    }

    pub(in crate::sandbox) async fn connect(&self) -> Result<UnixStream, SandboxError> {
        let broken = |error: io::Error| SandboxError::Gone(error.to_string());
        let address = self.address().map_err(broken)?;
        let until = Instant::now() + ANSWER_LIMIT;
        loop {
            let socket = socket().map_err(broken)?;
            match rustix::net::connect(&socket, &address) {
                Ok(()) => {
                    let stream = std::os::unix::net::UnixStream::from(socket);
                    return UnixStream::from_std(stream).map_err(broken);
                }
                Err(Errno::NOENT | Errno::CONNREFUSED) => return Err(SandboxError::NotRunning),
                // Too many wait there.
                Err(Errno::AGAIN) if Instant::now() < until => tokio::time::sleep(PAUSE).await,
                Err(Errno::AGAIN) => return Err(SandboxError::TimedOut(ANSWER_LIMIT.as_secs())),
                Err(errno) => return Err(broken(errno.into())),
            }
        }
    }
}

/// Whether the sandbox with this state directory runs, as far as one look tells, whoever made it. One whose state nobody can look at does.
pub(crate) fn is_up(state: &Path) -> bool {
    match Door::at(state) {
        Err(SandboxError::NotRunning) => false,
        Err(_) => true,
        Ok(door) => door.is_listened_at(),
    }
}

/// Tells when a file's names have changed: its links are among its attributes. Its end is not told as long as a socket is
/// bound to it.
fn watch(file: &OwnedFd) -> rustix::io::Result<OwnedFd> {
    let watch = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?;
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let changes = inotify::WatchFlags::ATTRIB | inotify::WatchFlags::DELETE_SELF;
    inotify::add_watch(&watch, path, changes)?;
    Ok(watch)
}

fn failed(state: &Path, error: &io::Error) -> SandboxError {
    let shown = state.display();
    SandboxError::Start(format!("the way to it cannot lie in {shown}: {error}"))
}

fn socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let kind = SocketType::STREAM;
    Ok(rustix::net::socket_with(
        AddressFamily::UNIX,
        kind,
        flags,
        None,
    )?)
}

/// Where a sandbox is to listen, if none does, and if none could see it there.
pub(in crate::sandbox) async fn free_door(
    spec: &SandboxSpec,
    state: &Path,
) -> Result<Door, SandboxError> {
    let refused = |what: String| SandboxError::Unsupported {
        what,
        hint: "choose another directory for it, or mount less".to_owned(),
    };
    let real = state
        .canonicalize()
        .map_err(|error| refused(format!("cannot use {}: {error}", state.display())))?;
    let shows = |mount: &&Mount| {
        let holds =
            |source: &Path| (source.canonicalize()).is_ok_and(|source| real.starts_with(source));
        mount.source.shows().any(holds)
    };
    if let Some(mount) = spec.mounts.iter().find(shows) {
        return Err(refused(format!(
            "the mount at {} shows {}, by which the sandbox is reached",
            mount.target.display(),
            state.display()
        )));
    }
    let door = Door::at(state)?;
    match door.connect().await {
        Err(SandboxError::NotRunning) => Ok(door),
        Ok(_) => Err(SandboxError::Running),
        Err(error) => Err(error),
    }
}
