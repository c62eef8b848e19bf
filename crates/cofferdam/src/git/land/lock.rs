//! The index lock of a working tree, taken as git takes it: while it is held, no `git add`,
//! `commit`, `checkout` or `merge` of the user begins to change the index or the branch.
//!
//! The lock file appears by `link`, already with our mark in it, so that a later command can tell a
//! lock that we left behind when we were killed from one that the user's git holds.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::fsx::{self, FileError};
use crate::names::SandboxId;

const TRIES: u32 = 100;
const PAUSE: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(super) struct IndexLock {
    path: PathBuf,
    mark: Vec<u8>,
}

impl IndexLock {
    /// `None`: another program held it for 5 s, or the call was cancelled. Takes over what a dead
    /// process left for the same sandbox.
    pub(super) async fn take(
        git_dir: &Path,
        id: SandboxId,
        cancel: &CancellationToken,
    ) -> Result<Option<Self>, FileError> {
        let path = git_dir.join("index.lock");
        let pid = std::process::id();
        let start = crate::process::start_time_of(pid).unwrap_or(0);
        let mark = format!("cofferdam {id} {pid} {start}\n").into_bytes();
        let own = git_dir.join(format!("cofferdam-{id}.lock"));
        fsx::write_private(&own, &mark)?;
        let mut taken = Ok(None);
        for _ in 0..TRIES {
            match std::fs::hard_link(&own, &path) {
                Ok(()) => {
                    taken = Ok(Some(Self {
                        path: path.clone(),
                        mark: mark.clone(),
                    }));
                    break;
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    if left_behind(&path, Some(id)) {
                        fsx::remove_file_if_exists(&path)?;
                        continue;
                    }
                }
                Err(error) if no_links(&error) => match create(&path, &mark) {
                    Ok(()) => {
                        taken = Ok(Some(Self {
                            path: path.clone(),
                            mark: mark.clone(),
                        }));
                        break;
                    }
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                    Err(error) => {
                        taken = Err(FileError::new("lock", &path, error));
                        break;
                    }
                },
                Err(error) => {
                    taken = Err(FileError::new("lock", &path, error));
                    break;
                }
            }
            tokio::select! {
                () = cancel.cancelled() => break,
                () = tokio::time::sleep(PAUSE) => {}
            }
        }
        fsx::remove_file_if_exists(&own)?;
        taken
    }
}

impl Drop for IndexLock {
    fn drop(&mut self) {
        // Somebody may have removed our lock by hand and another git holds its own by now.
        if fsx::read_bounded(&self.path, 200).is_ok_and(|found| found == self.mark) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn no_links(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EPERM | libc::EOPNOTSUPP | libc::EMLINK | libc::ENOSYS)
    )
}

fn create(path: &Path, mark: &[u8]) -> io::Result<()> {
    use std::io::Write;
    std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(path)?
        .write_all(mark)
}

/// Whether a lock is ours (of sandbox `id` if given) and its process is dead.
pub(super) fn left_behind(path: &Path, id: Option<SandboxId>) -> bool {
    let Ok(text) = fsx::read_bounded(path, 200) else {
        return false;
    };
    let Ok(text) = std::str::from_utf8(&text) else {
        return false;
    };
    let mut words = text.split_ascii_whitespace();
    if words.next() != Some("cofferdam") {
        return false;
    }
    let owner = words.next().and_then(|word| word.parse::<SandboxId>().ok());
    let process = words
        .next()
        .and_then(|w| w.parse().ok())
        .zip(words.next().and_then(|w| w.parse().ok()));
    let (Some(owner), Some((pid, start))) = (owner, process) else {
        return false;
    };
    id.is_none_or(|id| id == owner) && !crate::process::is_alive(pid, start)
}
