//! The gateway's directory: its lock, its socket, what it said last. Everything in it is reached
//! through one descriptor of the directory, so its path may be long and may be renamed meanwhile.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use cofferdam_wall::control::PROTOCOL;
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use tokio::net::UnixStream;

use crate::fsx::{self, Context, FileError};
use crate::home::Home;
use crate::wall::WallError;

const SOCKET: &str = "socket";
const LOCK: &str = "lock";
const ERRORS: &str = "stderr";
/// Directories of other versions have the same name but for the number.
const PREFIX: &str = "gateway-";
const PRIVATE: Mode = Mode::from_raw_mode(0o600);
/// How much of what a gateway said last goes into an error.
const WORDS: u64 = 400;

/// The directory of one home's gateway, checked: this user's, and nobody else's to write in.
#[derive(Debug)]
pub(super) struct Place {
    directory: OwnedFd,
    path: PathBuf,
}

/// The gateway's lock, held. Who is started with it holds it on.
#[derive(Debug)]
pub(super) struct Lock(File);

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

impl Place {
    pub(super) fn make(home: &Home) -> Result<Self, WallError> {
        let path = home.gateway(PROTOCOL);
        fsx::private_dir(home.path())?;
        match rustix::fs::mkdir(&path, Mode::from_raw_mode(0o700)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(FileError::new("create", path, errno.into()).into()),
        }
        Self::open(path)
    }

    /// `None`: no gateway of this version was ever started here.
    pub(super) fn find(home: &Home) -> Result<Option<Self>, WallError> {
        match Self::open(home.gateway(PROTOCOL)) {
            Err(WallError::File(error)) if error.is_not_found() => Ok(None),
            found => found.map(Some),
        }
    }

    fn open(path: PathBuf) -> Result<Self, WallError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let refuse = |path, why: &str| {
            let why = why.to_owned();
            Err(WallError::Directory { path, why })
        };
        let directory = match rustix::fs::open(&path, flags, Mode::empty()) {
            Ok(directory) => directory,
            Err(Errno::NOTDIR | Errno::LOOP) => return refuse(path, "it is not a directory"),
            Err(errno) => return Err(FileError::new("open", path, errno.into()).into()),
        };
        let found = rustix::fs::fstat(&directory).context("look at", &path)?;
        if found.st_uid != rustix::process::geteuid().as_raw() {
            return refuse(path, "it belongs to another user");
        }
        if found.st_mode & 0o077 != 0 {
            return refuse(path, "other users may enter it");
        }
        Ok(Self { directory, path })
    }

    /// The socket that is here now, whatever the directory is called meanwhile.
    pub(super) fn socket_here(&self) -> Option<(u64, u64)> {
        let found = rustix::fs::statat(&self.directory, SOCKET, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        Some((found.st_dev, found.st_ino))
    }

    /// The socket that everybody else finds.
    pub(super) fn socket_found(&self) -> Option<(u64, u64)> {
        let found = rustix::fs::lstat(self.path.join(SOCKET)).ok()?;
        Some((found.st_dev, found.st_ino))
    }

    /// As short as a socket's address must be, wherever the directory is.
    fn socket(&self) -> String {
        format!("/proc/self/fd/{}/{SOCKET}", self.directory.as_raw_fd())
    }

    /// `None`: nobody listens, or has no room just now.
    pub(super) async fn connect(&self) -> Result<Option<UnixStream>, WallError> {
        match UnixStream::connect(self.socket()).await {
            Ok(stream) => Ok(Some(stream)),
            Err(error) => match error.kind() {
                ErrorKind::NotFound
                | ErrorKind::ConnectionRefused
                | ErrorKind::ConnectionReset
                | ErrorKind::WouldBlock => Ok(None),
                _ => Err(FileError::new("connect to", self.path.join(SOCKET), error).into()),
            },
        }
    }

    /// `None`: a gateway holds it, or who starts one, or the directory was just removed.
    pub(super) fn lock(&self) -> Result<Option<Lock>, WallError> {
        let path = self.path.join(LOCK);
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = match rustix::fs::openat(&self.directory, LOCK, flags, PRIVATE) {
            // The directory itself was removed.
            Err(Errno::NOENT) => return Ok(None),
            file => file.context("open", &path)?,
        };
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Ok(None),
            Err(errno) => return Err(FileError::new("lock", path, errno.into()).into()),
        }
        if !self.is_current(&file) {
            return Ok(None);
        }
        let lock = Lock(file.into());
        lock.clear().context("write", &path)?;
        Ok(Some(lock))
    }

    /// Whether this is still the lock that everybody else finds.
    fn is_current(&self, lock: &OwnedFd) -> bool {
        let ours = rustix::fs::fstat(lock);
        let theirs = rustix::fs::stat(self.path.join(LOCK));
        matches!((ours, theirs), (Ok(ours), Ok(theirs))
            if (ours.st_dev, ours.st_ino) == (theirs.st_dev, theirs.st_ino))
    }

    /// A new socket in the place of the dead one's. Only for who holds the lock.
    pub(super) fn listen(&self, _lock: &Lock) -> Result<UnixListener, FileError> {
        let path = self.path.join(SOCKET);
        match rustix::fs::unlinkat(&self.directory, SOCKET, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(FileError::new("remove", path, errno.into())),
        }
        let listener = UnixListener::bind(self.socket()).context("bind", &path)?;
        rustix::fs::chmodat(&self.directory, SOCKET, PRIVATE, AtFlags::empty())
            .context("restrict", &path)?;
        Ok(listener)
    }

    /// Empty, for what the next gateway says. Only for who holds the lock.
    pub(super) fn errors(&self, _lock: &Lock) -> Result<OwnedFd, FileError> {
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
    pub(super) fn process(&self) -> Option<u32> {
        self.read(LOCK)?.trim_end().parse().ok()
    }

    /// What the gateway said last, made safe to show.
    pub(super) fn last_words(&self) -> String {
        let text = self.read(ERRORS).unwrap_or_default();
        let line = text.lines().rev().find(|line| !line.trim().is_empty());
        crate::text::printable(line.unwrap_or_default())
    }

    fn read(&self, name: &str) -> Option<String> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.directory, name, flags, Mode::empty()).ok()?;
        let mut bytes = Vec::new();
        File::from(file).take(WORDS).read_to_end(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// Removes the directories of other versions' gateways where none lives any more; only names them
/// with `dry_run`.
pub(crate) fn remove_dead(home: &Home, dry_run: bool) -> Result<Vec<PathBuf>, WallError> {
    let mut removed = Vec::new();
    let entries = match std::fs::read_dir(home.path()) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(removed),
        entries => entries.context("read", home.path())?,
    };
    for entry in entries {
        let entry = entry.context("read", home.path())?;
        if !is_other_version(&entry.file_name()) {
            continue;
        }
        let path = entry.path();
        // One that cannot be trusted is the user's to look at.
        let Ok(place) = Place::open(path.clone()) else {
            continue;
        };
        let Some(_lock) = place.lock()? else { continue };
        if !dry_run {
            fsx::remove_tree(Path::new(&path))?;
        }
        removed.push(path);
    }
    Ok(removed)
}

/// Whether a gateway of another version lives in this home: what is behind that, this version cannot ask.
pub(crate) fn another_lives(home: &Home) -> bool {
    let Ok(entries) = std::fs::read_dir(home.path()) else {
        return false;
    };
    entries.flatten().any(|entry| {
        is_other_version(&entry.file_name())
            && Place::open(entry.path()).is_ok_and(|place| {
                place.path.join(LOCK).exists() && matches!(place.lock(), Ok(None))
            })
    })
}

fn is_other_version(name: &std::ffi::OsStr) -> bool {
    name.to_str()
        .and_then(|name| name.strip_prefix(PREFIX))
        .and_then(|number| number.parse::<u32>().ok())
        .is_some_and(|number| number != PROTOCOL)
}
