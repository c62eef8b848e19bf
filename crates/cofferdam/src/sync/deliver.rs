//! Files on their way in: one stream, of what changed alone, and an answer for each.

use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use cofferdam_guest::protocol::files::{self, Parcel, Receipt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;

use super::items::{Complaint, Content, Item, Wanted, shown_inside};
use super::manifest::{Manifest, Stamp};
use crate::sandbox::files::pipe;
use crate::sandbox::{Sandbox, SandboxError};

const SHARE: usize = 64 << 10;
/// The longest answer in bytes for one file.
const RECEIPT: u64 = 64;

/// What became of a sync's files.
#[derive(Debug, Default)]
pub struct Delivered {
    /// How many were sent.
    pub sent: usize,
    /// Those that did not get to their places.
    pub complaints: Vec<Complaint>,
}

/// How a file goes.
enum Way<'a> {
    Look(&'a super::manifest::Entry),
    Send(&'a Item),
}

/// Brings what is wanted. `known`: what the sandbox was brought before; `all`: as if it had nothing. `manifest` has of each file what it
/// is inside afterwards, and loses those that never got there.
pub async fn deliver(
    sandbox: &dyn Sandbox,
    wanted: &Wanted,
    manifest: &mut Manifest,
    known: &Manifest,
    all: bool,
) -> Result<Delivered, SandboxError> {
    let mut delivered = Delivered::default();
    let mut waiting: Vec<(&PathBuf, Way<'_>)> = Vec::new();
    for (path, item) in &wanted.items {
        let before = known.entries.get(path);
        let same = before
            .zip(manifest.entries.get(path))
            .and_then(|(was, is)| {
                (!all && was.sum == is.sum && was.mode == is.mode && was.print().is_some())
                    .then_some(was)
            });
        waiting.push((path, same.map_or(Way::Send(item), Way::Look)));
    }
    while !waiting.is_empty() {
        let receipts = exchange(sandbox, &waiting, manifest).await?;
        let mut again = Vec::new();
        for ((path, way), receipt) in waiting.into_iter().zip(receipts) {
            let sent = matches!(way, Way::Send(_));
            match receipt {
                Receipt::There { print } => {
                    delivered.sent += usize::from(sent);
                    if let Some(entry) = manifest.entries.get_mut(path) {
                        entry.set_print(print);
                    }
                }
                Receipt::Changed if !sent => {
                    again.extend(wanted.items.get(path).map(|item| (path, Way::Send(item))));
                }
                Receipt::Refused { errno } => {
                    let reason = match errno {
                        libc::ECANCELED => "it changed while it was read".to_owned(),
                        errno => std::io::Error::from_raw_os_error(errno).to_string(),
                    };
                    manifest.not_brought(path, known);
                    delivered.complaints.push(Complaint {
                        item: shown_inside(path),
                        reason,
                    });
                }
                Receipt::Changed | Receipt::End => return Err(garbled()),
            }
        }
        waiting = again;
    }
    Ok(delivered)
}

/// One stream, and its answers.
async fn exchange(
    sandbox: &dyn Sandbox,
    files: &[(&PathBuf, Way<'_>)],
    manifest: &Manifest,
) -> Result<Vec<Receipt>, SandboxError> {
    let (parcels, into) = pipe()?;
    let (from, receipts) = pipe()?;
    let (sent, taken, heard) = tokio::join!(
        send(files, manifest, into),
        sandbox.deliver(parcels, receipts),
        hear(files.len(), from),
    );
    // Who takes them has the better reason to stop.
    taken?;
    sent.map_err(|error| failed(&error))?;
    heard.map_err(|error| failed(&error))?.ok_or_else(garbled)
}

async fn send(
    files: &[(&PathBuf, Way<'_>)],
    manifest: &Manifest,
    to: OwnedFd,
) -> std::io::Result<()> {
    let mut to = pipe::Sender::from_owned_fd(to)?;
    let mut buffer = Vec::with_capacity(SHARE * 2);
    for (path, way) in files {
        let name = path.as_os_str().as_bytes().to_vec();
        match way {
            Way::Look(entry) => {
                if let Some(print) = entry.print() {
                    files::write(&mut buffer, &Parcel::Look { path: name, print })?;
                }
            }
            Way::Send(item) => {
                let mode = item.mode;
                files::write(&mut buffer, &Parcel::File { path: name, mode })?;
                let stamp = manifest.entries.get(*path).and_then(|entry| entry.stamp);
                let whole = content(item, stamp, &mut buffer, &mut to).await?;
                let end = if whole { Parcel::Whole } else { Parcel::Broken };
                files::write(&mut buffer, &end)?;
            }
        }
        flush(&mut buffer, &mut to).await?;
    }
    files::write(&mut buffer, &Parcel::End)?;
    to.write_all(&buffer).await
}

/// Says whether that is what the digest was made of.
async fn content(
    item: &Item,
    stamp: Option<Stamp>,
    buffer: &mut Vec<u8>,
    to: &mut pipe::Sender,
) -> std::io::Result<bool> {
    let (tree, path) = match &item.content {
        Content::Text(text) => {
            files::write(buffer, &Parcel::Part(text.clone()))?;
            return Ok(true);
        }
        Content::File { tree, path } => (tree, path),
    };
    let Ok(mut file) = tree.file(path) else {
        return Ok(false);
    };
    let mut part = Vec::with_capacity(SHARE);
    loop {
        part.clear();
        match (&mut file).take(SHARE as u64).read_to_end(&mut part) {
            Ok(0) => break,
            Ok(_) => files::write(buffer, &Parcel::Part(part.clone()))?,
            Err(_) => return Ok(false),
        }
        flush(buffer, to).await?;
    }
    // One that was changed shortly before has no stamp that would tell.
    Ok(stamp.is_none_or(|stamp| Stamp::of(&file).is_ok_and(|now| now == stamp)))
}

async fn flush(buffer: &mut Vec<u8>, to: &mut pipe::Sender) -> std::io::Result<()> {
    if buffer.len() >= SHARE {
        to.write_all(buffer).await?;
        buffer.clear();
    }
    Ok(())
}

/// The answers to `count` files; none where that is not what came.
async fn hear(count: usize, from: OwnedFd) -> std::io::Result<Option<Vec<Receipt>>> {
    let from = pipe::Receiver::from_owned_fd(from)?;
    let most = (count as u64 + 1) * RECEIPT;
    let mut bytes = Vec::new();
    from.take(most).read_to_end(&mut bytes).await?;
    let mut rest = &bytes[..];
    let mut receipts = Vec::with_capacity(count);
    loop {
        match files::read::<Receipt>(&mut rest) {
            Ok(Receipt::End) => break,
            Ok(receipt) => receipts.push(receipt),
            Err(_) => return Ok(None),
        }
    }
    Ok((receipts.len() == count && rest.is_empty()).then_some(receipts))
}

fn failed(error: &std::io::Error) -> SandboxError {
    SandboxError::Files {
        action: "put files into",
        reason: error.to_string(),
    }
}

fn garbled() -> SandboxError {
    SandboxError::Files {
        action: "put files into",
        reason: "it does not say what became of them".to_owned(),
    }
}
