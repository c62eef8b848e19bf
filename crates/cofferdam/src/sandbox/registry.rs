//! What sandboxes exist: one directory each in the host-owned state, with a record that is written
//! whole before the thing it describes is made. `kill -9` at any point leaves a record (or an empty
//! directory) that `list` shows and `gc` finishes.
//!
//! A sandbox's owner holds `flock` on `lock` in that directory. The kernel lets go of it when the
//! owner dies, so a free lock is the only sign of death that is trusted; pids are not.

use std::collections::BTreeSet;
use std::fs::{File, TryLockError};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::fsx::{self, Context, FileError};
use crate::git::Oid;
use crate::git::discovery::{Workspace, Workspaces, is_in};
use crate::git::own_files;
use crate::home::Home;
use crate::names::{BranchName, RepoPath, SandboxId, Slug};
use crate::process;
use crate::sandbox::written;
use crate::session::Landing;
use crate::wall::{Origin, Rule};

/// The newest record format this version writes. Older ones stay readable.
pub const VERSION: u32 = 1;
const RECORD: &str = "record.json";
const RECORD_LIMIT: u64 = 1 << 20;

/// Why the registry cannot answer.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{} cannot be read as a sandbox record: {reason}", path.display())]
    Record { path: PathBuf, reason: String },
    #[error("{} cannot be read as a list of directories: {reason}", path.display())]
    Written { path: PathBuf, reason: String },
    #[error("sandbox `{0}` is in use by another cofferdam process")]
    InUse(Slug),
    #[error("sandbox `{0}` was cleaned up by another cofferdam process")]
    Gone(Slug),
    /// Word for word as the requirements have it (S4-E1).
    #[error("Sandbox '{0}' already exists. Please choose a different name.")]
    NameTaken(Slug),
    /// Word for word as the requirements have it (S4-E13).
    #[error("Sandbox '{name}' not found.")]
    Unknown {
        name: String,
        repository: PathBuf,
        /// The newest sandbox whose branch has that name.
        on_branch: Option<Slug>,
    },
}

/// How the work of a sandbox relates to branches, with everything needed to bring it home.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Strategy {
    Head,
    MergeToHead { target: BranchName },
    Branch,
}

impl Strategy {
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Head => "head",
            Self::MergeToHead { .. } => "merge-to-head",
            Self::Branch => "branch",
        }
    }
}

/// Where the files are that the agent works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// A host directory is mounted.
    Bind,
    /// A private copy in the state directory, or in the provider's own file system.
    Copy,
}

impl Mode {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Bind => "bind",
            Self::Copy => "copy",
        }
    }
}

/// How far a sandbox's life has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Being made. No agent has run.
    Creating,
    /// An agent may have run: there may be commits to collect.
    Active,
    /// Its commits are home ([`Record::outcome`] says how); what it needed to live is being removed.
    Collected,
    /// What is left is what the user should see.
    Stopped,
    /// A setup command failed; kept for a look.
    FailedSetup,
}

impl Phase {
    /// Without an owner such a sandbox is one whose command died: `gc` finishes it.
    pub fn is_unfinished(self) -> bool {
        matches!(self, Self::Creating | Self::Active | Self::Collected)
    }
}

/// What collecting came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own, as it stands in the record"
)]
pub struct Outcome {
    pub landing: Landing,
    /// The commit that the agent's checkout ended at, if it is in the host repository.
    pub checkout: Option<Oid>,
    /// A private copy has uncommitted work.
    pub copy_is_dirty: bool,
    /// What is kept beside the landing, for a person: the sandbox stays until its user deletes it.
    #[serde(default)]
    pub beside: Option<String>,
    /// The sandbox's git directory stays as it is: commits in it could not be brought out.
    #[serde(default)]
    pub keeps_repository: bool,
    /// The agent committed uncommitted work of the user's: what it was before stays.
    #[serde(default)]
    pub took_work: bool,
    /// No agent was to start any more: what lies in the worktree is what hooks made, and nobody's work.
    #[serde(default)]
    pub no_agent: bool,
}

/// Everything that is needed to collect and dispose of a sandbox, by whoever comes next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    pub version: u32,
    pub id: SandboxId,
    pub name: Slug,
    #[serde(with = "path_text")]
    pub repository: PathBuf,
    pub provider: String,
    pub mode: Mode,
    pub strategy: Strategy,
    /// The branch that the agent works on; `None` with `head` on a detached HEAD.
    pub branch: Option<BranchName>,
    /// The branch was made for this sandbox, so disposing may remove it.
    pub branch_is_ours: bool,
    /// The commit that the agent started from.
    pub base: Oid,
    pub created: Timestamp,
    pub phase: Phase,
    /// The linked worktree, where the strategy has one.
    #[serde(with = "optional_path_text")]
    pub worktree: Option<PathBuf>,
    /// Directories made in the workspace for protection, relative to it; removed if still empty.
    #[serde(default)]
    pub made_directories: Vec<String>,
    /// Nested `.git` entries that were there before the agent, relative to the workspace.
    #[serde(default)]
    pub nested_before: Vec<PathText>,
    /// Paths that the sandbox does not see and may not change, relative to the top.
    #[serde(default)]
    pub hidden: Vec<PathText>,
    /// A branch or file that was kept for the user, in words.
    #[serde(default)]
    pub kept: Option<String>,
    /// Present from [`Phase::Collected`] on.
    #[serde(default)]
    pub outcome: Option<Outcome>,
    /// What it may reach. Absent in records of versions without a network.
    #[serde(default)]
    pub network: Option<Reach>,
}

/// What a sandbox may reach, as its record keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Reach {
    None,
    /// What the rules of its sources name; here are those of the command that started it, in their
    /// text form.
    Allowlist {
        rules: Vec<String>,
    },
    Open,
}

impl Reach {
    /// The rules of the command that started it. `None`: there is no wall, or one of them is not to
    /// be understood by this version, and fewer rules than it was given would be no answer.
    pub fn rules(&self) -> Option<Vec<Rule>> {
        let Self::Allowlist { rules } = self else {
            return None;
        };
        let parsed = rules.iter().map(|text| Rule::parse(text, Origin::Flag));
        parsed.collect::<Result<_, _>>().ok()
    }
}

impl Record {
    /// The directory that is mounted as the workspace.
    pub fn workspace(&self, home: &Home) -> PathBuf {
        match (self.mode, &self.worktree) {
            (Mode::Copy, _) => home.sandbox(self.id).join("work"),
            (Mode::Bind, Some(worktree)) => worktree.clone(),
            (Mode::Bind, None) => self.repository.clone(),
        }
    }

    /// The branch as messages name it.
    pub fn branch_text(&self) -> String {
        self.branch
            .as_ref()
            .map_or_else(|| "HEAD".to_owned(), ToString::to_string)
    }
}

/// One sandbox's state directory while this process owns it. Dropping it lets go of the lock.
#[derive(Debug)]
pub struct Owned {
    pub record: Record,
    directory: PathBuf,
    lock: File,
    /// Other locks that end with this.
    pub held: Option<File>,
}

impl Owned {
    /// Makes the state directory, takes its lock and writes the first record, in this order.
    pub fn create(home: &Home, record: Record) -> Result<Self, RegistryError> {
        fsx::private_dir(home.path())?;
        fsx::private_dir(&home.state())?;
        let directory = home.sandbox(record.id);
        let making = making(home)?;
        let taken = list(home, None)?.entries.into_iter().any(|entry| {
            entry.record.repository == record.repository && entry.record.name == record.name
        });
        if taken {
            return Err(RegistryError::NameTaken(record.name));
        }
        fsx::private_dir(&directory)?;
        let lock = open_lock(&directory, true)?;
        if !take(&lock, &directory)? {
            return Err(RegistryError::InUse(record.name));
        }
        let owned = Self {
            record,
            directory,
            lock,
            held: None,
        };
        owned.sign()?;
        owned.save()?;
        drop(making);
        Ok(owned)
    }

    /// Takes over a sandbox whose owner is dead or done.
    pub fn adopt(home: &Home, record: Record) -> Result<Self, RegistryError> {
        let directory = home.sandbox(record.id);
        let gone = |error: RegistryError| match error {
            RegistryError::File(error) if error.is_not_found() => {
                RegistryError::Gone(record.name.clone())
            }
            error => error,
        };
        // Not made anew: who removes the directory now must find it empty.
        let lock = open_lock(&directory, false).map_err(gone)?;
        if !take(&lock, &directory)? {
            return Err(RegistryError::InUse(record.name));
        }
        // What was read before the lock was ours may be old.
        let record = read(&directory).map_err(gone)?;
        let owned = Self {
            record,
            directory,
            lock,
            held: None,
        };
        owned.sign()?;
        Ok(owned)
    }

    /// Writes into the lock who holds it, for [`owner`].
    fn sign(&self) -> Result<(), RegistryError> {
        use std::os::unix::fs::FileExt;
        let pid = std::process::id();
        let start = process::start_time_of(pid).unwrap_or_default();
        let path = self.directory.join("lock");
        let signed = self.lock.set_len(0).and_then(|()| {
            self.lock
                .write_all_at(format!("{pid} {start}\n").as_bytes(), 0)
        });
        Ok(signed.context("write", &path)?)
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Writes the record; readers see the old one or the new one.
    pub fn save(&self) -> Result<(), RegistryError> {
        let path = self.directory.join(RECORD);
        let bytes = serde_json::to_vec_pretty(&self.record).map_err(|e| RegistryError::Record {
            path: path.clone(),
            reason: e.to_string(),
        })?;
        Ok(fsx::write_private(&path, &bytes)?)
    }

    pub fn set_phase(&mut self, phase: Phase) -> Result<(), RegistryError> {
        self.record.phase = phase;
        self.save()
    }

    /// Removes the state directory: the sandbox is no more. The record goes last but one, the lock
    /// last, so that a death in between still shows it.
    pub fn forget(self) -> Result<(), RegistryError> {
        for entry in read_dir(&self.directory)? {
            if entry != RECORD && entry != "lock" {
                fsx::remove_tree_or_file(&self.directory.join(entry))?;
            }
        }
        fsx::remove_file_if_exists(&self.directory.join(RECORD))?;
        Ok(fsx::remove_tree(&self.directory)?)
    }
}

/// One line of the registry: a record and whether somebody owns it now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub record: Record,
    pub in_use: bool,
}

/// What the state directory holds.
#[derive(Debug, Default)]
pub struct Listing {
    pub entries: Vec<Entry>,
    /// State directories without a record: their maker died before it could write one.
    pub unfinished: Vec<PathBuf>,
    /// Records that cannot be read, with the reason. Nothing of them is ever deleted by itself.
    pub unreadable: Vec<RegistryError>,
}

/// The ids of all state directories, also of those whose records cannot be read.
pub fn ids(home: &Home) -> Result<BTreeSet<SandboxId>, RegistryError> {
    match read_dir(&home.state()) {
        Err(RegistryError::File(error)) if error.is_not_found() => Ok(BTreeSet::new()),
        names => Ok(names?.iter().filter_map(|name| name.parse().ok()).collect()),
    }
}

/// Reads all records, oldest first; only those of `repository` where it is given.
pub fn list(home: &Home, repository: Option<&RepoPath>) -> Result<Listing, RegistryError> {
    let mut listing = Listing::default();
    let state = home.state();
    let names = match read_dir(&state) {
        Err(RegistryError::File(error)) if error.is_not_found() => return Ok(listing),
        names => names?,
    };
    for name in names {
        let directory = state.join(&name);
        if name.parse::<SandboxId>().is_err() {
            continue;
        }
        match read(&directory) {
            Ok(record) => {
                if repository.is_none_or(|repo| repo.as_path() == record.repository) {
                    let in_use = in_use(&directory);
                    listing.entries.push(Entry { record, in_use });
                }
            }
            Err(RegistryError::File(error)) if error.is_not_found() => {
                if !in_use(&directory) && directory.is_dir() {
                    listing.unfinished.push(directory);
                }
            }
            Err(error) => listing.unreadable.push(error),
        }
    }
    listing
        .entries
        .sort_by_key(|entry| (entry.record.created, entry.record.id));
    Ok(listing)
}

/// The directories in which agents are at work, or were without having been collected since.
pub fn workspaces(home: &Home) -> Result<Workspaces, RegistryError> {
    let entries = list(home, None)?.entries.into_iter();
    // Before that no agent has run, and after it what one left was moved out.
    let active = entries.filter(|entry| entry.record.phase == Phase::Active);
    Ok(Workspaces::new(
        active
            .map(|Entry { record, in_use }| Workspace {
                directory: record.workspace(home),
                sandbox: record.name,
                nested_before: record
                    .nested_before
                    .into_iter()
                    .map(|path| path.0)
                    .collect(),
                in_use,
            })
            .collect(),
    ))
}

/// What no program of the host's may lie in or be linked through where a sandbox shows it, nor show: Cofferdam's
/// own directory, the repository at `top`, those of all records, and those of sandboxes that are no more
/// ([`written`]), because agents write there. A repository that holds the user's whole home (its agents work in
/// private copies) would leave no programs at all.
pub fn unseen(
    home: &Home,
    top: &Path,
    user_home: Option<&Path>,
) -> Result<Vec<PathBuf>, RegistryError> {
    let user_home = user_home.and_then(|home| home.canonicalize().ok());
    let own = home.path();
    let mut unseen = BTreeSet::from([own.to_owned()]);
    let earlier = written::read(home)?;
    let records = list(home, None)?.entries.into_iter();
    let theirs = records.flat_map(|Entry { record, .. }| {
        let workspace = record.workspace(home);
        [record.repository, workspace]
    });
    let now = std::iter::once(top.to_owned()).chain(theirs);
    for directory in now.chain(earlier) {
        let is_home = user_home
            .as_ref()
            .is_some_and(|home| home.starts_with(&directory));
        if !is_home && !directory.starts_with(own) {
            unseen.insert(directory);
        }
    }
    Ok(unseen.into_iter().collect())
}

/// Why nobody else may touch the files in the directory `top`: an agent is at work there, above it or below it, or
/// what one left is not collected. In our own directory in it are worktrees, where no commit has a file.
pub fn barred(home: &Home, top: &Path) -> Option<String> {
    let shown = |path: &Path| crate::text::printable(&path.to_string_lossy());
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let at = shown(top);
    let unknown = |error: &RegistryError| format!("nobody can say who is at work in {at}: {error}");
    let listing = match list(home, None) {
        Ok(listing) => listing,
        Err(error) => return Some(unknown(&error)),
    };
    let top = real(top);
    let own = top.join(own_files::DIRECTORY);
    let reaches = |workspace: &Path| {
        is_in(&top, workspace) || (is_in(workspace, &top) && !workspace.starts_with(&own))
    };
    let active = listing
        .entries
        .into_iter()
        .filter(|Entry { record, .. }| record.phase == Phase::Active && record.mode == Mode::Bind);
    let found = active
        .map(|entry| (real(&entry.record.workspace(home)), entry))
        .find(|(workspace, _)| reaches(workspace));
    let Some((at, there)) = found else {
        let error = listing.unreadable.first()?;
        let why = unknown(error);
        return Some(format!("{why}; {}", unreadable_hint(home)));
    };
    let at = shown(&at);
    Some(if there.in_use {
        format!("another sandbox is at work in {at}")
    } else {
        let name = there.record.name;
        format!("what sandbox `{name}` left in {at} is not collected: `cofferdam gc` does it")
    })
}

/// What is to be done about a record that cannot be read.
pub fn unreadable_hint(home: &Home) -> String {
    format!(
        "use the version of cofferdam that wrote it, or move its directory out of {}",
        home.state().display()
    )
}

/// The sandbox of `repository` that is called `name`: its name, its id, or what becomes its name (`--name feat/x`
/// made `feat-x`). A look-alike in another repository is never found, nor one whose name only resembles the branch
/// of another sandbox.
pub fn find(home: &Home, repository: &RepoPath, name: &str) -> Result<Entry, RegistryError> {
    let mut entries = list(home, Some(repository))?.entries;
    let called =
        |entry: &Entry| entry.record.name.as_str() == name || entry.record.id.to_string() == name;
    if let Some(at) = entries.iter().rposition(called) {
        return Ok(entries.swap_remove(at));
    }
    let on_branch = entries
        .iter()
        .rfind(|entry| entry.record.branch_text() == name)
        .map(|entry| entry.record.name.clone());
    let slug = Slug::sandbox_name(name).ok();
    let meant = |entry: &Entry| slug.as_ref() == Some(&entry.record.name);
    if let Some(at) = entries.iter().rposition(meant)
        && on_branch
            .as_ref()
            .is_none_or(|other| *other == entries[at].record.name)
    {
        return Ok(entries.swap_remove(at));
    }
    Err(RegistryError::Unknown {
        name: name.escape_debug().to_string(),
        repository: repository.as_path().to_owned(),
        on_branch,
    })
}

/// Held while a state directory has no record yet, by who makes it and by who removes dead ones; and while [`written`]
/// changes its list.
pub(super) fn making(home: &Home) -> Result<File, RegistryError> {
    let path = home.path().join("lock");
    let lock = open_lock(home.path(), true)?;
    // It is held for moments; one that is held longer is held by a stopped process.
    for _ in 0..100 {
        if take(&lock, home.path())? {
            return Ok(lock);
        }
    }
    let source = std::io::Error::other("another cofferdam process holds it");
    Err(FileError::new("lock", path, source).into())
}

/// Removes state directories whose maker died before it could write a record. Returns them.
pub fn remove_unfinished(home: &Home) -> Result<Vec<PathBuf>, RegistryError> {
    if !home.state().is_dir() {
        return Ok(Vec::new());
    }
    let making = making(home)?;
    let unfinished = list(home, None)?.unfinished;
    for directory in &unfinished {
        fsx::remove_tree(directory)?;
    }
    drop(making);
    Ok(unfinished)
}

/// The process that owns the sandbox now, where it still runs: never a stranger that got its number.
pub fn owner(home: &Home, id: SandboxId) -> Option<u32> {
    let directory = home.sandbox(id);
    if !in_use(&directory) {
        return None;
    }
    let text = fsx::read_bounded(&directory.join("lock"), 100).ok()?;
    let text = String::from_utf8(text).ok()?;
    let (pid, start) = text.trim_end().split_once(' ')?;
    let (pid, start) = (pid.parse().ok()?, start.parse().ok()?);
    process::is_alive(pid, start).then_some(pid)
}

/// Whether a process owns the sandbox now.
pub fn is_in_use(home: &Home, id: SandboxId) -> bool {
    in_use(&home.sandbox(id))
}

fn read(directory: &Path) -> Result<Record, RegistryError> {
    let path = directory.join(RECORD);
    let bytes = fsx::read_bounded(&path, RECORD_LIMIT)?;
    let refuse = |reason: String| RegistryError::Record {
        path: path.clone(),
        reason,
    };
    let record: Record = serde_json::from_slice(&bytes).map_err(|e| refuse(e.to_string()))?;
    if record.version > VERSION {
        return Err(refuse(format!(
            "it was written by a newer version (format {})",
            record.version
        )));
    }
    if directory
        .file_name()
        .is_none_or(|name| name != record.id.to_string().as_str())
    {
        return Err(refuse("its id is not the directory's name".to_owned()));
    }
    Ok(record)
}

fn open_lock(directory: &Path, make: bool) -> Result<File, RegistryError> {
    let path = directory.join("lock");
    let file = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .create(make)
        .truncate(false)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW)
        .open(&path)
        .context("open", &path)?;
    Ok(file)
}

/// Takes the lock, or says that somebody has it. One who only looks has it for a moment.
fn take(lock: &File, directory: &Path) -> Result<bool, RegistryError> {
    for _ in 0..20 {
        match lock.try_lock() {
            Ok(()) => return Ok(true),
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(2)),
            Err(TryLockError::Error(source)) => {
                return Err(FileError::new("lock", directory.join("lock"), source).into());
            }
        }
    }
    Ok(false)
}

fn in_use(directory: &Path) -> bool {
    let Ok(file) = File::open(directory.join("lock")) else {
        return false;
    };
    // A shared lock: two commands that only look do not disturb each other.
    matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock))
}

fn read_dir(path: &Path) -> Result<Vec<String>, RegistryError> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(path).context("read", path)? {
        let entry = entry.context("read", path)?;
        if let Ok(name) = entry.file_name().into_string() {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// A relative path in a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PathText(#[serde(with = "path_text")] pub PathBuf);

/// Paths as JSON text: UTF-8 as it is, other bytes and the backslash as `\xNN`.
mod path_text {
    use std::ffi::OsString;
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    use std::path::{Path, PathBuf};

    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn encode(path: &Path) -> String {
        let mut text = String::new();
        for chunk in path.as_os_str().as_bytes().utf8_chunks() {
            text.push_str(&chunk.valid().replace('\\', "\\x5c"));
            for byte in chunk.invalid() {
                text.push_str(&format!("\\x{byte:02x}"));
            }
        }
        text
    }

    pub(super) fn decode(text: &str) -> Option<PathBuf> {
        let mut bytes = Vec::with_capacity(text.len());
        let mut parts = text.split("\\x");
        bytes.extend_from_slice(parts.next()?.as_bytes());
        for part in parts {
            bytes.push(u8::from_str_radix(part.get(..2)?, 16).ok()?);
            bytes.extend_from_slice(part.get(2..)?.as_bytes());
        }
        Some(OsString::from_vec(bytes).into())
    }

    pub(super) fn serialize<S: Serializer>(path: &Path, out: S) -> Result<S::Ok, S::Error> {
        out.serialize_str(&encode(path))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<PathBuf, D::Error> {
        let text = String::deserialize(input)?;
        decode(&text).ok_or_else(|| serde::de::Error::custom("a path with a bad escape"))
    }
}

mod optional_path_text {
    use std::path::PathBuf;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[expect(clippy::ref_option, reason = "serde's `with` calls it so")]
    pub(super) fn serialize<S: Serializer>(
        path: &Option<PathBuf>,
        out: S,
    ) -> Result<S::Ok, S::Error> {
        path.as_deref().map(super::path_text::encode).serialize(out)
    }

    pub(super) fn deserialize<'de, D>(input: D) -> Result<Option<PathBuf>, D::Error>
    where
        D: Deserializer<'de>,
    {
        let Some(text) = Option::<String>::deserialize(input)? else {
            return Ok(None);
        };
        let path = super::path_text::decode(&text);
        path.map(Some)
            .ok_or_else(|| serde::de::Error::custom("a path with a bad escape"))
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    fn record(name: &str, repository: &Path) -> Record {
        Record {
            version: VERSION,
            id: SandboxId::random().unwrap(),
            name: Slug::from_text(name).unwrap(),
            repository: repository.to_owned(),
            provider: "native".into(),
            mode: Mode::Bind,
            strategy: Strategy::Branch,
            branch: Some("work".parse().unwrap()),
            branch_is_ours: true,
            base: "1".repeat(40).parse().unwrap(),
            created: Timestamp::now(),
            phase: Phase::Creating,
            worktree: Some(repository.join("w")),
            made_directories: vec![],
            nested_before: vec![PathText(PathBuf::from("a/.git"))],
            hidden: vec![PathText(PathBuf::from("secret"))],
            kept: None,
            outcome: None,
            network: None,
        }
    }

    #[test]
    fn records_live_and_die_with_their_lock() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::new(dir.path().join("home"));
        let odd = dir.path().join(OsStr::from_bytes(b"sp ace\n\xff\\x41"));
        std::fs::create_dir(&odd).unwrap();
        let repo = RepoPath::resolve(&odd).unwrap();
        let mut owned = Owned::create(&home, record("one", repo.as_path())).unwrap();
        let entry = find(&home, &repo, "one").unwrap();
        assert!(entry.in_use);
        assert_eq!(entry.record, owned.record);
        assert!(matches!(
            Owned::adopt(&home, entry.record),
            Err(RegistryError::InUse(_))
        ));
        owned.set_phase(Phase::Active).unwrap();
        drop(owned);
        let entry = find(&home, &repo, "one").unwrap();
        assert!(!entry.in_use);
        assert_eq!(entry.record.phase, Phase::Active);
        Owned::adopt(&home, entry.record).unwrap().forget().unwrap();
        assert!(find(&home, &repo, "one").is_err());
        assert!(list(&home, None).unwrap().unfinished.is_empty());
    }

    #[test]
    fn look_alikes_and_strangers_are_not_found() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::new(dir.path().join("home"));
        let (a, b) = (dir.path().join("a"), dir.path().join("b"));
        std::fs::create_dir_all(&a).unwrap();
        std::fs::create_dir_all(&b).unwrap();
        let owned = Owned::create(&home, record("same", &a.canonicalize().unwrap())).unwrap();
        assert!(find(&home, &RepoPath::resolve(&b).unwrap(), "same").is_err());
        // A record moved under another id, a broken one and an empty directory.
        let other = home.sandbox(SandboxId::random().unwrap());
        std::fs::create_dir(&other).unwrap();
        std::fs::copy(owned.directory().join(RECORD), other.join(RECORD)).unwrap();
        let empty = home.sandbox(SandboxId::random().unwrap());
        std::fs::create_dir(&empty).unwrap();
        let listing = list(&home, None).unwrap();
        assert_eq!(listing.entries.len(), 1);
        assert_eq!(listing.unreadable.len(), 1);
        assert_eq!(listing.unfinished, vec![empty]);
    }
}
