//! What a container is given, mounted on the host first, because an engine mounts what it finds as it is. Of root's: with its owner
//! shown as the agent. Of an ordinary user's: what lies over one another, where their own engine sees it and nobody else.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cofferdam_guest::protocol::{self, Agent, Attach, Attached as One, Source};
use rustix::fs::{AtFlags, CWD};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use std::os::unix::ffi::OsStrExt;

use super::mounts::{Bind, Laid};
use crate::fsx;
use crate::sandbox::guest::{self, start_error};
use crate::sandbox::{Access, Mount, MountSource, SandboxError};

/// How long mounting may take.
const LIMIT: Duration = Duration::from_secs(10);

/// The mounts of one sandbox, until its engine has them: dropping it takes them away.
#[derive(Debug)]
pub(super) struct Attached {
    directory: PathBuf,
    owner: Owner,
    lifetime: protocol::Lifetime,
    count: usize,
}

/// Whose mounts they are.
#[derive(Debug)]
pub(super) enum Owner {
    /// Root's; everything is to seem these ids'.
    Root(u32, u32),
    /// An ordinary user's; a process of their engine.
    Engine([OwnedFd; 1]),
}

impl Attached {
    /// `directory`: this sandbox's alone.
    pub(super) fn begin(
        directory: &Path,
        owner: Owner,
        lifetime: protocol::Lifetime,
    ) -> Result<Self, SandboxError> {
        clear(directory).map_err(start_error)?;
        for path in directory.parent().into_iter().chain([directory]) {
            fsx::private_dir(path).map_err(|error| SandboxError::Start(error.to_string()))?;
        }
        Ok(Self {
            directory: directory.to_owned(),
            owner,
            lifetime,
            count: 0,
        })
    }

    /// Lays directories over one another, for each mount that asks for it; where they are then, in the same order.
    pub(super) async fn layers(&mut self, mounts: &[Mount]) -> Result<Vec<Laid>, SandboxError> {
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
        let mut roots = self.ask(asked).await?.into_iter();
        let laid = places.into_iter().map(|place| match self.owner {
            Owner::Root(..) => Ok(Laid { place, root: None }),
            Owner::Engine(_) => match roots.next() {
                root @ Some(_) => Ok(Laid { place, root }),
                None => Err(SandboxError::Start("a mount did not come back".to_owned())),
            },
        });
        laid.collect()
    }

    /// Mounts what root's binds name, and lets them name that. An ordinary user's are as they are to be.
    pub(super) async fn binds(&mut self, binds: &mut [Bind]) -> Result<(), SandboxError> {
        if matches!(self.owner, Owner::Engine(_)) {
            return Ok(());
        }
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
        self.ask(asked).await.map(drop)
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

    /// The mounts themselves, where only the engine sees them.
    async fn ask(&self, mounts: Vec<One>) -> Result<Vec<OwnedFd>, SandboxError> {
        if mounts.is_empty() {
            return Ok(Vec::new());
        }
        let (owner, engine) = match &self.owner {
            &Owner::Root(uid, gid) => (Agent::Separate { uid, gid }, &[][..]),
            Owner::Engine(process) => (Agent::Caller, &process[..]),
        };
        let frame = protocol::encode(&Attach {
            owner,
            lifetime: self.lifetime,
            mounts,
        });
        let frame = frame.map_err(|error| start_error(io::Error::other(error)))?;
        let (stream, mut child) = guest::spawn(Some("attach"))?;
        let attach = async {
            guest::send(&stream, &frame, engine)
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
        attached.unwrap_or(Err(SandboxError::TimedOut(LIMIT.as_secs())))
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
        // An ordinary user has mounted nothing here; where they have, it goes with the directory.
        Err(Errno::PERM) if !rustix::process::geteuid().is_root() => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}
