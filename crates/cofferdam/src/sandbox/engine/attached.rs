//! What root gives to a container, mounted on the host first: with its owner shown as the agent, because an engine mounts what it
//! finds as it is.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cofferdam_guest::protocol::{self, Attach, Attached as One};
use rustix::fs::{AtFlags, CWD};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use std::os::unix::ffi::OsStrExt;

use super::mounts::Bind;
use crate::fsx;
use crate::sandbox::SandboxError;
use crate::sandbox::guest::{self, start_error};

/// How long mounting may take.
const LIMIT: Duration = Duration::from_secs(10);

/// The mounts of one sandbox, until its engine has them: dropping it takes them away.
#[derive(Debug)]
pub(super) struct Attached(PathBuf);

impl Attached {
    /// Mounts what the binds name below `directory`, which is this sandbox's alone, and lets them name that.
    pub(super) async fn make(
        directory: &Path,
        binds: &mut [Bind],
        (uid, gid): (u32, u32),
    ) -> Result<Self, SandboxError> {
        clear(directory).map_err(start_error)?;
        let made = Self(directory.to_owned());
        if let Some(parent) = directory.parent() {
            fsx::private_dir(parent).map_err(|error| SandboxError::Start(error.to_string()))?;
        }
        fsx::private_dir(directory).map_err(|error| SandboxError::Start(error.to_string()))?;
        let mut mounts = Vec::new();
        for (number, bind) in binds.iter_mut().enumerate() {
            let place = directory.join(number.to_string());
            if bind.is_directory {
                std::fs::create_dir(&place).map_err(start_error)?;
            } else {
                std::fs::File::create_new(&place).map_err(start_error)?;
            }
            let bytes = |path: &Path| path.as_os_str().as_bytes().to_vec();
            mounts.push(One {
                source: bytes(&bind.source),
                place: bytes(&place),
                writable: bind.writable,
            });
            bind.source = place;
        }
        let frame = protocol::encode(&Attach { uid, gid, mounts });
        let frame = frame.map_err(|error| start_error(io::Error::other(error)))?;
        let (stream, mut child) = guest::spawn(Some("attach"))?;
        let attach = async {
            guest::send(&stream, &frame, &[])
                .await
                .map_err(start_error)?;
            guest::ready(&stream).await
        };
        let attached = tokio::time::timeout(LIMIT, attach).await;
        drop(stream);
        if attached.is_err() {
            let _ = child.start_kill();
        }
        let _ = tokio::time::timeout(LIMIT, child.wait()).await;
        attached.unwrap_or(Err(SandboxError::TimedOut(LIMIT.as_secs())))?;
        Ok(made)
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        // What stays is cleared with its sandbox.
        let _ = clear(&self.0);
    }
}

/// Takes away mounts and what they lay on. What is in them is the user's: so nothing here goes into a directory.
pub(super) fn clear(directory: &Path) -> io::Result<()> {
    let entries = match std::fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other?,
    };
    for entry in entries {
        let path = entry?.path();
        // Until nothing is mounted there.
        while unmounted(&path)? {}
        // An empty directory or an empty file, or an error.
        if path.symlink_metadata()?.is_dir() {
            std::fs::remove_dir(&path)?;
        } else {
            rustix::fs::unlinkat(CWD, &path, AtFlags::empty())?;
        }
    }
    std::fs::remove_dir(directory)
}

/// Whether something was mounted there.
fn unmounted(path: &Path) -> io::Result<bool> {
    match rustix::mount::unmount(path, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
        Ok(()) => Ok(true),
        Err(Errno::INVAL | Errno::NOENT) => Ok(false),
        // An ordinary user has mounted nothing.
        Err(Errno::PERM) if !rustix::process::geteuid().is_root() => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}
