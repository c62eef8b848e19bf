//! Files of a sandbox, for whoever is outside: looked into, written and removed one by one, as its agent would.

use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cofferdam_guest::protocol::files::{self, Parcel, Receipt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;

use super::{Session, SessionError};
use crate::fsx::lock;
use crate::sandbox::SandboxError;
use crate::sandbox::browse::{Peek, Sight, browse};
use crate::sandbox::files::pipe;
use crate::session::form::Form;

const SHARE: usize = 64 << 10;
/// Held by whoever changes files by what they hold, in the state directory.
const LOCK: &str = "files";
const OTHERS: Duration = Duration::from_secs(20);
/// For one look, or one row of changes.
const LIMIT: Duration = Duration::from_mins(2);
/// The longest answer in bytes for one file.
const RECEIPT: u64 = 64;

/// One file that is to be another one. Paths are absolute; no link is followed on the way, and one at the place itself is replaced.
#[derive(Debug, Clone)]
pub enum FileChange<'a> {
    /// Missing directories are made. It takes its place whole.
    Write {
        path: &'a Path,
        /// The permissions alone.
        mode: u32,
        content: &'a [u8],
    },
    /// A file or a link.
    Remove { path: &'a Path },
}

/// The right to change files by what they hold, for as long as this value is there.
#[derive(Debug)]
pub struct AloneWithFiles(
    #[expect(dead_code, reason = "its end lets go of the lock")] std::fs::File,
);

impl Session {
    /// Whoever changes a file by what is in it has this from the look to the change: one process at a time has it. Bounded: 20 s.
    pub async fn alone_with_files(&self) -> Result<AloneWithFiles, SessionError> {
        let taken = lock::take_within(&self.directory().join(LOCK), OTHERS).await?;
        let name = || self.name().to_string();
        let taken = taken.ok_or_else(|| SessionError::Busy { name: name() })?;
        Ok(AloneWithFiles(taken))
    }

    /// Where programs start inside: the top of the repository.
    pub fn workdir(&self) -> Result<PathBuf, SessionError> {
        Ok(Form::read(&self.directory())?.workdir())
    }

    /// Tells what is at a place inside: see [`browse`]. Bounded: 2 minutes.
    pub async fn browse(
        &self,
        place: &Peek<'_>,
        hear: &mut (dyn FnMut(Sight) -> ControlFlow<()> + Send),
    ) -> Result<(), SessionError> {
        self.named.check_files(&self.caller)?;
        self.within(browse(self.sandbox(), place, hear)).await
    }

    /// Changes files, in their order, each of them whole or not at all; says of each why it is as it was. Nothing of it is committed.
    /// Bounded: 2 minutes.
    pub async fn change_files(
        &self,
        changes: &[FileChange<'_>],
    ) -> Result<Vec<Result<(), io::Error>>, SessionError> {
        self.named.check_files(&self.caller)?;
        self.within(exchange(self.sandbox(), changes)).await
    }

    /// Programs inside can hold up whoever looks for them.
    async fn within<T>(
        &self,
        step: impl Future<Output = Result<T, SandboxError>>,
    ) -> Result<T, SessionError> {
        let done = tokio::select! {
            done = tokio::time::timeout(LIMIT, step) => {
                done.unwrap_or(Err(SandboxError::TimedOut(LIMIT.as_secs())))
            }
            () = self.caller.cancel.cancelled() => Err(SandboxError::Cancelled),
        };
        done.map_err(|source| self.failed(source))
    }
}

fn failed(error: &io::Error) -> SandboxError {
    SandboxError::Files {
        action: "change files in",
        reason: error.to_string(),
    }
}

async fn exchange(
    sandbox: &dyn crate::sandbox::Sandbox,
    changes: &[FileChange<'_>],
) -> Result<Vec<Result<(), io::Error>>, SandboxError> {
    let (parcels, into) = pipe()?;
    let (from, receipts) = pipe()?;
    let send = async {
        let mut to = pipe::Sender::from_owned_fd(into)?;
        let mut buffer = Vec::with_capacity(SHARE * 2);
        for change in changes {
            match change {
                FileChange::Write {
                    path,
                    mode,
                    content,
                } => {
                    let (path, mode) = (plain(path), *mode);
                    files::write(&mut buffer, &Parcel::File { path, mode })?;
                    for part in content.chunks(SHARE) {
                        files::write(&mut buffer, &Parcel::Part(part.to_vec()))?;
                        to.write_all(&buffer).await?;
                        buffer.clear();
                    }
                    files::write(&mut buffer, &Parcel::Whole)?;
                }
                FileChange::Remove { path } => {
                    files::write(&mut buffer, &Parcel::Gone { path: plain(path) })?;
                }
            }
        }
        files::write(&mut buffer, &Parcel::End)?;
        to.write_all(&buffer).await
    };
    let hear = async {
        let from = pipe::Receiver::from_owned_fd(from)?;
        let mut bytes = Vec::new();
        let most = (changes.len() as u64 + 1) * RECEIPT;
        from.take(most).read_to_end(&mut bytes).await?;
        Ok::<_, io::Error>(bytes)
    };
    let (sent, taken, heard) = tokio::join!(send, sandbox.deliver(parcels, receipts), hear);
    // Who takes them has the better reason to stop.
    taken?;
    sent.map_err(|error| failed(&error))?;
    let bytes = heard.map_err(|error| failed(&error))?;
    let mut rest = &bytes[..];
    let mut all = Vec::with_capacity(changes.len());
    for change in changes {
        let receipt = files::read::<Receipt>(&mut rest).map_err(|error| failed(&error))?;
        all.push(match (change, receipt) {
            (FileChange::Write { .. }, Receipt::There { .. })
            | (FileChange::Remove { .. }, Receipt::Gone) => Ok(()),
            (_, Receipt::Refused { errno }) => Err(io::Error::from_raw_os_error(errno)),
            _ => {
                let garbled = io::Error::other("it does not follow the protocol");
                return Err(failed(&garbled));
            }
        });
    }
    Ok(all)
}

/// As streams have it: without the slash that it begins with.
fn plain(path: &Path) -> Vec<u8> {
    let bytes = path.as_os_str().as_encoded_bytes();
    bytes.strip_prefix(b"/").unwrap_or(bytes).to_vec()
}
