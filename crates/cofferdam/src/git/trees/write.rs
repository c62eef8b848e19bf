//! Files out of objects, by as many writers as there are processors.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, Timespec, Timestamps};
use rustix::io::Errno;
use tokio_util::sync::CancellationToken;

use super::error::TreeError;
use crate::fsx::FileError;
use crate::git::index::format::GITLINK;
use crate::git::{GitError, Repository};
use crate::process::{Input, Sink};

/// How long a tree may take to be written.
const LIMIT: Duration = Duration::from_mins(30);
/// More writers than this wait for one file system.
const MOST_WRITERS: usize = 8;
/// Fewer files than this are one writer's.
const SHARE: usize = 2_000;
const BUFFER: usize = 256 << 10;
const SYMLINK: u32 = 0o120_000;
/// A longer target no system can have.
const LONGEST_TARGET: u64 = 4_095;
/// So often it is told how far the writers are.
const OFTEN: u64 = 1_000;

/// How far a tree is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Far {
    /// Another process writes one of the same repository.
    Waits,
    /// Nothing is written yet.
    Begins,
    /// So many of so many files.
    Wrote {
        /// Files that are there.
        done: u64,
        /// Files that there will be.
        of: u64,
    },
}

/// Called by any writer.
#[derive(Clone)]
pub struct Tell(Arc<dyn Fn(Far) + Send + Sync>);

impl Tell {
    /// `tell` is called while the tree is written, from whatever task writes it.
    pub fn new(tell: impl Fn(Far) + Send + Sync + 'static) -> Self {
        Self(Arc::new(tell))
    }

    pub(super) fn how_far(&self, far: Far) {
        (self.0)(far);
    }

    /// Nobody hears of it.
    pub fn nobody() -> Self {
        Self::new(|_| {})
    }
}

impl std::fmt::Debug for Tell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tell")
    }
}

/// One path of a tree.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    pub path: Vec<u8>,
    pub mode: u32,
    /// In hexadecimal digits.
    pub object: String,
}

/// Writes `wanted` below `top`, which is there and empty, all with the same time of change in seconds. Returns the sizes in
/// the same order; 0 for a submodule, which is an empty directory.
pub(super) async fn write(
    repo: &Repository,
    top: &Path,
    wanted: Vec<Wanted>,
    time: u32,
    tell: &Tell,
    cancel: &CancellationToken,
) -> Result<Vec<u64>, TreeError> {
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let writers = (wanted.len() / SHARE + 1).min(processors).min(MOST_WRITERS);
    let share = wanted.len().div_ceil(writers).max(1);
    let done = Arc::new(AtomicU64::new(0));
    let all = wanted.len() as u64;
    let shares = wanted.chunks(share).map(|share| {
        let writer = Writer {
            top: top.to_owned(),
            time,
            exact: is_exact(),
            done: Arc::clone(&done),
            all,
            tell: tell.clone(),
        };
        writer.run(repo, share.to_vec(), cancel)
    });
    let sizes = futures_util::future::try_join_all(shares).await?;
    Ok(sizes.concat())
}

/// Whether what is made has the mode that was asked for.
fn is_exact() -> bool {
    umask() & 0o755 == 0
}

/// What new files' modes lose; what is not to be told loses all.
fn umask() -> u32 {
    let status = crate::fsx::read_bounded(Path::new("/proc/self/status"), 64 << 10);
    let status = String::from_utf8_lossy(&status.unwrap_or_default()).into_owned();
    let line = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    line.and_then(|text| u32::from_str_radix(text.trim(), 8).ok())
        .unwrap_or(0o777)
}

#[derive(Debug)]
struct Writer {
    top: PathBuf,
    time: u32,
    /// As [`is_exact`] says.
    exact: bool,
    done: Arc<AtomicU64>,
    all: u64,
    tell: Tell,
}

impl Writer {
    async fn run(
        self,
        repo: &Repository,
        share: Vec<Wanted>,
        cancel: &CancellationToken,
    ) -> Result<Vec<u64>, TreeError> {
        let objects = share.iter().filter(|one| one.mode != GITLINK);
        let input: String = objects.map(|one| format!("{}\n", one.object)).collect();
        let pipe = io::pipe().map_err(|source| FileError::new("make", "a pipe", source))?;
        let (from, to) = (OwnedFd::from(pipe.0), OwnedFd::from(pipe.1));
        let git = repo
            .command()
            .args(["cat-file", "--batch", "--buffer"])
            .input(Input::Bytes(input.into_bytes()))
            .output(Sink::Fd(to))
            .limit(LIMIT)
            .start()?;
        let writing = tokio::task::spawn_blocking(move || self.all(&share, from));
        let (written, git) = tokio::join!(writing, git.finish(cancel));
        if cancel.is_cancelled() {
            return Err(TreeError::Cancelled);
        }
        // Where the writer let go, git ends by a signal, and that is not what was wrong.
        let sizes = written.map_err(|error| FileError::new("write", "a tree", error.into()))?;
        let sizes = sizes?;
        git?;
        Ok(sizes)
    }

    fn all(&self, share: &[Wanted], from: OwnedFd) -> Result<Vec<u64>, TreeError> {
        let mut from = BufReader::with_capacity(BUFFER, File::from(from));
        let mut sizes = Vec::with_capacity(share.len());
        let mut places = Places::open(&self.top)?;
        let mut buffer = Vec::new();
        for one in share {
            let failed = |source: io::Error| {
                let path = self
                    .top
                    .join(Path::new(std::ffi::OsStr::from_bytes(&one.path)));
                TreeError::from(FileError::new("write", path, source))
            };
            let size = if one.mode == GITLINK {
                places
                    .directory(&one.path)
                    .map_err(|errno| failed(errno.into()))?;
                0
            } else {
                let size = header(&mut from, &one.object)?;
                self.one(one, size, &mut from, &mut places, &mut buffer)
                    .map_err(failed)?;
                let mut end = [0];
                from.read_exact(&mut end)
                    .map_err(|_| odd("it ended too early"))?;
                size
            };
            sizes.push(size);
            let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
            if done.is_multiple_of(OFTEN) || done == self.all {
                let of = self.all;
                self.tell.how_far(Far::Wrote { done, of });
            }
        }
        Ok(sizes)
    }

    fn one(
        &self,
        one: &Wanted,
        size: u64,
        from: &mut impl Read,
        places: &mut Places,
        buffer: &mut Vec<u8>,
    ) -> io::Result<()> {
        let (parent, name) = split(&one.path);
        let parent = places.directory(parent)?;
        if one.mode == SYMLINK {
            if size > LONGEST_TARGET {
                return Err(Errno::NAMETOOLONG.into());
            }
            buffer.clear();
            from.take(size).read_to_end(buffer)?;
            rustix::fs::symlinkat(buffer.as_slice(), parent, name)?;
            let follow = AtFlags::SYMLINK_NOFOLLOW;
            return Ok(rustix::fs::utimensat(parent, name, &self.times(), follow)?);
        }
        let mode = Mode::from_raw_mode(if one.mode & 0o100 == 0 { 0o644 } else { 0o755 });
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let file = rustix::fs::openat(parent, name, flags | OFlags::CLOEXEC, mode)?;
        if !self.exact {
            rustix::fs::fchmod(&file, mode)?;
        }
        let mut file = File::from(file);
        let mut left = size;
        while left > 0 {
            buffer.clear();
            let got = from.take(left.min(BUFFER as u64)).read_to_end(buffer)?;
            if got == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            file.write_all(buffer)?;
            left -= got as u64;
        }
        Ok(rustix::fs::futimens(&file, &self.times())?)
    }

    fn times(&self) -> Timestamps {
        let time = Timespec {
            tv_sec: i64::from(self.time),
            tv_nsec: 0,
        };
        Timestamps {
            last_access: time,
            last_modification: time,
        }
    }
}

/// `<id> blob <size>`.
fn header(from: &mut impl BufRead, object: &str) -> Result<u64, TreeError> {
    let mut line = Vec::new();
    let read = from.take(200).read_until(b'\n', &mut line);
    read.map_err(|_| odd("it cannot be read"))?;
    let size = std::str::from_utf8(&line).ok().and_then(|line| {
        let rest = line.strip_prefix(object)?.strip_prefix(" blob ")?;
        rest.strip_suffix('\n')?.parse().ok()
    });
    size.ok_or_else(|| odd("an object is another one than its tree says"))
}

fn odd(what: &str) -> TreeError {
    let (command, what) = ("cat-file".to_owned(), what.to_owned());
    GitError::Output { command, what }.into()
}

pub(super) fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|&byte| byte == b'/') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (b"", path),
    }
}

/// Directories below the top, made where they are missing. The way to the last one stays open: neighbours are asked for
/// one after another.
#[derive(Debug)]
pub(super) struct Places {
    /// The top, then each directory on the way.
    open: Vec<(Vec<u8>, OwnedFd)>,
    /// As [`is_exact`] says.
    exact: bool,
}

impl Places {
    pub(super) fn open(top: &Path) -> Result<Self, FileError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(CWD, top, flags, Mode::empty());
        let top = opened.map_err(|errno| FileError::new("open", top, errno.into()))?;
        Ok(Self {
            open: vec![(Vec::new(), top)],
            exact: is_exact(),
        })
    }

    /// No symlink is followed: what lies there was written here, by the names of a tree.
    pub(super) fn directory(&mut self, path: &[u8]) -> Result<&OwnedFd, Errno> {
        let mut names = if path.is_empty() {
            Vec::new()
        } else {
            path.split(|&byte| byte == b'/').collect()
        };
        let known = self.open.iter().skip(1).zip(&names);
        let same = known.take_while(|((open, _), name)| open == *name).count();
        self.open.truncate(same + 1);
        for name in names.drain(same..) {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let next = {
                // The top is never taken away.
                let Some((_, above)) = self.open.last() else {
                    return Err(Errno::NOENT);
                };
                let mode = Mode::from_raw_mode(0o755);
                let next = match rustix::fs::openat(above, name, flags, Mode::empty()) {
                    Err(Errno::NOENT) => {
                        match rustix::fs::mkdirat(above, name, mode) {
                            Err(Errno::EXIST) | Ok(()) => {}
                            Err(errno) => return Err(errno),
                        }
                        rustix::fs::openat(above, name, flags, Mode::empty())?
                    }
                    opened => opened?,
                };
                // Another writer may have made it, and not come to this yet.
                if !self.exact {
                    rustix::fs::chmodat(above, name, mode, AtFlags::empty())?;
                }
                next
            };
            self.open.push((name.to_vec(), next));
        }
        self.open.last().map(|(_, at)| at).ok_or(Errno::NOENT)
    }
}
