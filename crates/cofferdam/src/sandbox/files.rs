//! Host directories as streams of entries, for [`super::Sandbox::unpack`].

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use cofferdam_guest::protocol::files::{self, Entry};
use rustix::pipe::PipeFlags;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;

use super::{Sandbox, SandboxError};

const SHARE: usize = 64 << 10;

/// Copies a host directory to `target` inside, through the sandbox's own [`Sandbox::unpack`].
pub(super) async fn copy_in<S: Sandbox + ?Sized>(
    sandbox: &S,
    source: &Path,
    target: &Path,
) -> Result<(), SandboxError> {
    let (entries, into) = pipe()?;
    let (from, known) = pipe()?;
    let send = send_directory(source, &|_| true, into);
    let unpack = sandbox.unpack(target, false, entries, known);
    let (sent, unpacked, drained) = tokio::join!(send, unpack, drain(from));
    unpacked?;
    sent.and(drained).map_err(|error| failed(&error))
}

/// A pipe's read end and write end.
pub(crate) fn pipe() -> Result<(OwnedFd, OwnedFd), SandboxError> {
    rustix::pipe::pipe_with(PipeFlags::CLOEXEC).map_err(|error| failed(&error.into()))
}

fn failed(error: &io::Error) -> SandboxError {
    SandboxError::Files {
        action: "put files into",
        reason: error.to_string(),
    }
}

/// Writes what is below `source` to a pipe. `wanted` says of a path below it whether it goes along, with everything that
/// is below it. Pipes, sockets and devices do not.
pub(crate) async fn send_directory(
    source: &Path,
    wanted: &(dyn Fn(&Path) -> bool + Sync),
    to: OwnedFd,
) -> io::Result<()> {
    let mut to = pipe::Sender::from_owned_fd(to)?;
    let mut buffer = Vec::with_capacity(SHARE * 2);
    let mut waiting = vec![PathBuf::new()];
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(source.join(&directory))? {
            let entry = entry?;
            let path = directory.join(entry.file_name());
            if !wanted(&path) {
                continue;
            }
            let found = entry.metadata()?;
            let (name, mode) = (path.as_os_str().as_bytes(), found.permissions().mode());
            let (name, mode) = (name.to_vec(), mode & 0o777);
            if found.is_dir() {
                files::write(&mut buffer, &Entry::Directory { path: name, mode })?;
                waiting.push(path);
            } else if found.is_symlink() {
                let target = fs::read_link(entry.path())?.into_os_string().into_vec();
                files::write(&mut buffer, &Entry::Link { path: name, target })?;
            } else if found.is_file() {
                let (path, size) = (name, found.len());
                files::write(&mut buffer, &Entry::File { path, mode, size })?;
                let mut file = File::open(entry.path())?.take(size);
                send_content(&mut file, &mut buffer, &mut to).await?;
            }
            if buffer.len() >= SHARE {
                to.write_all(&buffer).await?;
                buffer.clear();
            }
        }
    }
    files::write(&mut buffer, &Entry::End { left: 0 })?;
    to.write_all(&buffer).await
}

async fn send_content(
    file: &mut io::Take<File>,
    buffer: &mut Vec<u8>,
    to: &mut pipe::Sender,
) -> io::Result<()> {
    while file.limit() > 0 {
        if (&mut *file).take(SHARE as u64).read_to_end(buffer)? == 0 {
            return Err(io::Error::other("a file became shorter meanwhile"));
        }
        if buffer.len() >= SHARE {
            to.write_all(buffer).await?;
            buffer.clear();
        }
    }
    Ok(())
}

async fn drain(from: OwnedFd) -> io::Result<()> {
    let mut from = pipe::Receiver::from_owned_fd(from)?;
    let mut nobody_asks = vec![0u8; SHARE];
    while from.read(&mut nobody_asks).await? > 0 {}
    Ok(())
}
