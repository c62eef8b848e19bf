//! Files on their way in: one stream, of what changed alone, and an answer for each.

use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use cofferdam_guest::protocol::files::{self, Parcel, Receipt};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;

use super::items::{Complaint, Content, HOME, Item, Wanted, shown_inside};
use super::manifest::{Manifest, Sum};
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
    /// One of them may get there by another try; the rest do not, as long as the configuration says the same.
    pub is_unfinished: bool,
}

/// Hears how many files of how many went.
pub type Tell<'a> = dyn Fn(usize, usize) + Send + Sync + 'a;

/// How a file goes.
enum Way<'a> {
    Look(&'a super::manifest::Entry),
    Send(&'a Item),
}

/// Brings what is wanted. `known`: what the sandbox was brought before; `all`: as if it had nothing. `manifest` has of each file what it
/// is inside afterwards, and loses those that never got there. `tell`: how many files of how many went; it must be quick.
pub async fn deliver(
    sandbox: &dyn Sandbox,
    wanted: &Wanted,
    manifest: &mut Manifest,
    known: &Manifest,
    all: bool,
    tell: &Tell<'_>,
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
        let receipts = exchange(sandbox, &waiting, manifest, tell).await?;
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
                    delivered.is_unfinished |= !is_final(path, errno);
                    delivered.complaints.push(Complaint {
                        item: shown_inside(path),
                        reason,
                    });
                }
                Receipt::Changed | Receipt::End | Receipt::Gone => return Err(garbled()),
            }
        }
        waiting = again;
    }
    Ok(delivered)
}

/// Whether the file is refused for what the place is. In their own home an agent makes places and takes rights away, and gives them back.
fn is_final(path: &Path, errno: i32) -> bool {
    matches!(errno, libc::EACCES | libc::EPERM | libc::EROFS) && !path.starts_with(HOME)
}

/// One stream, and its answers.
async fn exchange(
    sandbox: &dyn Sandbox,
    files: &[(&PathBuf, Way<'_>)],
    manifest: &Manifest,
    tell: &Tell<'_>,
) -> Result<Vec<Receipt>, SandboxError> {
    let (parcels, into) = pipe()?;
    let (from, receipts) = pipe()?;
    let (sent, taken, heard) = tokio::join!(
        send(files, manifest, into, tell),
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
    tell: &Tell<'_>,
) -> std::io::Result<()> {
    let mut to = pipe::Sender::from_owned_fd(to)?;
    let mut buffer = Vec::with_capacity(SHARE * 2);
    for (number, (path, way)) in files.iter().enumerate() {
        tell(number, files.len());
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
                let sum = content(item, &mut buffer, &mut to).await?;
                let meant = manifest.entries.get(*path).map(|entry| entry.sum);
                let whole = sum.is_some() && sum == meant;
                let end = if whole { Parcel::Whole } else { Parcel::Broken };
                files::write(&mut buffer, &end)?;
            }
        }
        flush(&mut buffer, &mut to).await?;
    }
    files::write(&mut buffer, &Parcel::End)?;
    to.write_all(&buffer).await
}

/// The sum of what was sent, which is read once more and may be another one than was to be; none where it cannot be read to its end.
async fn content(
    item: &Item,
    buffer: &mut Vec<u8>,
    to: &mut pipe::Sender,
) -> std::io::Result<Option<Sum>> {
    let (mut text, mut file);
    let from: &mut (dyn Read + Send) = match &item.content {
        Content::Text(bytes) => {
            text = &bytes[..];
            &mut text
        }
        Content::File { tree, path } => match tree.file(path) {
            Ok(opened) => {
                file = opened;
                &mut file
            }
            Err(_) => return Ok(None),
        },
    };
    let mut hash = Sha256::new();
    loop {
        let mut part = Vec::with_capacity(SHARE);
        match from.take(SHARE as u64).read_to_end(&mut part) {
            Ok(0) => return Ok(Some(hash.finalize().into())),
            Ok(_) => hash.update(&part),
            Err(_) => return Ok(None),
        }
        files::write(buffer, &Parcel::Part(part))?;
        flush(buffer, to).await?;
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What would travel of one file that says `first` when it is looked at, and `then` when it is sent.
    async fn sent(first: &[u8], then: &[u8]) -> Vec<Parcel> {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("file");
        crate::fsx::write_private(&path, first).unwrap();
        let tree = super::super::tree::Tree::open(place.path()).unwrap();
        let content = Content::File {
            tree,
            path: "file".into(),
        };
        let item = Item {
            mode: 0o644,
            owner: None,
            content,
        };
        parcels(item, || crate::fsx::write_private(&path, then).unwrap()).await
    }

    async fn parcels(item: Item, between: impl FnOnce()) -> Vec<Parcel> {
        let path = PathBuf::from("etc/x");
        let mut wanted = Wanted {
            items: [(path.clone(), item)].into(),
            ..Wanted::default()
        };
        let manifest = super::super::manifest::of(&mut wanted, &Manifest::default());
        assert_eq!(wanted.complaints, Vec::<Complaint>::new());
        between();
        let (from, into) = pipe().unwrap();
        let files = [(&path, Way::Send(&wanted.items[&path]))];
        let heard = async {
            let mut bytes = Vec::new();
            let mut from = pipe::Receiver::from_owned_fd(from).unwrap();
            from.read_to_end(&mut bytes).await.unwrap();
            bytes
        };
        let told = std::sync::Mutex::new(Vec::new());
        let tell = |done, of| told.lock().unwrap().push((done, of));
        let (done, bytes) = tokio::join!(send(&files, &manifest, into, &tell), heard);
        done.unwrap();
        assert_eq!(*told.lock().unwrap(), [(0, 1)]);
        let (mut rest, mut parcels) = (&bytes[..], Vec::new());
        while !rest.is_empty() {
            parcels.push(files::read(&mut rest).unwrap());
        }
        parcels
    }

    /// The manifest would say that it is there, and nobody would send it again.
    #[tokio::test]
    async fn what_is_sent_is_what_the_manifest_has_or_takes_no_place() {
        for (first, then, end) in [
            ("one", "one", Parcel::Whole),
            ("one", "two", Parcel::Broken),
            ("one", "one and more", Parcel::Broken),
            ("one", "", Parcel::Broken),
        ] {
            let parcels = sent(first.as_bytes(), then.as_bytes()).await;
            let last = &parcels[parcels.len() - 2..];
            assert_eq!(last, [end, Parcel::End], "{first:?}, then {then:?}");
        }
    }

    /// A frame of the protocol has 1 MiB at most.
    #[tokio::test]
    async fn a_long_text_goes_in_parts() {
        let text: Vec<u8> = (0..2u32 << 20).map(|at| (at % 251) as u8).collect();
        let item = Item {
            mode: 0o644,
            owner: None,
            content: Content::Text(text.clone()),
        };
        let mut got = Vec::new();
        let parcels = parcels(item, || ()).await;
        for parcel in &parcels {
            if let Parcel::Part(part) = parcel {
                got.extend_from_slice(part);
            }
        }
        assert!(got == text, "{} bytes", got.len());
        let last = &parcels[parcels.len() - 2..];
        assert_eq!(last, [Parcel::Whole, Parcel::End]);
    }
}
