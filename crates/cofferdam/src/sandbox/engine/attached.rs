//! What root gives to a container, mounted on the host first: with its owner shown as the agent, because an engine mounts what it
//! finds as it is.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cofferdam_guest::protocol::{self, Attach, Attached as One, Source};
use rustix::fs::{AtFlags, CWD};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use std::os::unix::ffi::OsStrExt;

use super::mounts::Bind;
use crate::fsx;
use crate::sandbox::guest::{self, start_error};
use crate::sandbox::{Access, Mount, MountSource, SandboxError};

/// How long mounting may take.
const LIMIT: Duration = Duration::from_secs(10);

/// The mounts of one sandbox, until its engine has them: dropping it takes them away.
#[derive(Debug)]
pub(super) struct Attached {
    directory: PathBuf,
    ids: (u32, u32),
    lifetime: protocol::Lifetime,
    count: usize,
}

impl Attached {
    /// `directory`: this sandbox's alone. `ids`: whose everything is to seem.
    pub(super) fn begin(
        directory: &Path,
        ids: (u32, u32),
        lifetime: protocol::Lifetime,
    ) -> Result<Self, SandboxError> {
        clear(directory).map_err(start_error)?;
        for path in directory.parent().into_iter().chain([directory]) {
            fsx::private_dir(path).map_err(|error| SandboxError::Start(error.to_string()))?;
        }
        Ok(Self {
            directory: directory.to_owned(),
            ids,
            lifetime,
            count: 0,
        })
    }

    /// Lays directories over one another, for each mount that asks for it; where they are then, in the same order.
    pub(super) async fn layers(&mut self, mounts: &[Mount]) -> Result<Vec<PathBuf>, SandboxError> {
        let (mut asked, mut places) = (Vec::new(), Vec::new());
        for mount in mounts {
            if let MountSource::Layers { lower, upper } = &mount.source {
                let place = self.place(true)?;
                let source = Source::Layers {
                    lower: lower.iter().map(|path| bytes(path)).collect(),
                    upper: upper.as_deref().map(bytes),
                };
                asked.push(one(source, &place, mount.access == Access::ReadWrite));
                places.push(place);
            }
        }
        self.ask(asked).await?;
        Ok(places)
    }

    /// Mounts what the binds name, and lets them name that.
    pub(super) async fn binds(&mut self, binds: &mut [Bind]) -> Result<(), SandboxError> {
        let mut asked = Vec::new();
        for bind in binds.iter_mut() {
            // What lies over one another is the agent's already.
            if bind.source.parent() == Some(&*self.directory) {
                continue;
            }
            let place = self.place(bind.is_directory)?;
            asked.push(one(
                Source::Path(bytes(&bind.source)),
                &place,
                bind.writable,
            ));
            bind.source = place;
        }
        self.ask(asked).await
    }

    /// A new place to mount something of this kind.
    fn place(&mut self, is_directory: bool) -> Result<PathBuf, SandboxError> {
        let place = self.directory.join(self.count.to_string());
        self.count += 1;
        if is_directory {
            std::fs::create_dir(&place).map_err(start_error)?;
        } else {
            std::fs::File::create_new(&place).map_err(start_error)?;
        }
        Ok(place)
    }

    async fn ask(&self, mounts: Vec<One>) -> Result<(), SandboxError> {
        if mounts.is_empty() {
            return Ok(());
        }
        let (uid, gid) = self.ids;
        let frame = protocol::encode(&Attach {
            uid,
            gid,
            lifetime: self.lifetime,
            mounts,
        });
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
        Ok(())
    }
}

fn one(source: Source, place: &Path, writable: bool) -> One {
    One {
        source,
        place: bytes(place),
        writable,
    }
}

fn bytes(path: &Path) -> Vec<u8> {
    path.as_os_str().as_bytes().to_vec()
}

impl Drop for Attached {
    fn drop(&mut self) {
        // What stays is cleared with its sandbox.
        let _ = clear(&self.directory);
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
