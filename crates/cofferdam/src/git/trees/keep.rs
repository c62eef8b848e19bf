//! How much of the tree store stays.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::about::About;
use super::store::{clean, hold, read_dir, remove, trees_in};
use crate::fsx::lock::Held;
use crate::fsx::{self, FileError};
use crate::git::Oid;
use crate::home::{Home, TRIED_LAYERS};

/// What was removed, would be, or is there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct Trimmed {
    /// How many trees.
    pub layers: u64,
    /// About what they took.
    pub bytes: u64,
}

/// A layer on disk.
#[derive(Debug)]
struct Layer {
    store: usize,
    tree: Oid,
    about: About,
    used: SystemTime,
    /// A sandbox stands on it.
    held: bool,
}

/// Removes layers, those first that were used longest ago, until all of them together take no more than `bytes`, and those
/// of repositories that are gone. None that a sandbox stands on, as `used` tells when nobody can begin to, and none below one
/// that stays. A store in which a tree is being written is left alone.
pub fn keep(
    home: &Home,
    bytes: u64,
    dry_run: bool,
    used: impl FnOnce() -> Result<BTreeSet<PathBuf>, FileError>,
) -> Result<Trimmed, FileError> {
    let mut stores: Vec<(PathBuf, [Held; 2])> = Vec::new();
    for store in stores_in(&home.all_trees(), dry_run)? {
        if let Some(locks) = hold_both(&store)? {
            stores.push((store, locks));
        }
    }
    let used = used()?;
    let mut layers = Vec::new();
    let mut gone = BTreeSet::new();
    for (number, (store, _)) in stores.iter().enumerate() {
        if !dry_run {
            clean(store)?;
        }
        if is_gone(store) {
            gone.insert(number);
        }
        for (tree, place) in trees_in(store)? {
            let Some(about) = About::read(&place)? else {
                continue;
            };
            let found = place.metadata().and_then(|found| found.modified());
            layers.push(Layer {
                store: number,
                held: used.contains(&place.join("files")),
                tree,
                about,
                used: found.unwrap_or(SystemTime::UNIX_EPOCH),
            });
        }
    }
    let mut trimmed = Trimmed::default();
    for layer in chosen(layers, bytes, &gone) {
        if !dry_run {
            let store = &stores[layer.store].0;
            remove(store, &layer.tree)?;
        }
        trimmed.layers += 1;
        trimmed.bytes += layer.about.bytes;
    }
    Ok(trimmed)
}

/// What all layers take, those that nobody can use any more too.
pub fn taken(home: &Home) -> Result<Trimmed, FileError> {
    let mut taken = Trimmed::default();
    for store in stores_in(&home.all_trees(), true)? {
        for (_, place) in trees_in(&store)? {
            // One that goes away now is none.
            if let Ok(Some(about)) = About::read(&place) {
                taken.layers += 1;
                taken.bytes += about.bytes;
            }
        }
    }
    Ok(taken)
}

/// In the order in which they go: whatever stands on one goes before it.
fn chosen(mut layers: Vec<Layer>, bytes: u64, gone: &BTreeSet<usize>) -> Vec<Layer> {
    let mut total: u64 = layers.iter().map(|layer| layer.about.bytes).sum();
    let mut stand_on: BTreeMap<(usize, Oid), u64> = BTreeMap::new();
    for layer in &layers {
        for below in &layer.about.below {
            *stand_on.entry((layer.store, below.clone())).or_default() += 1;
        }
    }
    layers.sort_by_key(|layer| std::cmp::Reverse(layer.used));
    let mut chosen = Vec::new();
    loop {
        let free = |layer: &Layer| {
            let needed = stand_on.get(&(layer.store, layer.tree.clone()));
            // One of whiteouts alone takes nothing, and goes where nothing is to stay.
            let wanted = total > bytes || bytes == 0 || gone.contains(&layer.store);
            !layer.held && wanted && needed.is_none_or(|count| *count == 0)
        };
        // The one that was used longest ago is the last.
        let Some(at) = layers.iter().rposition(free) else {
            return chosen;
        };
        let layer = layers.remove(at);
        for below in &layer.about.below {
            if let Some(count) = stand_on.get_mut(&(layer.store, below.clone())) {
                *count -= 1;
            }
        }
        total -= layer.about.bytes;
        chosen.push(layer);
    }
}

/// Nobody writes here, and nobody begins to stand on something, until both are let go.
fn hold_both(store: &Path) -> Result<Option<[Held; 2]>, FileError> {
    let Some(writing) = hold(&store.join("write.lock"))? else {
        return Ok(None);
    };
    let beginning = hold(&store.join("lease.lock"))?;
    Ok(beginning.map(|beginning| [writing, beginning]))
}

/// Whether its repository is not where it was.
fn is_gone(store: &Path) -> bool {
    let Ok(origin) = fsx::read_bounded(&store.join("repository"), 1 << 16) else {
        return false;
    };
    !Path::new(std::ffi::OsStr::from_bytes(&origin)).exists()
}

/// The stores below `path`. Beside them lies for a moment what is made where layers are tried; a killed command may have left
/// it.
fn stores_in(path: &Path, dry_run: bool) -> Result<Vec<PathBuf>, FileError> {
    /// No trial takes as long.
    const ABANDONED: Duration = Duration::from_secs(60 * 60);
    let found = match read_dir(path) {
        Err(error) if error.is_not_found() => return Ok(Vec::new()),
        read => read?,
    };
    let (trials, rest): (Vec<_>, Vec<_>) = found.into_iter().partition(|path| {
        let name = path.file_name().unwrap_or_default();
        name.as_bytes().starts_with(TRIED_LAYERS.as_bytes())
    });
    let old = |path: &PathBuf| {
        let changed = path.symlink_metadata().and_then(|found| found.modified());
        changed.is_ok_and(|at| at.elapsed().is_ok_and(|age| age > ABANDONED))
    };
    if !dry_run {
        for trial in trials.iter().filter(|path| old(path)) {
            fsx::remove_tree(trial)?;
        }
    }
    Ok(rest.into_iter().filter(|path| path.is_dir()).collect())
}
