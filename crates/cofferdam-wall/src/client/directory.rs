//! The gateway's directory: its lock, its socket, what it said last. Everything in it is reached
//! through one descriptor of the directory, so its path may be long and may be renamed meanwhile.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use super::lock;

const SOCKET: &str = "socket";
const LOCK: &str = "lock";
const ERRORS: &str = "stderr";
const PRIVATE: Mode = Mode::from_raw_mode(0o600);
/// How much of what a gateway said last goes into an error.
const WORDS: u64 = 400;

/// Why a gateway's directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    #[error("cannot {action} {}: {source}", path.display())]
    File {
        /// What was tried, as a verb.
        action: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    /// It is not as it was made: somebody else may have been there.
    #[error("{} cannot be trusted: {why}", path.display())]
    Directory { path: PathBuf, why: &'static str },
}

/// Attaches what was tried on which file.
trait Context<T> {
    fn context(self, action: &'static str, path: &Path) -> Result<T, DirectoryError>;
}

impl<T, E: Into<io::Error>> Context<T> for Result<T, E> {
    fn context(self, action: &'static str, path: &Path) -> Result<T, DirectoryError> {
        self.map_err(|error| DirectoryError::File {
            action,
            path: path.to_owned(),
            source: error.into(),
        })
    }
}

/// The directory of one home's gateway, checked: this user's, and nobody else's to write in.
#[derive(Debug)]
pub struct GatewayDirectory {
    directory: OwnedFd,
    path: PathBuf,
}

/// The gateway's lock, held. Who is started with it holds it on.
#[derive(Debug)]
pub struct Lock(File);

impl Lock {
    /// The same open file, for the gateway.
    pub(super) fn share(&self) -> io::Result<OwnedFd> {
        Ok(self.0.try_clone()?.into())
    }

    /// Writes down whose it is now.
    pub(super) fn sign(&self, process: u32) -> io::Result<()> {
        self.0.set_len(0)?;
        self.0.write_all_at(format!("{process}\n").as_bytes(), 0)
    }

    fn clear(&self) -> io::Result<()> {
        self.0.set_len(0)
    }
}

impl GatewayDirectory {
    /// Made where it is not there; what is above it must be.
    pub fn make(path: &Path) -> Result<Self, DirectoryError> {
        match rustix::fs::mkdir(path, Mode::from_raw_mode(0o700)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno).context("create", path),
        }
        Self::open(path)
    }

    /// `None`: no gateway was ever started here.
    pub fn find(path: &Path) -> Result<Option<Self>, DirectoryError> {
        match Self::open(path) {
            Err(DirectoryError::File { source, .. }) if source.kind() == ErrorKind::NotFound => {
                Ok(None)
            }
            found => found.map(Some),
        }
    }

    fn open(path: &Path) -> Result<Self, DirectoryError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let refuse = |why| {
            let path = path.to_owned();
            Err(DirectoryError::Directory { path, why })
        };
        let directory = match rustix::fs::open(path, flags, Mode::empty()) {
            Err(Errno::NOTDIR | Errno::LOOP) => return refuse("it is not a directory"),
            directory => directory.context("open", path)?,
        };
        let found = rustix::fs::fstat(&directory).context("look at", path)?;
        if found.st_uid != rustix::process::geteuid().as_raw() {
            return refuse("it belongs to another user");
        }
        if found.st_mode & 0o077 != 0 {
            return refuse("other users may enter it");
        }
        let path = path.to_owned();
        Ok(Self { directory, path })
    }

    /// The socket that is here now, whatever the directory is called meanwhile.
    pub fn socket_here(&self) -> Option<(u64, u64)> {
        let found = rustix::fs::statat(&self.directory, SOCKET, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        Some((found.st_dev, found.st_ino))
    }

    /// The socket that everybody else finds.
    pub fn socket_found(&self) -> Option<(u64, u64)> {
        let found = rustix::fs::lstat(self.path.join(SOCKET)).ok()?;
        Some((found.st_dev, found.st_ino))
    }

    pub fn directory(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }

    /// As short as a socket's address must be, wherever the directory is.
    fn socket(&self) -> String {
        format!("/proc/self/fd/{}/{SOCKET}", self.directory.as_raw_fd())
    }

    /// A connection that does not block. `None`: nobody listens, or has no room just now.
    pub(super) fn connect(&self) -> Result<Option<UnixStream>, DirectoryError> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let connected =
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
                .and_then(|socket| {
                    rustix::net::connect(&socket, &SocketAddrUnix::new(self.socket())?)?;
                    Ok(socket)
                });
        match connected {
            Ok(socket) => Ok(Some(socket.into())),
            Err(Errno::NOENT | Errno::CONNREFUSED | Errno::CONNRESET | Errno::AGAIN) => Ok(None),
            Err(errno) => Err(errno).context("connect to", &self.path.join(SOCKET)),
        }
    }

    /// `None`: a gateway holds it, or who starts one, or the directory was just removed.
    pub fn lock(&self) -> Result<Option<Lock>, DirectoryError> {
        let path = self.path.join(LOCK);
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = match rustix::fs::openat(&self.directory, LOCK, flags, PRIVATE) {
            // The directory itself was removed.
            Err(Errno::NOENT) => return Ok(None),
            file => file.context("open", &path)?,
        };
        let held = lock::try_hold(file.into()).context("lock", &path)?;
        let Some(file) = held.filter(|file| self.is_current(file)) else {
            return Ok(None);
        };
        let lock = Lock(file);
        lock.clear().context("write", &path)?;
        Ok(Some(lock))
    }

    /// Whether a gateway lives here, or is being started.
    pub fn is_held(&self) -> bool {
        self.path.join(LOCK).exists() && matches!(self.lock(), Ok(None))
    }

    /// Whether this is still the lock that everybody else finds.
    fn is_current(&self, lock: &File) -> bool {
        let ours = rustix::fs::fstat(lock);
        let theirs = rustix::fs::stat(self.path.join(LOCK));
        matches!((ours, theirs), (Ok(ours), Ok(theirs))
            if (ours.st_dev, ours.st_ino) == (theirs.st_dev, theirs.st_ino))
    }

    /// A new socket in the place of the dead one's. Only for who holds the lock.
    pub(super) fn listen(&self, _lock: &Lock) -> Result<UnixListener, DirectoryError> {
        let path = self.path.join(SOCKET);
        match rustix::fs::unlinkat(&self.directory, SOCKET, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno).context("remove", &path),
        }
        let listener = UnixListener::bind(self.socket()).context("bind", &path)?;
        rustix::fs::chmodat(&self.directory, SOCKET, PRIVATE, AtFlags::empty())
            .context("restrict", &path)?;
        Ok(listener)
    }

    /// Empty, for what the next gateway says. Only for who holds the lock.
    pub(super) fn errors(&self, _lock: &Lock) -> Result<OwnedFd, DirectoryError> {
        let flags = OFlags::WRONLY
            | OFlags::APPEND
            | OFlags::CREATE
            | OFlags::TRUNC
            | OFlags::NOFOLLOW
            | OFlags::CLOEXEC;
        rustix::fs::openat(&self.directory, ERRORS, flags, PRIVATE)
            .context("open", &self.path.join(ERRORS))
    }

    /// The process that the lock names.
    pub fn process(&self) -> Option<u32> {
        self.read(LOCK)?.trim_end().parse().ok()
    }

    /// What the gateway said last, as it is.
    pub fn last_words(&self) -> String {
        let text = self.read(ERRORS).unwrap_or_default();
        let line = text.lines().rev().find(|line| !line.trim().is_empty());
        line.unwrap_or_default().to_owned()
    }

    fn read(&self, name: &str) -> Option<String> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.directory, name, flags, Mode::empty()).ok()?;
        let mut bytes = Vec::new();
        File::from(file).take(WORDS).read_to_end(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }
}
