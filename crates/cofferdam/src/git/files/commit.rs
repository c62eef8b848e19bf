//! A commit of what changed, made by `git fast-import` in a git directory of ours: its objects are the sandbox's history
//! that was given to it, and what is new. It comes home as any commit does, as a pack through the gate.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cofferdam_guest::protocol::files::Entry;
use rustix::pipe::PipeFlags;
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe;
use tokio_util::sync::CancellationToken;

use super::changes::{Changes, ChangesError, Reader};
use crate::fsx::{self, Context, FileError};
use crate::git::command::GitCommand;
use crate::git::vault::quoted;
use crate::git::{GitError, Identity, Oid, Repository, bare, refs};
use crate::process::{Input, Sink};

const REFERENCE: &str = "refs/heads/changes";
/// Bytes that a git process may allocate: what it reads is hostile.
const MEMORY: u64 = 4 << 30;

/// What came of it.
#[derive(Debug, PartialEq, Eq)]
pub enum Made {
    /// The files are as they were.
    Nothing,
    /// The new commit.
    Commit(Oid),
}

/// A git directory for one sandbox's changes. It goes with the value.
#[derive(Debug)]
pub struct Workshop<'a> {
    repo: &'a Repository,
    directory: PathBuf,
    /// The sandbox's history: a directory with `pack/`.
    vault: PathBuf,
    limit: Duration,
}

impl<'a> Workshop<'a> {
    /// Made at `directory`. What a dead command left there goes first. `limit`: of each git process.
    pub fn open(
        repo: &'a Repository,
        directory: PathBuf,
        vault: PathBuf,
        limit: Duration,
    ) -> Result<Self, FileError> {
        bare::make(repo, &directory)?;
        Ok(Self {
            repo,
            directory,
            vault,
            limit,
        })
    }

    fn command(&self) -> GitCommand {
        self.repo
            .git
            .at(&self.directory, &self.directory)
            .env("GIT_ALTERNATE_OBJECT_DIRECTORIES", quoted(&self.vault))
            .limit(self.limit)
    }

    /// A commit on `base` by `author` with the changes.
    pub async fn commit(
        &self,
        base: &Oid,
        changes: &Changes,
        author: &Identity,
        message: &str,
        cancel: &CancellationToken,
    ) -> Result<Made, MakeError> {
        if changes.is_nothing() {
            return Ok(Made::Nothing);
        }
        let failed = |source| FileError::new("make a pipe for", &self.directory, source);
        let (read_end, write_end) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)
            .context("make a pipe for", &self.directory)?;
        let running = self
            .command()
            .args(["fast-import", "--quiet", "--done", "--date-format=now"])
            .input(Input::Fd(read_end))
            .output(Sink::Nothing)
            .start()?;
        running.limit_memory(MEMORY);
        let feed = async {
            let mut to = pipe::Sender::from_owned_fd(write_end).map_err(failed)?;
            tell(base, changes, &mut to).await
        };
        let (told, done) = tokio::join!(feed, running.finish(cancel));
        // Its words say why nobody listened any more.
        done?;
        told?;
        let tree = format!("{REFERENCE}^{{tree}}");
        let tree = self.one(&["rev-parse", "--verify", &tree], cancel).await?;
        let before = format!("{base}^{{tree}}");
        if tree
            == self
                .one(&["rev-parse", "--verify", &before], cancel)
                .await?
        {
            return Ok(Made::Nothing);
        }
        let made = refs::as_identity(self.command(), author)
            .args(["commit-tree", "-p", base.as_str(), "-m", message])
            .arg(tree.as_str())
            .line(cancel)
            .await?;
        Ok(Made::Commit(oid(&made)?))
    }

    async fn one(&self, arguments: &[&str], cancel: &CancellationToken) -> Result<Oid, GitError> {
        oid(&self.command().args(arguments).line(cancel).await?)
    }

    /// Writes a pack of what `revisions` names to `to`.
    pub async fn pack(
        &self,
        revisions: String,
        to: OwnedFd,
        cancel: &CancellationToken,
    ) -> Result<(), GitError> {
        let running = self
            .command()
            .config("pack.threads=2")
            .config("pack.windowMemory=256m")
            .args(["pack-objects", "--revs", "--thin", "--stdout"])
            .args(["--delta-base-offset", "-q"])
            .input(Input::Bytes(revisions.into_bytes()))
            .output(Sink::Fd(to))
            .start()?;
        running.limit_memory(MEMORY);
        running.finish(cancel).await.map(drop)
    }
}

impl Drop for Workshop<'_> {
    fn drop(&mut self) {
        let _ = fsx::remove_tree(&self.directory);
    }
}

/// Why there is no commit.
#[derive(Debug, thiserror::Error)]
pub enum MakeError {
    /// What changed could not be understood.
    #[error(transparent)]
    Changes(#[from] ChangesError),
    /// Git could not store it.
    #[error(transparent)]
    Git(#[from] GitError),
    /// A file on the way could not be written.
    #[error(transparent)]
    File(#[from] FileError),
}

fn oid(text: &str) -> Result<Oid, GitError> {
    text.parse().map_err(|_| GitError::Output {
        command: "rev-parse".to_owned(),
        what: "it is no object name".to_owned(),
    })
}

/// What `git fast-import` reads. First what is gone: a file may be in the place of a directory, or the other way round.
async fn tell(base: &Oid, changes: &Changes, to: &mut pipe::Sender) -> Result<(), MakeError> {
    let mut out = Vec::new();
    let commit = format!(
        "commit {REFERENCE}\ncommitter cofferdam <cofferdam@localhost> now\ndata 0\n\nfrom {base}\n"
    );
    out.extend_from_slice(commit.as_bytes());
    for path in changes.gone() {
        out.extend_from_slice(format!("D {}\n", quote(path)).as_bytes());
        flush_if_long(&mut out, to).await?;
    }
    let mut reader = changes.reader()?;
    loop {
        match reader.next()? {
            Entry::File { path, mode, size } => {
                let mode = if mode & 0o100 == 0 {
                    "100644"
                } else {
                    "100755"
                };
                let line = format!("M {mode} inline {}\ndata {size}\n", quote(&path));
                out.extend_from_slice(line.as_bytes());
                copy(&mut reader, size, &mut out, to).await?;
                out.push(b'\n');
            }
            Entry::Link { path, target } => {
                let length = target.len();
                let line = format!("M 120000 inline {}\ndata {length}\n", quote(&path));
                out.extend_from_slice(line.as_bytes());
                out.extend_from_slice(&target);
                out.push(b'\n');
            }
            Entry::End { .. } => break,
            Entry::Directory { .. } | Entry::Gone { .. } | Entry::Left { .. } => {}
        }
        flush_if_long(&mut out, to).await?;
    }
    out.extend_from_slice(b"done\n");
    write(&mut out, to).await
}

async fn copy(
    reader: &mut Reader,
    mut left: u64,
    out: &mut Vec<u8>,
    to: &mut pipe::Sender,
) -> Result<(), MakeError> {
    let mut chunk = vec![0u8; 64 << 10];
    while left > 0 {
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(chunk.len());
        let got = reader.bytes(&mut chunk[..most])?;
        if got == 0 {
            let what = "the file that it was spooled to was cut short".to_owned();
            return Err(ChangesError::Refused(what).into());
        }
        out.extend_from_slice(&chunk[..got]);
        left -= got as u64;
        flush_if_long(out, to).await?;
    }
    Ok(())
}

async fn flush_if_long(out: &mut Vec<u8>, to: &mut pipe::Sender) -> Result<(), MakeError> {
    if out.len() >= 64 << 10 {
        write(out, to).await?;
    }
    Ok(())
}

async fn write(out: &mut Vec<u8>, to: &mut pipe::Sender) -> Result<(), MakeError> {
    let written = to.write_all(out).await;
    written.map_err(|source| FileError::new("write to", Path::new("git fast-import"), source))?;
    out.clear();
    Ok(())
}

/// In C quotes, in which any byte can be written.
fn quote(path: &[u8]) -> String {
    use std::os::unix::ffi::OsStrExt;
    let quoted = quoted(Path::new(std::ffi::OsStr::from_bytes(path)));
    quoted.to_string_lossy().into_owned()
}
