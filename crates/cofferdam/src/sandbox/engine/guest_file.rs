//! Our guest as a file of the host's, and whether it is what a container runs.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::embedded;
use crate::sandbox::SandboxError;
use crate::sandbox::guest::start_error;

/// Open as long as somebody asks who runs from it: its number is no other file's then.
#[derive(Debug)]
pub(super) struct GuestFile {
    path: PathBuf,
    opened: OwnedFd,
}

impl GuestFile {
    /// The one in `home`, made where it is missing.
    pub(super) fn find(home: &Path) -> Result<Self, SandboxError> {
        let path = embedded::guest_file(home).map_err(start_error)?;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = rustix::fs::open(&path, flags, Mode::empty());
        Ok(Self {
            opened: opened.map_err(|errno| start_error(errno.into()))?,
            path,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether this process of the host's runs from it. `None`: nobody here may see it. The kernel shows it to root, and to whose user
    /// namespace the process is in; not to a member of Docker's group, to whom the container's processes are strangers or, like the
    /// guest, not to be read. For them it is the path's name alone that no image can lead away.
    pub(super) fn runs_in(&self, process: i32) -> Result<Option<bool>, SandboxError> {
        let error = |errno: Errno| start_error(errno.into());
        let ours = rustix::fs::fstat(&self.opened).map_err(error)?;
        match rustix::fs::stat(format!("/proc/{process}/exe")) {
            Ok(theirs) => Ok(Some(
                (theirs.st_dev, theirs.st_ino) == (ours.st_dev, ours.st_ino),
            )),
            Err(Errno::ACCESS | Errno::PERM) => Ok(None),
            // It has ended.
            Err(Errno::NOENT | Errno::SRCH) => Ok(Some(false)),
            Err(errno) => Err(error(errno)),
        }
    }
}
