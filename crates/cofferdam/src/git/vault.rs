//! The vault: host-owned packs of what was exported from one repository.
//!
//! One entry per exported tip names the chain of packs that hold exactly the history of that tip,
//! oldest first, so that a private clone shows no object of any other branch. Export is
//! incremental: a new tip adds one pack on top of its nearest known ancestor.
//!
//! Packs have mode 0444 below directories of mode 0700: nobody but their owner reaches them on the
//! host, and a sandbox that runs under another uid can read them through its read-only mount.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

use super::command::GitError;
use super::lock::{Lock, LockError, lock};
use super::{Oid, Repository};
use crate::fsx::lock::try_hold;
use crate::fsx::{self, Context, FileError};
use crate::home::Home;
use crate::process::Input;

/// A longer chain is cut short by the next export: each pack costs every object look-up.
const LONGEST_CHAIN: usize = 16;
/// A chain that is cut short goes on from an ancestor whose chain is no longer than this.
const SHORT_CHAIN: usize = 4;
/// More entries than this are forgotten, oldest first; their packs go when nothing names them.
const ENTRIES: usize = 200;
/// How far back the nearest known ancestor is looked for, in commits.
const WALKS: [usize; 2] = [2_000, 200_000];
/// The first export of a large repository reads all of it.
const EXPORT_LIMIT: Duration = Duration::from_hours(1);
const FIRST_LINE: &str = "cofferdam-vault 1";

/// Why a history could not be exported.
#[derive(Debug, thiserror::Error)]
pub enum VaultError {
    /// Git has not fetched all of it, and a sandbox cannot fetch.
    #[error("{} is a partial clone that lacks objects of {tip}", repository.display())]
    PartialClone {
        /// Its top.
        repository: PathBuf,
        /// The commit whose history is wanted.
        tip: Oid,
    },
    /// The caller cancelled it.
    #[error("cancelled while waiting for another export from this repository")]
    Cancelled,
    /// Something could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// Git could not pack it.
    #[error(transparent)]
    Git(#[from] GitError),
}

impl From<LockError> for VaultError {
    fn from(error: LockError) -> Self {
        match error {
            LockError::Cancelled => Self::Cancelled,
            LockError::File(error) => error.into(),
        }
    }
}

/// The packs that hold exactly the history of `tip`. While this value lives, they stay.
#[derive(Debug)]
pub struct Export {
    /// The commit whose history it is.
    pub tip: Oid,
    /// The `.pack` files; an `.idx` lies beside each.
    pub packs: Vec<PathBuf>,
    /// Commits whose parents the host does not have either.
    pub shallow: Vec<Oid>,
    _lease: File,
}

/// The vault of one repository.
#[derive(Debug, Clone)]
pub struct Vault {
    directory: PathBuf,
}

#[derive(Debug, Default)]
struct Entry {
    packs: Vec<String>,
    shallow: Vec<Oid>,
}

impl Vault {
    /// Opens the vault of `repo` and makes it where it is missing.
    pub fn open(home: &Home, repo: &Repository) -> Result<Self, VaultError> {
        let directory = home.vault(&repo.top);
        for part in ["packs", "tips", "tmp"] {
            fsx::private_dir(&directory.join(part))?;
        }
        let origin = directory.join("repository");
        if !origin.exists() {
            fsx::write_private(&origin, repo.top.as_path().as_os_str().as_bytes())?;
        }
        Ok(Self { directory })
    }

    /// Makes sure that packs with exactly the history of `tip` exist. A known tip costs no process.
    /// Waits while another process exports from the same repository.
    pub async fn export(
        &self,
        repo: &Repository,
        tip: &Oid,
        cancel: &CancellationToken,
    ) -> Result<Export, VaultError> {
        let boundary = Boundary::read(repo)?;
        if let Some(export) = self.known(tip, &boundary, cancel).await? {
            return Ok(export);
        }
        let exporting = lock(&self.directory.join("export.lock"), Lock::Exclusive, cancel).await?;
        // Another process may have exported it while this one waited.
        if let Some(export) = self.known(tip, &boundary, cancel).await? {
            return Ok(export);
        }
        self.clean()?;
        self.add(repo, tip, &boundary, cancel).await?;
        // Packs are removed only by who holds the export lock, so the lease comes in time.
        let export = self.known(tip, &boundary, cancel).await?;
        drop(exporting);
        export.ok_or_else(|| {
            let gone = std::io::Error::other("the packs that were just written are gone");
            VaultError::File(FileError::new("export to", &self.directory, gone))
        })
    }

    async fn known(
        &self,
        tip: &Oid,
        boundary: &Boundary,
        cancel: &CancellationToken,
    ) -> Result<Option<Export>, VaultError> {
        let path = self.tip_path(tip, boundary);
        if !path.exists() {
            return Ok(None);
        }
        let lease = lock(&self.directory.join("lease.lock"), Lock::Shared, cancel).await?;
        let Some(entry) = self.read_entry(&path) else {
            return Ok(None);
        };
        let packs = entry
            .packs
            .iter()
            .map(|name| self.pack_path(name))
            .collect();
        Ok(Some(Export {
            tip: tip.clone(),
            packs,
            shallow: entry.shallow,
            _lease: lease,
        }))
    }

    fn packs(&self) -> PathBuf {
        self.directory.join("packs")
    }

    fn pack_path(&self, name: &str) -> PathBuf {
        self.packs().join(format!("{name}.pack"))
    }

    fn tip_path(&self, tip: &Oid, boundary: &Boundary) -> PathBuf {
        self.directory
            .join("tips")
            .join(format!("{tip}{}", boundary.suffix))
    }

    /// `None` also for an entry that is damaged or whose packs are not what they were: it is
    /// exported again.
    fn read_entry(&self, path: &Path) -> Option<Entry> {
        let bytes = fsx::read_bounded(path, 1 << 20).ok()?;
        let text = std::str::from_utf8(&bytes).ok()?;
        let mut lines = text.strip_suffix("\nend\n")?.lines();
        if lines.next() != Some(FIRST_LINE) {
            return None;
        }
        let mut entry = Entry::default();
        for line in lines {
            let mut words = line.split(' ');
            match (words.next(), words.next(), words.next()) {
                (Some("shallow"), Some(oid), None) => entry.shallow.push(oid.parse().ok()?),
                (Some("pack"), Some(name), Some(size)) if is_pack_name(name) => {
                    let pack = fs::symlink_metadata(self.pack_path(name)).ok()?;
                    if !pack.is_file() || pack.len() != size.parse::<u64>().ok()? {
                        return None;
                    }
                    fs::symlink_metadata(self.packs().join(format!("{name}.idx"))).ok()?;
                    entry.packs.push(name.to_owned());
                }
                _ => return None,
            }
        }
        (!entry.packs.is_empty()).then_some(entry)
    }

    fn write_entry(&self, path: &Path, entry: &Entry) -> Result<(), FileError> {
        use std::fmt::Write;
        let mut text = format!("{FIRST_LINE}\n");
        for oid in &entry.shallow {
            let _ = writeln!(text, "shallow {oid}");
        }
        for name in &entry.packs {
            let pack = self.pack_path(name);
            let size = fs::metadata(&pack).context("look at", &pack)?.len();
            let _ = writeln!(text, "pack {name} {size}");
        }
        text.push_str("end\n");
        fsx::write_private(path, text.as_bytes())
    }

    /// Exports `tip`. The caller holds the export lock.
    async fn add(
        &self,
        repo: &Repository,
        tip: &Oid,
        boundary: &Boundary,
        cancel: &CancellationToken,
    ) -> Result<(), VaultError> {
        let known = self.known_ancestors(repo, tip, boundary, cancel).await?;
        let nearest = known.first();
        let base = match nearest {
            Some((_, entry)) if entry.packs.len() >= LONGEST_CHAIN => known
                .iter()
                .find(|(_, entry)| entry.packs.len() <= SHORT_CHAIN),
            other => other,
        };
        let added = self
            .pack(repo, tip, base.map(|(oid, _)| oid), cancel)
            .await?;
        let mut entry = Entry {
            packs: base
                .map(|(_, entry)| entry.packs.clone())
                .unwrap_or_default(),
            shallow: boundary.within(repo, tip, cancel).await?,
        };
        for name in added {
            if !entry.packs.contains(&name) {
                entry.packs.push(name);
            }
        }
        self.write_entry(&self.tip_path(tip, boundary), &entry)?;
        if let Some((_, old)) = nearest.filter(|(_, old)| old.packs.len() >= LONGEST_CHAIN) {
            self.forget_within(&old.packs, &entry.packs)?;
        }
        Ok(())
    }

    /// Ancestors of `tip` that were exported before, nearest first.
    async fn known_ancestors(
        &self,
        repo: &Repository,
        tip: &Oid,
        boundary: &Boundary,
        cancel: &CancellationToken,
    ) -> Result<Vec<(Oid, Entry)>, VaultError> {
        let mut tips = HashMap::new();
        for name in names(&self.directory.join("tips"))? {
            let Some(oid) = name.strip_suffix(boundary.suffix.as_str()) else {
                continue;
            };
            if let Ok(oid) = oid.parse::<Oid>() {
                tips.insert(oid.as_str().to_owned(), oid);
            }
        }
        let mut found = Vec::new();
        if tips.is_empty() {
            return Ok(found);
        }
        for limit in WALKS {
            let done = ungrafted(repo)
                .arg("rev-list")
                .arg(format!("--max-count={limit}"))
                .args([tip.as_str(), "--"])
                .run(cancel)
                .await
                .map_err(|error| explain(repo, tip, error))?;
            let text = String::from_utf8_lossy(&done.stdout);
            let mut commits = 0;
            for line in text.lines() {
                commits += 1;
                let Some(oid) = tips.get(line) else { continue };
                if let Some(entry) = self.read_entry(&self.tip_path(oid, boundary)) {
                    found.push((oid.clone(), entry));
                }
            }
            if !found.is_empty() || commits < limit {
                break;
            }
        }
        Ok(found)
    }

    /// Writes packs of everything that `tip` reaches and `base` does not; returns their names.
    async fn pack(
        &self,
        repo: &Repository,
        tip: &Oid,
        base: Option<&Oid>,
        cancel: &CancellationToken,
    ) -> Result<Vec<String>, VaultError> {
        let objects = self
            .directory
            .join("tmp")
            .join(format!("{}", std::process::id()));
        fsx::private_dir(&objects.join("pack"))?;
        let mut revisions = format!("{tip}\n");
        if let Some(base) = base {
            revisions.extend(["^", base.as_str(), "\n"]);
        }
        // git writes its temporary packs into the object directory, which must not be the user's:
        // their objects are read as an alternate. A delta is never searched for (`--window=0`):
        // those that exist are reused, and an export must not take longer than the work it is for.
        let packed = ungrafted(repo)
            .env("GIT_OBJECT_DIRECTORY", &objects)
            .env("GIT_ALTERNATE_OBJECT_DIRECTORIES", quoted(&repo.objects()))
            .config("pack.packSizeLimit=0")
            .config("pack.compression=1")
            .args([
                "pack-objects",
                "--revs",
                "-q",
                "--delta-base-offset",
                "--window=0",
            ])
            .arg(objects.join("pack/pack"))
            .input(Input::Bytes(revisions.into_bytes()))
            .limit(EXPORT_LIMIT)
            .run(cancel)
            .await;
        if let Err(error) = packed {
            fsx::remove_tree(&objects)?;
            return Err(explain(repo, tip, error));
        }
        let mut added = Vec::new();
        let written = objects.join("pack");
        for name in names(&written)? {
            if let Some(stem) = name.strip_suffix(".idx").filter(|stem| is_pack_name(stem)) {
                added.push(stem.to_owned());
            }
        }
        added.sort();
        for stem in &added {
            // The index goes last: a pack without one does not exist for git.
            for suffix in ["pack", "rev", "idx"] {
                let file = format!("{stem}.{suffix}");
                let from = written.join(&file);
                match fs::rename(&from, self.packs().join(&file)) {
                    Err(error)
                        if suffix == "rev" && error.kind() == std::io::ErrorKind::NotFound => {}
                    moved => moved.context("move", &from)?,
                }
            }
        }
        fsx::remove_tree(&objects)?;
        Ok(added)
    }

    /// Removes entries whose packs all belong to a chain that was replaced.
    fn forget_within(&self, old: &[String], new: &[String]) -> Result<(), VaultError> {
        let replaced: HashSet<&str> = old
            .iter()
            .filter(|name| !new.contains(name))
            .map(String::as_str)
            .collect();
        let tips = self.directory.join("tips");
        for name in names(&tips)? {
            let path = tips.join(&name);
            let Some(entry) = self.read_entry(&path) else {
                continue;
            };
            let superseded = entry.packs.iter().all(|pack| old.contains(pack))
                && entry
                    .packs
                    .iter()
                    .any(|pack| replaced.contains(pack.as_str()));
            if superseded {
                fsx::remove_file_if_exists(&path)?;
            }
        }
        Ok(())
    }

    /// Removes what a killed export left and what no entry names. The caller holds the export lock.
    fn clean(&self) -> Result<(), VaultError> {
        let tmp = self.directory.join("tmp");
        for name in names(&tmp)? {
            fsx::remove_tree(&tmp.join(name))?;
        }
        // Somebody who reads packs right now may be about to link them: next time, then.
        let path = self.directory.join("lease.lock");
        let lease = fsx::lock::open(&path)?;
        if !try_hold(&lease, Lock::Exclusive, &path)? {
            return Ok(());
        }
        let tips = self.directory.join("tips");
        let mut entries = Vec::new();
        for name in names(&tips)? {
            let path = tips.join(name);
            let age = fs::symlink_metadata(&path).and_then(|found| found.modified());
            entries.push((age.unwrap_or(SystemTime::UNIX_EPOCH), path));
        }
        entries.sort();
        entries.reverse();
        let mut named = HashSet::new();
        for (position, (_, path)) in entries.iter().enumerate() {
            match self.read_entry(path).filter(|_| position < ENTRIES) {
                Some(entry) => named.extend(entry.packs),
                None => fsx::remove_file_if_exists(path)?,
            }
        }
        for name in names(&self.packs())? {
            let stem = name.split('.').next().unwrap_or_default();
            if !named.contains(stem) {
                fsx::remove_file_if_exists(&self.packs().join(&name))?;
            }
        }
        Ok(())
    }
}

/// Where the host's own history ends, if it is a shallow clone. Entries of different boundaries
/// are kept apart: the same tip has another history after `git fetch --unshallow`.
#[derive(Debug)]
struct Boundary {
    commits: HashSet<String>,
    suffix: String,
}

impl Boundary {
    fn read(repo: &Repository) -> Result<Self, VaultError> {
        let path = repo.common_dir.join("shallow");
        let bytes = match fsx::read_bounded(&path, 64 << 20) {
            Ok(bytes) => bytes,
            Err(error) if error.is_not_found() => Vec::new(),
            Err(error) => return Err(error.into()),
        };
        if bytes.is_empty() {
            return Ok(Self {
                commits: HashSet::new(),
                suffix: String::new(),
            });
        }
        let digest = Sha256::digest(&bytes);
        let hash = super::hex::hex(&digest[..4]);
        let text = String::from_utf8_lossy(&bytes);
        let commits = text.lines().map(str::to_owned).collect();
        Ok(Self {
            commits,
            suffix: format!("-{hash}"),
        })
    }

    /// The part of the boundary that the history of `tip` reaches.
    async fn within(
        &self,
        repo: &Repository,
        tip: &Oid,
        cancel: &CancellationToken,
    ) -> Result<Vec<Oid>, GitError> {
        if self.commits.is_empty() {
            return Ok(Vec::new());
        }
        let done = ungrafted(repo)
            .args(["rev-list", "--max-parents=0", tip.as_str(), "--"])
            .run(cancel)
            .await?;
        let text = String::from_utf8_lossy(&done.stdout);
        let roots = text.lines().filter(|line| self.commits.contains(*line));
        Ok(roots.filter_map(|line| line.parse().ok()).collect())
    }
}

/// Grafts would cut parents off that the exported commits name.
fn ungrafted(repo: &Repository) -> super::command::GitCommand {
    repo.command().env("GIT_GRAFT_FILE", "/dev/null")
}

fn explain(repo: &Repository, tip: &Oid, error: GitError) -> VaultError {
    let promised = names(&repo.objects().join("pack"))
        .is_ok_and(|names| names.iter().any(|name| name.ends_with(".promisor")));
    if promised && matches!(error, GitError::Failed { .. }) {
        return VaultError::PartialClone {
            repository: repo.top.as_path().to_owned(),
            tip: tip.clone(),
        };
    }
    error.into()
}

fn is_pack_name(name: &str) -> bool {
    name.strip_prefix("pack-")
        .is_some_and(|hash| hash.parse::<Oid>().is_ok())
}

/// Names that are text; all of ours are.
fn names(directory: &Path) -> Result<Vec<String>, FileError> {
    let entries = fs::read_dir(directory).context("list", directory)?;
    Ok(entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect())
}

/// As git reads entries of `GIT_ALTERNATE_OBJECT_DIRECTORIES`: a path in C quotes may hold any byte.
pub(super) fn quoted(path: &Path) -> std::ffi::OsString {
    use std::fmt::Write;
    let mut out = String::from("\"");
    for &byte in path.as_os_str().as_bytes() {
        match byte {
            b'"' | b'\\' => {
                out.push('\\');
                out.push(char::from(byte));
            }
            0x20..=0x7e => out.push(char::from(byte)),
            _ => {
                let _ = write!(out, "\\{byte:03o}");
            }
        }
    }
    out.push('"');
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alternates_are_quoted() {
        use std::ffi::OsStr;
        let path = Path::new(OsStr::from_bytes(b"/a b/\"q\"\\:\n\xff"));
        assert_eq!(quoted(path), "\"/a b/\\\"q\\\"\\\\:\\012\\377\"");
    }
}
