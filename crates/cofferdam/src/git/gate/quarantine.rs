//! Where a pack waits until it is trusted: a directory below the repository's `objects/`, so that
//! it moves in by rename. A lock on the directory tells the living from the dead.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::fsx::lock::{Lock, open_directory, try_hold};
use crate::fsx::{self, Context, FileError};
use crate::git::Repository;
use crate::git::command::GitCommand;
use crate::names::SandboxId;

const PREFIX: &str = "incoming-cofferdam-";

/// A quarantine that exists. Dropping it removes it with everything that is still in it.
#[derive(Debug)]
pub(super) struct Quarantine {
    path: PathBuf,
    alternate: PathBuf,
    /// Holds the lock.
    _lock: File,
}

impl Quarantine {
    pub(super) fn create(
        repo: &Repository,
        id: SandboxId,
        alternate: &Path,
    ) -> Result<Self, FileError> {
        let objects = repo.objects();
        for _ in 0..20 {
            let random = SandboxId::random().context("find random numbers for", &objects)?;
            let path = objects.join(format!("{PREFIX}{id}-{}", random.short()));
            match fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => {}
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(FileError::new("create", path, error)),
            }
            // Between the creation and the lock a `gc` may have taken it for a dead one.
            if let Some(lock) = lock(&path) {
                fs::create_dir(path.join("pack")).context("create", &path)?;
                return Ok(Self {
                    path,
                    alternate: alternate.to_owned(),
                    _lock: lock,
                });
            }
        }
        let source = std::io::Error::other("every name was taken");
        Err(FileError::new("create a quarantine below", objects, source))
    }

    pub(super) fn pack_dir(&self) -> PathBuf {
        self.path.join("pack")
    }

    /// A call that sees the quarantine and the exported history, and no other object of the
    /// repository: what a sandbox never received cannot be referenced.
    pub(super) fn command(&self, repo: &Repository) -> GitCommand {
        repo.command()
            .env("GIT_OBJECT_DIRECTORY", &self.path)
            .env("GIT_ALTERNATE_OBJECT_DIRECTORIES", quoted(&self.alternate))
    }

    /// Moves the pack `name` (hexadecimal digits) into the repository. The index comes last: it
    /// makes the pack visible. The `.keep` file, which goes first, holds off a concurrent repack
    /// until a ref reaches the commits; returns its path if it was made by us.
    pub(super) fn migrate(
        &self,
        repo: &Repository,
        name: &str,
    ) -> Result<Option<PathBuf>, FileError> {
        let target = repo.objects().join("pack");
        fs::create_dir_all(&target).context("create", &target)?;
        let file = |kind: &str| format!("pack-{name}.{kind}");
        if target.join(file("idx")).exists() {
            // The same content is there already, maybe with a `.keep` of the user's own.
            return Ok(None);
        }
        for kind in ["keep", "pack", "rev", "idx"] {
            let from = self.pack_dir().join(file(kind));
            let to = target.join(file(kind));
            match fs::rename(&from, &to) {
                Ok(()) => {}
                Err(error) if kind == "rev" && error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(FileError::new("move the pack to", to, error)),
            }
        }
        Ok(Some(target.join(file("keep"))))
    }
}

impl Drop for Quarantine {
    fn drop(&mut self) {
        let _ = fsx::remove_tree(&self.path);
    }
}

/// Locks a directory that still exists under its name.
fn lock(path: &Path) -> Option<File> {
    let lock = open_directory(path).ok()?;
    try_hold(&lock, Lock::Exclusive, path).ok()?.then_some(())?;
    let held = lock.metadata().ok()?;
    let found = fs::symlink_metadata(path).ok()?;
    (found.ino() == held.ino() && found.dev() == held.dev()).then_some(lock)
}

/// As GIT_ALTERNATE_OBJECT_DIRECTORIES wants it: the list separator and quotes need C quoting.
fn quoted(path: &Path) -> OsString {
    let bytes = path.as_os_str().as_bytes();
    let mut out = vec![b'"'];
    for &byte in bytes {
        match byte {
            b'"' | b'\\' => out.extend([b'\\', byte]),
            b'\n' => out.extend(b"\\n"),
            _ => out.push(byte),
        }
    }
    out.push(b'"');
    OsString::from_vec(out)
}

/// Removes the quarantines of runs that are dead, and what they left half moved. Never touches what
/// another program made. Returns what was removed.
pub fn remove_stale(repo: &Repository) -> Result<Vec<PathBuf>, FileError> {
    let objects = repo.objects();
    let mut gone = Vec::new();
    for entry in fs::read_dir(&objects).context("list", &objects)?.flatten() {
        if !entry.file_name().as_bytes().starts_with(PREFIX.as_bytes()) {
            continue;
        }
        let path = entry.path();
        if lock(&path).is_some() {
            fsx::remove_tree(&path)?;
            gone.push(path);
        }
    }
    let packs = objects.join("pack");
    let Ok(entries) = fs::read_dir(&packs) else {
        return Ok(gone);
    };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.extension().is_none_or(|kind| kind != "keep") {
            continue;
        }
        let Ok(text) = fsx::read_bounded(&path, 200) else {
            continue;
        };
        if keeper(&text).is_some_and(|(pid, start)| !crate::process::is_alive(pid, start)) {
            // Killed while it moved the files in: without its index the pack is only litter.
            if !path.with_extension("idx").exists() {
                fsx::remove_file_if_exists(&path.with_extension("rev"))?;
                fsx::remove_file_if_exists(&path.with_extension("pack"))?;
            }
            fsx::remove_file_if_exists(&path)?;
            gone.push(path);
        }
    }
    Ok(gone)
}

/// The text of our `.keep` files; without line feed, because it travels as an option.
pub(super) fn keep_text(id: SandboxId) -> String {
    let pid = std::process::id();
    format!(
        "cofferdam {id} {pid} {}",
        crate::process::start_time_of(pid).unwrap_or(0)
    )
}

fn keeper(text: &[u8]) -> Option<(u32, u64)> {
    let text = std::str::from_utf8(text).ok()?;
    let mut words = text.split_ascii_whitespace();
    if words.next() != Some("cofferdam") {
        return None;
    }
    words.next()?.parse::<SandboxId>().ok()?;
    Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
}
