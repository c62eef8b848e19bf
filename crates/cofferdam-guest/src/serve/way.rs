//! The way in, of a sandbox that outlives its maker: its listener, and the file by which the host finds that.

use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

use crate::sys;

/// What a sandbox has that outlives its maker.
#[derive(Debug)]
pub(crate) struct Resident {
    /// Whoever connects to it from outside is served.
    pub(crate) listener: OwnedFd,
    pub(crate) file: Option<WayFile>,
    /// Tells the launcher that it may go, where there is one.
    pub(crate) stays: Option<OwnedFd>,
}

impl Resident {
    /// Of the descriptors that came with the set-up; none where they are not what it takes.
    pub(crate) fn new(fds: Vec<OwnedFd>, stays: Option<OwnedFd>) -> Option<Self> {
        let mut fds = fds.into_iter();
        let resident = Self {
            listener: fds.next()?,
            file: fds.next().map(|file| WayFile {
                file,
                watch: fds.next(),
            }),
            stays,
        };
        fds.next().is_none().then_some(resident)
    }
}

/// The listener's file. Where it was removed, with the directory that it was in, nobody will ever find the sandbox again: that
/// is its end. Moved with its directory it is the same, and nothing inside can reach it.
#[derive(Debug)]
pub(crate) struct WayFile {
    file: OwnedFd,
    /// Can be read when something has changed about it (inotify). Without one it is looked at whenever something happens.
    watch: Option<OwnedFd>,
}

impl WayFile {
    pub(crate) fn raw(&self) -> Option<RawFd> {
        self.watch.as_ref().map(AsRawFd::as_raw_fd)
    }

    /// Only the wake-up matters.
    pub(crate) fn read(&mut self) -> io::Result<()> {
        let Some(watch) = self.watch.take() else {
            return Ok(());
        };
        let mut watch = std::fs::File::from(watch);
        match watch.read(&mut [0; 4096]) {
            // Else it would wake init up for ever.
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
            Ok(0) => return Ok(()),
            _ => {}
        }
        self.watch = Some(watch.into());
        Ok(())
    }

    pub(crate) fn is_gone(&self) -> bool {
        matches!(sys::links(self.file.as_fd()), Ok(0))
    }
}
