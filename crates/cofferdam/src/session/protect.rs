//! What of a workspace a sandbox may not write, and the directories that are made for its time so that nobody can
//! put something in their place.

use std::collections::BTreeSet;
use std::os::fd::AsFd;
use std::path::{Component, Path, PathBuf};

use rustix::io::Errno;

use super::emitter::Emitter;
use super::event::Notice;
use super::plan::error::PlanError;
use super::{hide, shared};
use crate::config::Merged;
use crate::fsx::{self, Context, FileError, beneath};
use crate::git::own_files;
use crate::git::steering::InTree;
use crate::git::{below, nested};
use crate::home::Home;
use crate::registry::{self, Mode, Owned, PathText, RegistryError, Strategy};

/// Made for a sandbox's time where it is missing: what covers it needs a place to lie on.
const OWN: &str = own_files::DIRECTORY;
/// Read-only where it is there. Where it is not, nothing is made but for a dev sandbox, in which a person installs what puts hooks
/// there: what an agent puts there runs only if the user's git is told to look there (`core.hooksPath`), and then it is protected by that.
const HOOKS: &str = ".husky";

/// In the state directory: what of the workspace was read-only when the sandbox was started.
const STEERING: &str = "read-only.json";
const STEERING_LIMIT: u64 = 4 << 20;

/// A path that the configuration protects, made plain. None: no sandbox may change it anyway.
pub(super) fn plain(top: &Path, path: &Path) -> Option<Result<PathBuf, PlanError>> {
    if path.components().eq([Component::Normal(OWN.as_ref())]) {
        return None;
    }
    let refuse = |why| PlanError::Protect {
        path: path.to_owned(),
        why,
    };
    Some(below::plain(top, path).map_err(refuse))
}

/// What nobody may change: what was said before, and what the configuration says by now. One that cannot be protected is told by
/// whoever plans with it.
pub(super) fn by_now(known: &[PathText], config: &Merged, top: &Path) -> Vec<PathText> {
    let mut all = known.to_vec();
    let said = config.protect.iter();
    for path in said.filter_map(|one| plain(top, &one.value)?.ok()) {
        if !all.iter().any(|known| known.0 == path) {
            all.push(PathText(path));
        }
    }
    all
}

/// What protection is made of, relative to the workspace.
#[derive(Debug)]
pub(super) struct Protection {
    /// Gitlinks; at a later start whatever was read-only.
    pub known: Vec<PathBuf>,
    /// Nested git directories that are no agent's.
    pub before: BTreeSet<PathBuf>,
    /// What no commit may change either.
    pub named: Vec<PathText>,
    pub steering: InTree,
}

/// Makes the directories that protection needs and lists what is mounted read-only: them, gitlinks, nested git
/// directories, and what the user's git runs or obeys. What was there before is remembered, so that new ones can be told later.
pub(super) fn protect<E: From<RegistryError> + From<FileError>>(
    owned: &mut Owned,
    home: &Home,
    protection: Protection,
    events: &Emitter,
) -> Result<Vec<PathBuf>, E> {
    if owned.record.mode != Mode::Bind {
        return Ok(Vec::new());
    }
    let Protection {
        known,
        before,
        named,
        steering,
    } = protection;
    let workspace = owned.record.workspace(home);
    let mut made_before = made_by_others(owned, home)?;
    made_before.extend(owned.record.made_directories.iter().map(PathBuf::from));
    owned.record.nested_before = before.iter().cloned().map(PathText).collect();
    let mut read_only: Vec<PathBuf> = known
        .into_iter()
        .filter(|path| workspace.join(path).is_dir())
        .collect();
    for path in before {
        // Whatever is in a bare repository belongs to it.
        let path = match path.parent() {
            Some(parent) if !nested::is_dot_git(&path) => parent.to_owned(),
            _ => path,
        };
        if !read_only.iter().any(|above| path.starts_with(above)) {
            read_only.push(path);
        }
    }
    let is_missing = |path: &Path| workspace.join(path).symlink_metadata().is_err();
    let made = |path: &Path| path.to_str().map(ToOwned::to_owned);
    // Who lives there for days makes what is not there yet: it is there before, and nobody's to write (S3-65).
    // Something with an extension would be a file, and is for the gate.
    let lived_in: BTreeSet<PathBuf> = match owned.record.dev {
        Some(_) => {
            let named = named.iter().map(|path| path.0.clone());
            let all = named.filter(|path| path.extension().is_none());
            let all = all.chain([HOOKS.into()]);
            all.filter(|path| may_be_made(&workspace, path)).collect()
        }
        None => BTreeSet::new(),
    };
    let above = steering
        .directories
        .iter()
        .chain(&lived_in)
        .flat_map(|path| path.ancestors());
    let above: BTreeSet<&Path> = above
        .filter(|path| !path.as_os_str().is_empty())
        .chain([Path::new(OWN)])
        .filter(|path| is_missing(path) || made_before.contains(*path))
        .collect();
    // They are removed in this order.
    owned.record.made_directories = above.iter().rev().filter_map(|path| made(path)).collect();
    owned.save()?;
    let root = beneath::root(&workspace).context("open", &workspace)?;
    for path in &above {
        make(&root, &workspace, path)?;
    }
    let is_covered =
        |read_only: &[PathBuf], path: &Path| read_only.iter().any(|above| path.starts_with(above));
    let there = workspace.join(HOOKS).symlink_metadata();
    if there.is_ok_and(|found| found.is_dir()) && !is_covered(&read_only, HOOKS.as_ref()) {
        read_only.push(HOOKS.into());
    }
    // What is behind a link is somewhere else, and what is not there yet is for the gate.
    let protected = named.iter().map(|path| &path.0);
    for path in protected.filter(|path| hide::is_there(&workspace, path)) {
        if !is_covered(&read_only, path) {
            read_only.push(path.clone());
        }
    }
    let InTree {
        directories,
        files,
        open,
    } = steering;
    for path in directories.into_iter().chain(files) {
        if !is_covered(&read_only, &path) {
            read_only.push(path);
        }
    }
    let known = owned.directory().join(STEERING);
    let all: Vec<PathText> = read_only.iter().cloned().map(PathText).collect();
    let bytes =
        serde_json::to_vec(&all).map_err(|error| FileError::new("write", &known, error.into()))?;
    fsx::write_private(&known, &bytes)?;
    if !open.is_empty() {
        let open: Vec<PathBuf> = open.into_iter().collect();
        let text = format!(
            "your git configuration names what is not there yet or behind a symlink, and the agent could put \
             something in its place: {}",
            shared::named(&open)
        );
        events.notice(Notice::Other { text });
    }
    Ok(read_only)
}

/// What the user's git runs or obeys by now, and programs inside may write: it was not read-only when the sandbox with this state
/// directory was started.
pub(super) fn steering_since(state: &Path, steering: InTree) -> Vec<PathBuf> {
    let known = fsx::read_bounded(&state.join(STEERING), STEERING_LIMIT);
    let known = known
        .ok()
        .and_then(|bytes| serde_json::from_slice(&bytes).ok());
    // One that was started by an earlier build.
    let Some::<Vec<PathText>>(known) = known else {
        return Vec::new();
    };
    let all = steering.directories.into_iter().chain(steering.files);
    all.filter(|path| !known.iter().any(|above| path.starts_with(&above.0)))
        .collect()
}

/// An agent of another sandbox may work in the same checkout: nothing is made behind a symlink.
fn make(root: impl AsFd, workspace: &Path, path: &Path) -> Result<(), FileError> {
    match beneath::make_directory(root, path) {
        Err(Errno::EXIST) => Ok(()),
        done => done.context("create", &workspace.join(path)),
    }
}

/// Whether nothing on the way there is anything but a directory.
fn may_be_made(workspace: &Path, path: &Path) -> bool {
    let mut above = path
        .ancestors()
        .filter(|above| !above.as_os_str().is_empty());
    above.all(|above| match workspace.join(above).symlink_metadata() {
        Ok(found) => found.is_dir() || above == path,
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    })
}

/// What other sandboxes in the same checkout made for their time: whoever of them ends last removes it.
fn made_by_others(owned: &Owned, home: &Home) -> Result<BTreeSet<PathBuf>, RegistryError> {
    let own = &owned.record;
    if own.strategy != Strategy::Head {
        return Ok(BTreeSet::new());
    }
    let entries = registry::list(home, None)?.entries.into_iter();
    let others = entries
        .map(|entry| entry.record)
        .filter(|other| other.id != own.id && other.workspace(home) == own.workspace(home));
    let made = others.flat_map(|other| other.made_directories);
    Ok(made.map(PathBuf::from).collect())
}
