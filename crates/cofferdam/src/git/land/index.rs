//! The index of a checkout that moves: read, compared and written with git's plumbing, in a
//! temporary file that replaces the real one by rename.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::Timestamps;
use tokio_util::sync::CancellationToken;

use super::LandError;
use super::journal::Move;
use crate::fsx::{self, Context, FileError};
use crate::git::{GitError, Oid, Repository};
use crate::process::{Input, Sink};

/// Mode and id, as git writes them; `None`: there is nothing at the path.
pub(super) type State = Option<(String, String)>;
/// What a commit has at each path where it differs from another.
pub(super) type Changes = BTreeMap<Vec<u8>, State>;

impl Move {
    /// What the new commit has where it differs from the old one (`None`: nothing).
    pub(super) async fn changes(
        &self,
        repo: &Repository,
        cancel: &CancellationToken,
    ) -> Result<Changes, GitError> {
        let done = self
            .command(repo)
            .args([
                "diff-tree",
                "-r",
                "-z",
                "--raw",
                "--no-renames",
                "--no-abbrev",
            ])
            .args([
                "--ignore-submodules=none",
                self.old.as_str(),
                self.new.as_str(),
            ])
            .output(Sink::Capture(1 << 30))
            .run(cancel)
            .await?;
        parse_raw(&done.stdout)
    }

    /// Paths whose index entry is not the old commit's: what the user staged. The flag says whether
    /// there is an entry (`false`: they staged the deletion).
    pub(super) async fn staged(
        &self,
        repo: &Repository,
        index: &Path,
        cancel: &CancellationToken,
    ) -> Result<BTreeMap<Vec<u8>, bool>, GitError> {
        let entries = self.entries(repo, index, cancel).await?;
        let present = |(path, entry): (_, State)| (path, entry.is_some());
        Ok(entries.into_iter().map(present).collect())
    }

    /// The index entries that are not the old commit's.
    pub(super) async fn entries(
        &self,
        repo: &Repository,
        index: &Path,
        cancel: &CancellationToken,
    ) -> Result<Changes, GitError> {
        let done = self
            .command(repo)
            .env("GIT_INDEX_FILE", index)
            .args([
                "diff-index",
                "--cached",
                "-z",
                "--raw",
                "--no-renames",
                "--no-abbrev",
            ])
            .args([
                "--ita-invisible-in-index",
                "--ignore-submodules=none",
                self.old.as_str(),
            ])
            .output(Sink::Capture(1 << 30))
            .run(cancel)
            .await?;
        parse_raw(&done.stdout)
    }

    /// Three-way by path: entries equal to the old commit's become the new one's, what the user
    /// staged stays on top. Doing it twice changes nothing.
    pub(super) async fn bring_up_index(
        &self,
        repo: &Repository,
        index: &Path,
        changes: &Changes,
        cancel: &CancellationToken,
    ) -> Result<(), LandError> {
        let staged = self.staged(repo, index, cancel).await?;
        // An entry of the user's at `a` leaves no room for `a/b`, and the other way round.
        let taken: BTreeSet<&[u8]> = staged
            .iter()
            .filter(|(_, present)| **present)
            .map(|(path, _)| path.as_slice())
            .collect();
        let wanted: Vec<(&Vec<u8>, &State)> = changes
            .iter()
            .filter(|(path, entry)| {
                !staged.contains_key(*path) && (entry.is_none() || !collides(path, &taken))
            })
            .collect();
        self.set_entries(repo, index, &wanted, cancel).await
    }

    pub(super) async fn set_entries(
        &self,
        repo: &Repository,
        index: &Path,
        entries: &[(&Vec<u8>, &State)],
        cancel: &CancellationToken,
    ) -> Result<(), LandError> {
        if entries.is_empty() {
            return Ok(());
        }
        let sparse = self.skipped(repo, index, entries, cancel).await?;
        let null = Oid::null(repo.format);
        let mut input = Vec::new();
        let line = |input: &mut Vec<u8>, mode: &str, id: &str, path: &[u8]| {
            input.extend_from_slice(format!("{mode} {id}\t").as_bytes());
            input.extend_from_slice(path);
            input.push(0);
        };
        // Removals first: a file may become a directory.
        for (path, _) in entries.iter().filter(|(_, entry)| entry.is_none()) {
            line(&mut input, "0", null.as_str(), path);
        }
        for (path, entry) in entries {
            if let Some((mode, id)) = entry {
                line(&mut input, mode, id, path);
            }
        }
        self.command(repo)
            .env("GIT_INDEX_FILE", index)
            .args(["update-index", "-z", "--index-info"])
            .input(Input::Bytes(input))
            .run(cancel)
            .await?;
        if !sparse.is_empty() {
            self.command(repo)
                .env("GIT_INDEX_FILE", index)
                .args(["update-index", "-z", "--skip-worktree", "--stdin"])
                .input(Input::Bytes(sparse.join(&0)))
                .run(cancel)
                .await?;
        }
        Ok(())
    }

    /// Of the entries: those a sparse checkout leaves out of the working tree.
    pub(super) async fn skipped(
        &self,
        repo: &Repository,
        index: &Path,
        entries: &[(&Vec<u8>, &State)],
        cancel: &CancellationToken,
    ) -> Result<Vec<Vec<u8>>, GitError> {
        if !self.git_dir().join("info/sparse-checkout").exists() {
            return Ok(Vec::new());
        }
        let done = self
            .command(repo)
            .env("GIT_INDEX_FILE", index)
            .args(["ls-files", "-t", "-z", "--cached"])
            .output(Sink::Capture(1 << 30))
            .run(cancel)
            .await?;
        let skipped: BTreeSet<&[u8]> = done
            .stdout
            .split(|&b| b == 0)
            .filter_map(|line| line.strip_prefix(b"S "))
            .collect();
        let top = self.top();
        Ok(entries
            .iter()
            .filter(|(path, entry)| {
                entry.is_some()
                    && skipped.contains(path.as_slice())
                    && std::fs::symlink_metadata(top.join(OsStr::from_bytes(path))).is_err()
            })
            .map(|(path, _)| (*path).clone())
            .collect())
    }

    pub(super) async fn tracked(
        &self,
        repo: &Repository,
        index: &Path,
        cancel: &CancellationToken,
    ) -> Result<BTreeSet<Vec<u8>>, GitError> {
        let done = self
            .command(repo)
            .env("GIT_INDEX_FILE", index)
            .args(["ls-files", "-z", "--cached"])
            .output(Sink::Capture(1 << 30))
            .run(cancel)
            .await?;
        Ok(done.stdout.split(|&b| b == 0).map(<[u8]>::to_vec).collect())
    }

    /// Asks no submodule for its commit: its git directory may be one that an agent made.
    pub(super) async fn refresh(
        &self,
        repo: &Repository,
        index: &Path,
        cancel: &CancellationToken,
    ) -> Result<(), GitError> {
        self.command(repo)
            .env("GIT_INDEX_FILE", index)
            .args(["update-index", "-q", "--ignore-submodules", "--refresh"])
            .output(Sink::Capture(256 << 20))
            .answers(&[1])
            .run(cancel)
            .await?;
        Ok(())
    }

    /// Of `paths` (all, if empty): those whose content is not the index entry's.
    pub(super) async fn modified(
        &self,
        repo: &Repository,
        index: Option<&Path>,
        paths: &[&[u8]],
        cancel: &CancellationToken,
    ) -> Result<BTreeSet<Vec<u8>>, GitError> {
        let mut call = self.command(repo);
        if let Some(index) = index {
            call = call.env("GIT_INDEX_FILE", index);
        }
        let done = call
            .config("diff.autoRefreshIndex=true")
            .args([
                "diff",
                "--name-only",
                "-z",
                "--no-renames",
                "--no-ext-diff",
                "--no-textconv",
            ])
            .args(["--ignore-submodules=all", "--no-relative", "--"])
            .args(paths.iter().map(|path| OsStr::from_bytes(path)))
            .output(Sink::Capture(1 << 30))
            .run(cancel)
            .await?;
        let paths = done
            .stdout
            .split(|&b| b == 0)
            .filter(|path| !path.is_empty());
        Ok(paths.map(<[u8]>::to_vec).collect())
    }
}

/// Copies an index with its time: git tells by it which entries it must compare by content.
pub(super) fn copy_index(from: &Path, to: &Path) -> Result<(), FileError> {
    remove_temporary(to)?;
    let source = match std::fs::File::open(from) {
        Ok(source) => source,
        // No index: everything counts as not staged, as git itself sees it.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(FileError::new("open", from, error)),
    };
    let found = rustix::fs::fstat(&source).context("look at", from)?;
    let mut reader = &source;
    let mut target = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(to)
        .context("create", to)?;
    std::io::copy(&mut reader, &mut target).context("copy the index to", to)?;
    let mode = rustix::fs::Mode::from_raw_mode(found.st_mode);
    rustix::fs::fchmod(&target, mode).context("set the mode of", to)?;
    let time = rustix::fs::Timespec {
        tv_sec: found.st_mtime,
        tv_nsec: i64::try_from(found.st_mtime_nsec).unwrap_or(0),
    };
    let times = Timestamps {
        last_access: time,
        last_modification: time,
    };
    rustix::fs::futimens(&target, &times).context("set the time of", to)
}

pub(super) fn remove_temporary(index: &Path) -> Result<(), FileError> {
    fsx::remove_file_if_exists(index)?;
    fsx::remove_file_if_exists(&with_suffix(index, ".lock"))
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// The directories that a path is in, as a commit has them.
pub(super) fn ancestors(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let ends = path.iter().enumerate().filter(|&(_, &byte)| byte == b'/');
    ends.map(|(at, _)| &path[..at])
}

/// Whether `path` is below one of `taken`, or one of `taken` is below it.
pub(super) fn collides(path: &[u8], taken: &BTreeSet<&[u8]>) -> bool {
    let above = ancestors(path).any(|above| taken.contains(above));
    let directory = [path, b"/"].concat();
    above
        || taken
            .range(directory.as_slice()..)
            .next()
            .is_some_and(|next| next.starts_with(&directory))
}

/// `:<mode> <mode> <id> <id> <letter>\0<path>\0` … to path → new mode and id.
fn parse_raw(bytes: &[u8]) -> Result<Changes, GitError> {
    let odd = || GitError::Output {
        command: "diff".into(),
        what: "a change of another form".into(),
    };
    let mut found = BTreeMap::new();
    let mut tokens = bytes.split(|&b| b == 0);
    while let Some(token) = tokens.next().filter(|token| !token.is_empty()) {
        let text = std::str::from_utf8(token).map_err(|_| odd())?;
        let fields: Vec<&str> = text.split(' ').collect();
        let [_, mode, _, id, _] = fields[..] else {
            return Err(odd());
        };
        let path = tokens.next().ok_or_else(odd)?.to_vec();
        let entry = (mode != "000000").then(|| (mode.to_owned(), id.to_owned()));
        // An unmerged path comes twice; either way it is the user's.
        found.insert(path, entry);
    }
    Ok(found)
}
