//! The files of a commit as entries of a stream: their bytes as git has them, by no filter and with no other line ends.

use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cofferdam_guest::protocol::files::{self, Entry, Known, LONGEST_RULES};
use rustix::pipe::PipeFlags;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::pipe;
use tokio_util::sync::CancellationToken;

use crate::git::{GitError, Oid, Repository};
use crate::process::{Input, Sink};

/// A large tree takes its time.
const LIMIT: Duration = Duration::from_mins(30);
/// Bytes of the list of a commit's files.
const LISTING: usize = 1 << 30;
/// Bytes that are written at once.
const SHARE: usize = 256 << 10;

/// What is to be known of a tree that was sent.
#[derive(Debug, Default)]
pub struct Sent {
    /// The ignore files in it, and the directories that are not the sandbox's: submodules.
    pub known: Vec<Known>,
    /// Regular files and links in it.
    pub files: u64,
}

/// One line of the list.
#[derive(Debug)]
struct Listed {
    mode: u32,
    oid: String,
    size: u64,
    path: Vec<u8>,
}

/// Writes the files of `commit`, without those at and below `hidden`, to a pipe.
pub async fn send(
    repo: &Repository,
    commit: &Oid,
    hidden: &[PathBuf],
    to: OwnedFd,
    cancel: &CancellationToken,
) -> Result<Sent, GitError> {
    let all = list(repo, commit, cancel).await?;
    let is_hidden = |path: &[u8]| {
        let path = Path::new(std::ffi::OsStr::from_bytes(path));
        hidden.iter().any(|one| path.starts_with(one))
    };
    let all: Vec<Listed> = all
        .into_iter()
        .filter(|one| !is_hidden(&one.path))
        .collect();
    let objects = all.iter().filter(|one| !is_submodule(one));
    let objects: String = objects.map(|one| format!("{}\n", one.oid)).collect();
    let failed = |source| odd(&format!("cannot pass its files on: {source}"));
    let (read_end, write_end) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)
        .map_err(std::io::Error::from)
        .map_err(failed)?;
    let running = repo
        .command()
        .args(["cat-file", "--batch"])
        .input(Input::Bytes(objects.into_bytes()))
        .output(Sink::Fd(write_end))
        .limit(LIMIT)
        .start()?;
    let pass = async {
        let from = pipe::Receiver::from_owned_fd(read_end).map_err(failed)?;
        let mut from = BufReader::with_capacity(SHARE, from);
        let mut to = pipe::Sender::from_owned_fd(to).map_err(failed)?;
        pass_on(&all, &mut from, &mut to).await
    };
    let (sent, done) = tokio::join!(pass, running.finish(cancel));
    // Where the reader let go, git ends by a signal, and that is not what was wrong.
    let sent = sent?;
    done?;
    Ok(sent)
}

async fn list(
    repo: &Repository,
    commit: &Oid,
    cancel: &CancellationToken,
) -> Result<Vec<Listed>, GitError> {
    let done = repo
        .command()
        .args(["ls-tree", "-r", "-z", "-l", "--full-tree", commit.as_str()])
        .output(Sink::Capture(LISTING))
        .limit(LIMIT)
        .run(cancel)
        .await?;
    let lines = done.stdout.split(|&byte| byte == 0);
    let lines = lines.filter(|line| !line.is_empty());
    let parsed = lines.map(|line| parse(line).ok_or_else(|| odd("a line of a tree")));
    parsed.collect()
}

fn parse(line: &[u8]) -> Option<Listed> {
    let tab = line.iter().position(|&byte| byte == b'\t')?;
    let mut words = std::str::from_utf8(&line[..tab])
        .ok()?
        .split_ascii_whitespace();
    let mode = u32::from_str_radix(words.next()?, 8).ok()?;
    let oid = words.nth(1)?.to_owned();
    let size = words.next()?.parse().unwrap_or(0);
    let path = line[tab + 1..].to_vec();
    Some(Listed {
        mode,
        oid,
        size,
        path,
    })
}

fn is_submodule(one: &Listed) -> bool {
    one.mode == 0o160_000
}

async fn pass_on(
    all: &[Listed],
    from: &mut BufReader<pipe::Receiver>,
    to: &mut pipe::Sender,
) -> Result<Sent, GitError> {
    let mut sent = Sent::default();
    let mut buffer = Vec::with_capacity(SHARE * 2);
    for one in all {
        let path = one.path.clone();
        if is_submodule(one) {
            sent.known.push(Known::Closed { path: path.clone() });
            put(&mut buffer, &Entry::Directory { path, mode: 0o755 })?;
            continue;
        }
        let mut header = String::new();
        from.read_line(&mut header)
            .await
            .map_err(|error| cut(&error))?;
        if header.trim_end() != format!("{} blob {}", one.oid, one.size) {
            return Err(odd("an object is another one than its tree says"));
        }
        sent.files += 1;
        if one.mode == 0o120_000 {
            let mut target = vec![0; usize::try_from(one.size.min(1 << 16)).unwrap_or_default()];
            from.read_exact(&mut target)
                .await
                .map_err(|error| cut(&error))?;
            put(&mut buffer, &Entry::Link { path, target })?;
        } else {
            let rules = one.size <= LONGEST_RULES as u64 && is_ignore_file(&path);
            let directory = path[..path.len().saturating_sub(IGNORE_FILE.len())].to_vec();
            let mode = if one.mode & 0o100 == 0 { 0o644 } else { 0o755 };
            let size = one.size;
            put(&mut buffer, &Entry::File { path, mode, size })?;
            let begins = buffer.len();
            let mut left = size;
            while left > 0 {
                if buffer.len() >= SHARE && !rules {
                    to.write_all(&buffer).await.map_err(|error| cut(&error))?;
                    buffer.clear();
                }
                let got = (&mut *from).take(left.min(SHARE as u64));
                let got = { got }
                    .read_buf(&mut buffer)
                    .await
                    .map_err(|error| cut(&error))?;
                if got == 0 {
                    return Err(odd("it ended too early"));
                }
                left -= got as u64;
            }
            if rules {
                let directory = directory.strip_suffix(b"/").unwrap_or(&directory).to_vec();
                sent.known.push(Known::Rules {
                    directory: Some(directory),
                    text: buffer[begins..].to_vec(),
                });
            }
        }
        if from.read_u8().await.map_err(|error| cut(&error))? != b'\n' {
            return Err(odd("an object is longer than it says"));
        }
        if buffer.len() >= SHARE {
            to.write_all(&buffer).await.map_err(|error| cut(&error))?;
            buffer.clear();
        }
    }
    put(&mut buffer, &Entry::End { left: 0 })?;
    to.write_all(&buffer).await.map_err(|error| cut(&error))?;
    Ok(sent)
}

const IGNORE_FILE: &[u8] = b".gitignore";

fn is_ignore_file(path: &[u8]) -> bool {
    path.strip_suffix(IGNORE_FILE)
        .is_some_and(|before| before.is_empty() || before.ends_with(b"/"))
}

fn put(buffer: &mut Vec<u8>, entry: &Entry) -> Result<(), GitError> {
    files::write(buffer, entry).map_err(|error| cut(&error))
}

fn cut(error: &std::io::Error) -> GitError {
    odd(&format!("its files cannot be passed on: {error}"))
}

fn odd(what: &str) -> GitError {
    GitError::Output {
        command: "cat-file".to_owned(),
        what: what.to_owned(),
    }
}
