//! Pipes between a sandbox and files of ours.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;

use crate::fsx::{Context, FileError};

/// The read end and the write end.
pub(super) fn pipe_ends() -> Result<(OwnedFd, OwnedFd), FileError> {
    let pipe = std::io::pipe().map_err(|source| FileError::new("make", "a pipe", source))?;
    Ok((OwnedFd::from(pipe.0), OwnedFd::from(pipe.1)))
}

/// Writes at most `limit` bytes to a new file; false where there are more.
pub(super) async fn spool(from: OwnedFd, to: &Path, limit: u64) -> Result<bool, FileError> {
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(to)
        .context("create", to)?;
    let mut from = pipe::Receiver::from_owned_fd(from).context("read a pipe for", to)?;
    let mut chunk = vec![0u8; 64 << 10];
    let mut total = 0;
    loop {
        let got = from.read(&mut chunk).await.context("read a pipe for", to)?;
        if got == 0 {
            return Ok(true);
        }
        total += got as u64;
        if total > limit {
            return Ok(false);
        }
        file.write_all(&chunk[..got]).context("write", to)?;
    }
}

/// Writes a file to a pipe. A reader that goes away early has its reason, and says it itself.
pub(super) async fn feed(from: &Path, to: OwnedFd) -> Result<(), FileError> {
    let mut file = File::open(from).context("open", from)?;
    let mut to = pipe::Sender::from_owned_fd(to).context("pass on", from)?;
    let mut chunk = vec![0u8; 64 << 10];
    loop {
        let got = file.read(&mut chunk).context("read", from)?;
        if got == 0 || to.write_all(&chunk[..got]).await.is_err() {
            return Ok(());
        }
    }
}
