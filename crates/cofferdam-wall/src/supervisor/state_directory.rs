//! The sandbox's state directory, reached through one descriptor: its path may be long.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixListener;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::list::{List, ListError};
use super::names::{ENDED, RULES, SOCKET};
use crate::control::RuleLine;

/// The number of the last table of synthetic addresses, for who keeps the place next.
const EPOCH: &str = "epoch";
const PRIVATE: Mode = Mode::from_raw_mode(0o600);

/// Why there are no rules.
#[derive(Debug, thiserror::Error)]
pub(super) enum RulesError {
    #[error("its list of rules cannot be read: {0}")]
    Io(#[from] io::Error),
    #[error("its list of rules cannot be used: {0}")]
    List(#[from] ListError),
    #[error("its list of rules cannot be trusted: {0}")]
    Trust(&'static str),
}

#[derive(Debug)]
pub(super) struct StateDirectory(pub(super) OwnedFd);

impl StateDirectory {
    /// A new socket in the place of a dead supervisor's. Only for who holds the sandbox's lock.
    pub(super) fn listen(&self) -> io::Result<UnixListener> {
        self.remove_socket()?;
        let listener =
            UnixListener::bind(format!("/proc/self/fd/{}/{SOCKET}", self.0.as_raw_fd()))?;
        rustix::fs::chmodat(&self.0, SOCKET, PRIVATE, AtFlags::empty())?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    }

    pub(super) fn remove_socket(&self) -> io::Result<()> {
        match rustix::fs::unlinkat(&self.0, SOCKET, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// The rules as they are written now.
    pub(super) fn rules(&self) -> Result<Vec<RuleLine>, RulesError> {
        let file = self.open(RULES)?;
        let found = file.metadata()?;
        if !found.is_file() {
            return Err(RulesError::Trust("it is not a regular file"));
        }
        if found.uid() != rustix::process::geteuid().as_raw() {
            return Err(RulesError::Trust("it belongs to another user"));
        }
        if found.mode() & 0o022 != 0 {
            return Err(RulesError::Trust("others than its owner can write it"));
        }
        let mut bytes = Vec::new();
        let most = List::LONGEST as u64 + 1;
        file.take(most).read_to_end(&mut bytes)?;
        Ok(List::decode(&bytes)?.rules)
    }

    /// The last epoch that was written down here.
    pub(super) fn epoch(&self) -> Option<u32> {
        let mut bytes = [0; 4];
        self.open(EPOCH).ok()?.read_exact(&mut bytes).ok()?;
        Some(u32::from_le_bytes(bytes))
    }

    /// For who comes next. A full disk costs this number, nothing else: see [`crate::Synthetic`].
    pub(super) fn set_epoch(&self, epoch: u32) {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        if let Ok(file) = rustix::fs::openat(&self.0, EPOCH, flags, PRIVATE) {
            _ = File::from(file).write_all(&epoch.to_le_bytes());
        }
    }

    /// Writes down that the sandbox ended now. A full disk costs its user the reason, nothing else.
    pub(super) fn set_ended(&self) {
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        if let Ok(now) = SystemTime::now().duration_since(UNIX_EPOCH)
            && let Ok(file) = rustix::fs::openat(&self.0, ENDED, flags, PRIVATE)
        {
            _ = writeln!(&File::from(file), "{}", now.as_secs());
        }
    }

    fn open(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(&self.0, name, flags, Mode::empty())?.into())
    }
}
