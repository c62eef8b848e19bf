//! What is in a volume, for whoever counts it or takes it out. Programs of sandboxes may change it meanwhile, so nothing is reached
//! by a path that they could turn aside.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, OFlags, Stat};
use rustix::io::Errno;
use tar::{Builder, EntryType, Header};

use crate::fsx::{Context, FileError, beneath};

/// So many bytes that are nowhere on the disk are written out, of all files together.
const HOLLOW: u64 = 1 << 30;

/// How much is in a volume.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Size {
    /// Of the files, as long as they are.
    pub bytes: u64,
    /// Everything but directories.
    pub files: u64,
}

/// What an archive holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Held {
    /// How much that is.
    pub size: Size,
    /// Sockets, pipes, devices, files that say they are long and have next to nothing in them, where those are many or huge, directories that could not be gone into, and what was gone when
    /// it was looked at: none of them is in it.
    pub left_out: u64,
}

/// Something below a directory that is gone through.
struct Found {
    path: PathBuf,
    stat: Stat,
}

impl Found {
    fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.stat.st_mode)
    }
}

/// Everything below, each directory before what is in it. Returns how many could not be gone into.
fn walk(top: &Path, mut see: impl FnMut(&OwnedFd, &Found) -> io::Result<()>) -> io::Result<u64> {
    let root = beneath::root(top)?;
    let mut closed = 0;
    let mut waiting = vec![PathBuf::new()];
    while let Some(directory) = waiting.pop() {
        let opened = match beneath::directory(&root, &directory) {
            // A program took it away or closed it to us, or no path is so long: what is left is gone through.
            Err(
                Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ACCESS | Errno::NAMETOOLONG,
            ) => {
                closed += 1;
                continue;
            }
            opened => opened?,
        };
        for entry in Dir::read_from(&opened)? {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let stat = match rustix::fs::statat(&opened, name, AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::NOENT) => continue,
                stat => stat?,
            };
            let path = directory.join(std::ffi::OsStr::from_bytes(name.to_bytes()));
            let found = Found { path, stat };
            see(&root, &found)?;
            if found.kind() == FileType::Directory {
                waiting.push(found.path);
            }
        }
    }
    Ok(closed)
}

pub(super) fn size(top: &Path) -> Result<Size, FileError> {
    let mut size = Size::default();
    let walked = walk(top, |_, found| {
        if found.kind() != FileType::Directory {
            size.files += 1;
            let length = u64::try_from(found.stat.st_size).unwrap_or(0);
            size.bytes = size.bytes.saturating_add(length);
        }
        Ok(())
    });
    walked.context("look through", top)?;
    Ok(size)
}

pub(super) fn export(top: &Path, to: impl Write) -> io::Result<Held> {
    let mut archive = Builder::new(to);
    let mut held = Held::default();
    let mut hollow = 0;
    let closed = walk(top, |root, found| {
        let added = add(&mut archive, root, found, &mut hollow)?;
        match added {
            Some(bytes) if found.kind() == FileType::Directory => debug_assert_eq!(bytes, 0),
            Some(bytes) => {
                held.size.files += 1;
                held.size.bytes += bytes;
            }
            None => held.left_out += 1,
        }
        Ok(())
    })?;
    held.left_out += closed;
    archive.into_inner()?.flush()?;
    Ok(held)
}

/// How many bytes of content it has; `None`: it is left out.
fn add(
    archive: &mut Builder<impl Write>,
    root: &OwnedFd,
    found: &Found,
    hollow: &mut u64,
) -> io::Result<Option<u64>> {
    let mut header = Header::new_gnu();
    header.set_mode(found.stat.st_mode & 0o7777);
    header.set_mtime(u64::try_from(found.stat.st_mtime).unwrap_or(0));
    header.set_size(0);
    match found.kind() {
        FileType::Directory => {
            header.set_entry_type(EntryType::Directory);
            archive.append_data(&mut header, &found.path, io::empty())?;
            Ok(Some(0))
        }
        FileType::Symlink => {
            let Some((directory, name)) = found.path.parent().zip(found.path.file_name()) else {
                return Ok(None);
            };
            let directory = beneath::directory(root, directory);
            let target = directory.and_then(|at| rustix::fs::readlinkat(at, name, Vec::new()));
            let Ok(target) = target else { return Ok(None) };
            header.set_entry_type(EntryType::Symlink);
            let target = std::ffi::OsStr::from_bytes(target.to_bytes());
            archive.append_link(&mut header, &found.path, target)?;
            Ok(Some(0))
        }
        FileType::RegularFile => {
            let opened = beneath::open(root, &found.path, OFlags::RDONLY);
            let Ok(file) = opened.map(File::from) else {
                return Ok(None);
            };
            let now = file.metadata()?;
            // Files with next to nothing in them that say they are huge would fill the disk of whoever takes them out.
            let takes = now.blocks().saturating_mul(512);
            let all = hollow.saturating_add(now.size().saturating_sub(takes));
            if !now.is_file() || (now.size() / 16 > takes && all > HOLLOW) {
                return Ok(None);
            }
            if now.size() / 16 > takes {
                *hollow = all;
            }
            header.set_entry_type(EntryType::Regular);
            header.set_size(now.size());
            // Of one that shrinks meanwhile the rest is zeros: an archive says first how long something is.
            let content = io::Read::chain(&file, io::repeat(0));
            let content = io::Read::take(content, now.size());
            archive.append_data(&mut header, &found.path, content)?;
            Ok(Some(now.size()))
        }
        _ => Ok(None),
    }
}
