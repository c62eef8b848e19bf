//! The commits of a push, out of the repository that has them: git packs them in a jail, and says first what of the host's is behind them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::net::unix::pipe;
use tokio_util::sync::CancellationToken;

use crate::fsx::{Context, FileError};
use crate::git::Oid;
use crate::process::Exit;
use crate::sandbox::native::jail::{self, JailOutput};
use crate::sandbox::{Access, Mount, MountSource, SandboxError};
use crate::session::dev::SHELF;
use crate::session::jailed::Objects;
use crate::session::pipes::pipe_ends;

const SCRIPT: &str = include_str!("pack.sh");
/// How the script says that the commit is not there.
const MISSING: i32 = 3;
/// Two commits of SHA-256 with what is around them, for each that was asked for.
const LINE: usize = 160;

/// What is behind a commit: for those of the host's that were asked for, the newest of their history that it contains. The sandbox's
/// word for now.
pub(super) type Behind = BTreeMap<Oid, Oid>;

/// The objects of a shelf with these files.
pub(in crate::session) fn of_shelf(files: PathBuf) -> Objects {
    Objects {
        mounts: vec![Mount {
            source: MountSource::Path(files),
            target: SHELF.into(),
            access: Access::ReadOnly,
        }],
        directory: format!("{SHELF}/repo/.git/objects"),
        alternate: None,
    }
}

/// How git ended that packed.
#[derive(Debug)]
pub(super) enum Packed {
    Done,
    /// There is no such commit in the repository.
    Missing,
    /// In its own words.
    Failed(Exit, String),
}

/// The pack as it comes, and how that ends: asked once the pack was read, or let go of.
pub(super) struct Packing {
    pub(super) pack: OwnedFd,
    pub(super) ended: BoxFuture<'static, Result<Packed, SandboxError>>,
}

impl Packing {
    /// Begins to pack what `tip` has and `given` have not. `reader`: see [`Objects::request`].
    pub(super) fn begin(
        objects: Objects,
        reader: PathBuf,
        tip: &Oid,
        given: &[Oid],
        limit: Duration,
        cancel: &CancellationToken,
    ) -> Result<Self, FileError> {
        let (pack, to) = pipe_ends()?;
        let words = std::iter::once(tip).chain(given);
        let words = words.map(|oid| OsString::from(oid.as_str()));
        let request = objects.request(
            reader,
            SCRIPT,
            words.collect(),
            Vec::new(),
            JailOutput::Fd(to),
            limit,
        );
        let cancel = cancel.clone();
        let packing = tokio::spawn(async move {
            let done = jail::run(request, &cancel).await?;
            Ok(match done.exit {
                Exit::Code(0) => Packed::Done,
                Exit::Code(MISSING) => Packed::Missing,
                exit => {
                    let said = String::from_utf8_lossy(&done.stderr_tail);
                    let said = crate::text::printable_line(said.trim_end());
                    Packed::Failed(exit, said)
                }
            })
        });
        let ended = async move { packing.await.unwrap_or(Err(SandboxError::Cancelled)) };
        let ended = Box::pin(ended);
        Ok(Self { pack, ended })
    }

    /// What the commit has of `given`, before the pack. `None`: it is not said, and the end says why.
    pub(super) async fn behind(&mut self, given: &[Oid]) -> Result<Option<Behind>, FileError> {
        let failed = |source| FileError::new("read", "a pipe of the jail's", source);
        let pack = self.pack.try_clone().map_err(failed)?;
        let mut from = pipe::Receiver::from_owned_fd(pack).map_err(failed)?;
        let mut behind = Behind::new();
        for _ in 0..=given.len() {
            let Some(line) = line(&mut from).await.context("read", Path::new("a pipe"))? else {
                return Ok(None);
            };
            if line == b"pack" {
                return Ok(Some(behind));
            }
            let words = std::str::from_utf8(&line)
                .ok()
                .and_then(|line| line.split_once(' '));
            let Some((Ok(one), Ok(common))) =
                words.map(|(one, common)| (one.parse(), common.parse()))
            else {
                return Ok(None);
            };
            if given.contains(&one) {
                behind.insert(one, common);
            }
        }
        Ok(None)
    }
}

/// Not a byte more is read: the pack follows.
async fn line(from: &mut (impl AsyncRead + Unpin)) -> std::io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    loop {
        let mut byte = [0];
        if from.read(&mut byte).await? == 0 || line.len() > LINE {
            return Ok(None);
        }
        if byte == *b"\n" {
            return Ok(Some(line));
        }
        line.extend(byte);
    }
}
