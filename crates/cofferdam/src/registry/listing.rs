//! What sandboxes there are, and whether somebody owns them now.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::belongs::SameRepository;
use super::error::RegistryError;
use super::format;
use super::lock::{in_use, making};
use super::record::{Mode, Phase, Record, Setup};
use crate::fsx::{self, Context};
use crate::git::discovery::{Workspace, Workspaces, is_in};
use crate::git::land::stop_first;
use crate::git::own_files;
use crate::home::Home;
use crate::names::{RepoPath, SandboxId, Slug};
use crate::process;
use crate::registry::written;

pub(super) const RECORD: &str = "record.json";
const RECORD_LIMIT: u64 = 1 << 20;

/// One line of the registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// What is known of the sandbox.
    pub record: Record,
    /// A process owns it now, or it lives on by itself.
    pub in_use: bool,
}

impl Entry {
    /// Whether it lives on, or somebody is making it: nobody has ended it. What a maker that died has left is no sandbox any more.
    pub fn is_there(&self) -> bool {
        self.record.lives_on() || (self.in_use && self.record.setup == Setup::Making)
    }
}

/// What the state directory holds.
#[derive(Debug, Default)]
pub struct Listing {
    /// One for each sandbox whose record can be read.
    pub entries: Vec<Entry>,
    /// State directories without a record: their maker died before it could write one.
    pub unfinished: Vec<PathBuf>,
    /// Records that cannot be read, with the reason. Nothing of them is ever deleted by itself.
    pub unreadable: Vec<RegistryError>,
}

impl Listing {
    /// The record that cannot be read and seems to be of the sandbox of this name, or has this id. Its version knows whether
    /// it is: nothing is done in its place.
    pub(super) fn seems_called(
        self,
        name: &str,
        is_of: &SameRepository<'_>,
    ) -> Option<RegistryError> {
        self.unreadable.into_iter().find(|error| {
            let RegistryError::Record { path, .. } = error else {
                return false;
            };
            let id = path.parent().and_then(Path::file_name);
            if id.is_some_and(|id| id == name) {
                return true;
            }
            let bytes = fsx::read_bounded(path, RECORD_LIMIT).unwrap_or_default();
            format::seems(&bytes).is_some_and(|(called, repository)| {
                called == name && repository.is_none_or(|top| is_of.is_at(top.as_ref()))
            })
        })
    }
}

/// The ids of all state directories, also of those whose records cannot be read.
pub fn ids(home: &Home) -> Result<BTreeSet<SandboxId>, RegistryError> {
    match read_dir(&home.state()) {
        Err(RegistryError::File(error)) if error.is_not_found() => Ok(BTreeSet::new()),
        names => Ok(names?.iter().filter_map(|name| name.parse().ok()).collect()),
    }
}

/// Reads all records, oldest first; only those of `repository` where it is given, whichever of its checkouts they were
/// made from.
pub fn list(home: &Home, repository: Option<&RepoPath>) -> Result<Listing, RegistryError> {
    let mut listing = Listing::default();
    let state = home.state();
    let names = match read_dir(&state) {
        Err(RegistryError::File(error)) if error.is_not_found() => return Ok(listing),
        names => names?,
    };
    let is_of = repository.map(|top| SameRepository::new(top.as_path()));
    for name in names {
        let directory = state.join(&name);
        if name.parse::<SandboxId>().is_err() {
            continue;
        }
        match read(&directory) {
            Ok(record) => {
                if is_of.as_ref().is_none_or(|same| same.has(&record)) {
                    let in_use = record.lives_on() || in_use(&directory);
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
    let all = active.flat_map(|Entry { record, in_use }| {
        let beside = record.written_beside().map(|path| Workspace {
            directory: path.clone(),
            sandbox: record.name.clone(),
            nested_before: Vec::new(),
            is_beside: true,
            in_use,
        });
        let mut all: Vec<_> = beside.collect();
        all.push(Workspace {
            directory: record.workspace(home),
            sandbox: record.name,
            nested_before: record
                .nested_before
                .into_iter()
                .map(|path| path.0)
                .collect(),
            is_beside: false,
            in_use,
        });
        all
    });
    Ok(Workspaces::new(all.collect()))
}

/// Where agents of other sandboxes than `id` write now, or wrote without having been collected since: names of sandboxes,
/// with directories and files of this machine that are not in Cofferdam's own directory.
pub fn writers(home: &Home, id: SandboxId) -> Result<Vec<(Slug, PathBuf)>, RegistryError> {
    let entries = list(home, None)?.entries.into_iter();
    let others = entries
        .map(|entry| entry.record)
        .filter(|record| record.phase == Phase::Active && record.id != id);
    let all = others.flat_map(|record| {
        let mut places: Vec<PathBuf> = record.written_beside().cloned().collect();
        places.push(record.workspace(home));
        places.retain(|path| !path.starts_with(home.path()));
        let of = move |path| (record.name.clone(), path);
        places.into_iter().map(of)
    });
    Ok(all.collect())
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
        let beside: Vec<_> = record.written_beside().cloned().collect();
        [record.repository, workspace].into_iter().chain(beside)
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

/// The sandboxes whose programs can write files in the directory `top`, above it or below it, with where they do. In our own directory in
/// it are worktrees, where no commit has a file. Also those that live on and do not run now.
pub fn occupants(home: &Home, top: &Path) -> Result<Vec<(PathBuf, Entry)>, RegistryError> {
    Ok(occupying(list(home, None)?.entries, home, top))
}

fn occupying(entries: Vec<Entry>, home: &Home, top: &Path) -> Vec<(PathBuf, Entry)> {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let top = real(top);
    let own = top.join(own_files::DIRECTORY);
    let reaches = |workspace: &Path| {
        is_in(&top, workspace) || (is_in(workspace, &top) && !workspace.starts_with(&own))
    };
    let active = entries
        .into_iter()
        .filter(|Entry { record, .. }| record.phase == Phase::Active && record.mode == Mode::Bind);
    active
        .map(|entry| (real(&entry.record.workspace(home)), entry))
        .filter(|(workspace, _)| reaches(workspace))
        .collect()
}

/// Why nobody else may touch the files in the directory `top`: an agent is at work there, above it or below it, or
/// what one left is not collected. `is_up`: whether one that lives on runs now; where it does not, nobody is at work.
pub fn barred(home: &Home, top: &Path, is_up: &dyn Fn(&Record) -> bool) -> Option<String> {
    let shown = |path: &Path| crate::text::printable(&path.to_string_lossy());
    let unknown = |error: &RegistryError| {
        let at = shown(top);
        format!("nobody can say who is at work in {at}: {error}")
    };
    let listing = match list(home, None) {
        Ok(listing) => listing,
        Err(error) => return Some(unknown(&error)),
    };
    let (living, others): (Vec<_>, Vec<_>) = occupying(listing.entries, home, top)
        .into_iter()
        .filter(|(_, entry)| !entry.record.lives_on() || is_up(&entry.record))
        .partition(|(_, entry)| entry.record.lives_on());
    // Who ends by itself is waited for first.
    if let Some((at, there)) = others.first() {
        let (at, name) = (shown(at), &there.record.name);
        return Some(if there.in_use {
            format!("another sandbox is at work in {at}")
        } else {
            format!("what sandbox `{name}` left in {at} is not collected: `cofferdam gc` does it")
        });
    }
    // Those beside it that stand still meanwhile are up for nobody.
    let Some((at, _)) = living.first() else {
        let error = listing.unreadable.first()?;
        let why = unknown(error);
        return Some(format!("{why}; {}", unreadable_hint(home)));
    };
    let mut names: Vec<String> = living
        .iter()
        .map(|(_, entry)| entry.record.name.to_string())
        .collect();
    names.sort_unstable();
    let are = match &names[..] {
        [one] => format!("sandbox `{one}` is"),
        more => format!("sandboxes `{}` are", more.join("`, `")),
    };
    let (at, first) = (shown(at), stop_first(&names.join(" ")));
    Some(format!("{are} at work in {at}: {first}"))
}

/// What is to be done about a record that cannot be read.
fn unreadable_hint(home: &Home) -> String {
    format!(
        "use the version of cofferdam that wrote it, or move its directory out of {}",
        home.state().display()
    )
}

/// The sandbox of `repository` that is called `name`: its name, its id, or what becomes its name (`--name feat/x`
/// made `feat-x`). A look-alike in another repository is never found, nor one whose name only resembles the branch
/// of another sandbox.
pub fn find(home: &Home, repository: &RepoPath, name: &str) -> Result<Entry, RegistryError> {
    let mut listing = list(home, Some(repository))?;
    let mut entries = std::mem::take(&mut listing.entries);
    // Those of this checkout before those of others, which may have the same names.
    entries.sort_by_key(|entry| entry.record.repository == repository.as_path());
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
    let called = slug.as_ref().map_or(name, Slug::as_str);
    let is_of = SameRepository::new(repository.as_path());
    if let Some(unreadable) = listing.seems_called(called, &is_of) {
        return Err(unreadable);
    }
    let others = list(home, None)?.entries.into_iter();
    let elsewhere = others.map(|entry| entry.record).rfind(|record| {
        (slug.as_ref() == Some(&record.name) || record.id.to_string() == name)
            && record.repository != repository.as_path()
    });
    Err(RegistryError::Unknown {
        name: name.escape_debug().to_string(),
        repository: repository.as_path().to_owned(),
        on_branch,
        elsewhere: elsewhere.map(|record| record.repository.into_boxed_path()),
    })
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

/// The process whose sandbox it is now, where it still runs: never a stranger that got its number, nor one that only clears
/// up.
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

/// The record as it is now.
pub fn load(home: &Home, id: SandboxId) -> Result<Record, RegistryError> {
    read(&home.sandbox(id))
}

/// Whether a process owns the sandbox now, or it lives on by itself.
pub fn is_in_use(home: &Home, id: SandboxId) -> bool {
    let directory = home.sandbox(id);
    in_use(&directory) || read(&directory).is_ok_and(|record| record.lives_on())
}

pub(super) fn read(directory: &Path) -> Result<Record, RegistryError> {
    let path = directory.join(RECORD);
    let bytes = fsx::read_bounded(&path, RECORD_LIMIT)?;
    let refuse = |reason: String| RegistryError::Record {
        path: path.clone(),
        reason,
    };
    let record = format::parse(&bytes).map_err(|error| refuse(error.to_string()))?;
    if directory
        .file_name()
        .is_none_or(|name| name != record.id.to_string().as_str())
    {
        return Err(refuse("its id is not the directory's name".to_owned()));
    }
    Ok(record)
}

pub(super) fn read_dir(path: &Path) -> Result<Vec<String>, RegistryError> {
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
