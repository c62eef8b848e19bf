//! Files inside that are to be others, one by one, as the agent would change them.

use std::io;
use std::path::Path;

use cofferdam_guest::protocol::files::{self, Parcel, Receipt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;

use super::files::pipe;
use super::{Sandbox, SandboxError};

const SHARE: usize = 64 << 10;
/// The longest answer in bytes for one file.
const RECEIPT: u64 = 64;

/// One file that is to be another one. Paths are absolute; no link is followed on the way, and one at the place itself is replaced.
#[derive(Debug, Clone)]
pub enum FileChange<'a> {
    /// Missing directories are made. It takes its place whole.
    Write {
        /// Absolute, inside.
        path: &'a Path,
        /// The permissions alone.
        mode: u32,
        /// All of it.
        content: &'a [u8],
    },
    /// A file or a link.
    Remove {
        /// Absolute, inside.
        path: &'a Path,
    },
}

fn failed(error: &io::Error) -> SandboxError {
    SandboxError::Files {
        action: "change files in",
        reason: error.to_string(),
    }
}

/// Changes files, in their order, each of them whole or not at all; says of each why it is as it was. Unbounded in time: that is for
/// whoever drops it.
pub async fn change(
    sandbox: &dyn Sandbox,
    changes: &[FileChange<'_>],
) -> Result<Vec<Result<(), io::Error>>, SandboxError> {
    let (parcels, into) = pipe()?;
    let (from, receipts) = pipe()?;
    let send = async {
        let mut to = pipe::Sender::from_owned_fd(into)?;
        let mut buffer = Vec::with_capacity(SHARE * 2);
        for one in changes {
            match one {
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
    for one in changes {
        let receipt = files::read::<Receipt>(&mut rest).map_err(|error| failed(&error))?;
        all.push(match (one, receipt) {
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
