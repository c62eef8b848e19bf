//! A layer with all files of a tree.

use std::path::Path;

use tokio_util::sync::CancellationToken;

use super::about::{self, About};
use super::error::TreeError;
use super::takes::Takes;
use super::write::{self, Tell, Wanted};
use crate::fsx::{self, FileError};
use crate::git::hex::hex;
use crate::git::index;
use crate::git::index::format::{Entry, GITLINK, Stat, parse};
use crate::git::own_files;
use crate::git::{Oid, Repository};

/// An index of millions of files.
pub(super) const INDEX: u64 = 4 << 30;
/// So much older than its index a file is, in seconds: then git trusts what the index says of it.
const OLDER: i64 = 2;

/// Writes all of `tree` to the directory `to`.
pub(super) async fn write(
    repo: &Repository,
    tree: &Oid,
    to: &Path,
    tell: &Tell,
    cancel: &CancellationToken,
) -> Result<About, TreeError> {
    let (files, scratch) = (to.join("files"), to.join("scratch-index"));
    make_top(&files)?;
    repo.command()
        .env("GIT_INDEX_FILE", &scratch)
        .config("core.splitIndex=false")
        .config("index.sparse=false")
        .config("index.version=2")
        .args(["read-tree", tree.as_str()])
        .run(cancel)
        .await?;
    let bytes = fsx::read_bounded(&scratch, INDEX)?;
    fsx::remove_file_if_exists(&scratch)?;
    let mut read = parse(&bytes, repo.format).map_err(index::IndexError::from)?;
    let time = time();
    let shown: Vec<usize> = (0..read.entries.len())
        .filter(|&at| !is_ours(&read.entries[at].path))
        .collect();
    let wanted = shown.iter().map(|&at| wanted(&read.entries[at])).collect();
    let sizes = write::write(repo, &files, wanted, time, tell, cancel).await?;
    for entry in &mut read.entries {
        entry.skip_worktree = is_ours(&entry.path);
    }
    let mut takes = Takes::default();
    for (&at, &size) in shown.iter().zip(&sizes) {
        let entry = &read.entries[at];
        takes.path(&entry.path, entry.mode, size);
    }
    let bytes = takes.bytes();
    for (at, size) in shown.into_iter().zip(sizes) {
        read.entries[at].stat = stat(read.entries[at].mode, time, size);
    }
    let index = write_index(to, &read.entries, read.trees, repo)?;
    Ok(About {
        below: Vec::new(),
        files: read.entries.len() as u64,
        bytes: bytes + index,
        time,
        boot: about::boot(),
    })
}

pub(super) fn make_top(files: &Path) -> Result<(), FileError> {
    fsx::private_dir(files)?;
    let mode = rustix::fs::Mode::from_raw_mode(0o755);
    rustix::fs::chmod(files, mode).map_err(|errno| FileError::new("open up", files, errno.into()))
}

/// Returns how many bytes it has.
pub(super) fn write_index(
    to: &Path,
    entries: &[Entry<'_>],
    trees: Option<&[u8]>,
    repo: &Repository,
) -> Result<u64, FileError> {
    let bytes = index::format::write(entries, trees, repo.format);
    fsx::write_private(&to.join("index"), &bytes)?;
    Ok(bytes.len() as u64)
}

/// No sandbox sees Cofferdam's own directory, and git inside leaves it alone.
pub(super) fn is_ours(path: &[u8]) -> bool {
    let rest = path.strip_prefix(own_files::DIRECTORY.as_bytes());
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

pub(super) fn wanted(entry: &Entry<'_>) -> Wanted {
    Wanted {
        path: entry.path.to_vec(),
        mode: entry.mode,
        object: hex(&entry.oid),
    }
}

/// What git compares: when it changed, and its size.
pub(super) fn stat(mode: u32, time: u32, size: u64) -> Stat {
    if mode == GITLINK {
        return Stat::default();
    }
    Stat {
        ctime: [time, 0],
        mtime: [time, 0],
        // As git keeps it: its low 32 bits.
        size: u32::try_from(size & u64::from(u32::MAX)).unwrap_or_default(),
        ..Stat::default()
    }
}

pub(super) fn time() -> u32 {
    let now = jiff::Timestamp::now().as_second() - OLDER;
    u32::try_from(now).unwrap_or_default()
}
