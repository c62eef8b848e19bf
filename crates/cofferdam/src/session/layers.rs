//! The layers of a sandbox (decision 0012): a tree of the store, and a directory of its own for what is changed.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt::Display;
use std::io::ErrorKind;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use cofferdam_guest::protocol::{UPPER, WORK};
use rustix::fs::{CWD, FileType, Mode};
use tokio_util::sync::CancellationToken;

use super::error::RunErrorKind;
use super::event::{Event, EventSink, Notice, millis};
use crate::fsx::{self, Context, FileError};
use crate::git::hex::hex;
use crate::git::index::{self, HandedIn, Owner};
use crate::git::private_clone::PrivateClone;
use crate::git::trees::{self, Far, Stack, Tell, TreeError, Trees, Trimmed};
use crate::git::{Oid, Repository};
use crate::home::Home;
use crate::registry::{self, Record};
use crate::sandbox::{Contained, MountSource, SandboxError};

/// In the state directory: [`UPPER`], where what is changed is, and [`WORK`].
pub(super) const CHANGES: &str = "layer";
/// Beside them: see [`family`].
const FAMILY: &str = "family";
/// There too, or in the state directory of a copy: what git leaves out by no line of a commit, as it was handed in.
const RULES: &str = "exclude";
const RULES_LIMIT: u64 = 64 << 20;
/// In the state directory: the layers below, the uppermost first, each with a zero byte behind it. While it is there, nobody
/// removes them.
const BELOW: &str = "layers";
/// There too: which directories those were when they were mounted last.
const MOUNTED: &str = "mounted";
const LIMIT: u64 = 1 << 20;
/// Beside the layers, with the provider behind it: in which boot, by whom, and where they were seen to be possible.
const TRIED: &str = "possible-";
const NOTE_LIMIT: u64 = 400;
/// Fewer are written before anybody can read how many.
const MANY_FILES: u64 = 1000;

/// The directory for changes, empty, over the files of `base`, which are written where no sandbox had them yet.
pub(super) async fn make(
    home: &Home,
    state: &Path,
    repo: &Repository,
    base: &Oid,
    sink: EventSink,
    cancel: &CancellationToken,
) -> Result<Stack, RunErrorKind> {
    let upper = state.join(CHANGES).join(UPPER);
    fsx::private_dir(&upper)?;
    fsx::write_private(&state.join(CHANGES).join(FAMILY), family().as_bytes())?;
    fsx::private_dir(&state.join(CHANGES).join(WORK))?;
    // What it is inside: the top of the files.
    rustix::fs::chmod(&upper, Mode::from_raw_mode(0o755))
        .map_err(|errno| FileError::new("open up", &upper, errno.into()))?;
    let tree = repo.tree_of(base, cancel).await?;
    let trees = Trees::open(home, repo)?;
    let stack = trees.stack(repo, &tree, &telling(sink), cancel).await?;
    name_below(state, &stack)?;
    Ok(stack)
}

/// How far the files are, for whoever waits for them.
fn telling(sink: EventSink) -> Tell {
    let began = Mutex::new(Instant::now());
    Tell::new(move |far| match far {
        Far::Waits => sink.emit(&Event::Notice(Notice::OtherWrites)),
        Far::Begins => {
            let mut began = began.lock().unwrap_or_else(PoisonError::into_inner);
            *began = Instant::now();
        }
        Far::Wrote { done, of } if of >= MANY_FILES => {
            let step = "tree";
            let began = *began.lock().unwrap_or_else(PoisonError::into_inner);
            let millis = millis(began);
            sink.emit(&Event::Progress {
                step,
                done,
                of,
                millis,
            });
        }
        Far::Wrote { .. } => {}
    })
}

/// From now on nobody removes them.
fn name_below(state: &Path, stack: &Stack) -> Result<(), FileError> {
    let names = stack.layers.iter();
    let names: Vec<u8> = names
        .flat_map(|layer| [layer.as_os_str().as_bytes(), b"\0"].concat())
        .collect();
    fsx::write_private(&state.join(BELOW), &names)
}

/// The index that the sandbox gets, and nothing of what is `hidden`.
pub(super) fn index(
    state: &Path,
    repo: &Repository,
    stack: &Stack,
    hidden: &[PathBuf],
) -> Result<HandedIn, RunErrorKind> {
    let made = index::of_layers(&stack.index, repo.format, Owner::AGENT, hidden)
        .map_err(super::error::step("index"))?;
    for path in &made.hidden {
        let place = state.join(CHANGES).join(UPPER).join(path);
        let failed = |source| FileError::new("hide", &place, source);
        if let Some(parent) = place.parent() {
            std::fs::create_dir_all(parent).map_err(failed)?;
        }
        rustix::fs::mknodat(CWD, &place, FileType::CharacterDevice, Mode::empty(), 0)
            .map_err(|errno| failed(errno.into()))?;
    }
    Ok(made)
}

/// Whose overlays have attributes of which family: `trusted.overlay.*` where root mounts, else `user.overlay.*`. A directory
/// that was written to under one means something else under the other, and what an agent wrote could count.
fn family() -> &'static str {
    if rustix::process::geteuid().is_root() {
        "root"
    } else {
        "user"
    }
}

/// Refuses changes that a caller of the other family made.
pub(super) fn check_family(state: &Path) -> Result<(), FileError> {
    let changes = state.join(CHANGES);
    let made = match fsx::read_bounded(&changes.join(FAMILY), LIMIT) {
        // Nobody wrote it where nothing was ever mounted.
        Err(error) if error.is_not_found() => return Ok(()),
        read => read?,
    };
    if made == family().as_bytes() {
        return Ok(());
    }
    let who = if made == b"root" {
        "root"
    } else {
        "an ordinary user"
    };
    let why = std::io::Error::other(format!("{who} made this sandbox, and no other mounts it"));
    Err(FileError::new("mount", changes, why))
}

/// Writes the files of the commit again that somebody has removed by hand below the sandbox, or that a power cut may have
/// torn: nothing is mounted over those, and so nobody stands on what is removed. What it changed is not among them.
pub(super) async fn stand(
    home: &Home,
    repo: &Repository,
    record: &Record,
    sink: EventSink,
    cancel: &CancellationToken,
) -> Result<(), SandboxError> {
    let state = home.sandbox(record.id);
    let gone = |error: &dyn Display| {
        let what = "the files that it stands on were removed, and cannot be written again";
        SandboxError::Start(format!("{what}: {error}"))
    };
    let there = below(&state).map_err(|error| gone(&error))?;
    if there.iter().all(|layer| trees::is_whole(layer)) {
        return Ok(());
    }
    has_ended(&state).map_err(|error| gone(&error))?;
    let tree = repo.tree_of(&record.base, cancel).await;
    let tree = tree.map_err(|error| gone(&error))?;
    let trees = Trees::open(home, repo).map_err(|error| gone(&error))?;
    let stack = trees.stack(repo, &tree, &telling(sink), cancel).await;
    let stack = stack.map_err(|error| gone(&error))?;
    name_below(&state, &stack).map_err(|error| gone(&error))
}

/// What is mounted as the workspace, now.
pub(super) fn source(state: &Path) -> Result<MountSource, FileError> {
    check_family(state)?;
    let lower = below(state)?;
    fsx::write_private(&state.join(MOUNTED), &which(&lower)?)?;
    Ok(MountSource::Layers {
        lower,
        upper: Some(state.join(CHANGES)),
    })
}

/// Whether all that is mounted, or was when the sandbox was killed, is there and is the same. Where somebody has removed it by
/// hand, the files of the commit are gone in the sandbox too, and its git takes them for deleted.
pub(super) fn still_stands(state: &Path) -> Result<bool, FileError> {
    let mounted = match fsx::read_bounded(&state.join(MOUNTED), LIMIT) {
        // Nothing is, or an earlier version did not write it.
        Err(error) if error.is_not_found() => return Ok(true),
        read => read?,
    };
    match which(&below(state)?) {
        Err(error) if error.is_not_found() => Ok(false),
        which => Ok(mounted == which?),
    }
}

/// Notes that it stood on its files until its end: what becomes of them later changes nothing of what it did.
pub(super) fn has_ended(state: &Path) -> Result<(), FileError> {
    if still_stands(state)? {
        fsx::remove_file_if_exists(&state.join(MOUNTED))?;
    }
    Ok(())
}

/// A line for each directory. One that is written again has another time of change, whichever number it gets.
fn which(layers: &[PathBuf]) -> Result<Vec<u8>, FileError> {
    let mut lines = String::new();
    for layer in layers {
        let found = layer.metadata().context("look at", layer)?;
        let (second, part) = (found.ctime(), found.ctime_nsec());
        lines.push_str(&format!("{} {second}.{part}\n", found.ino()));
    }
    Ok(lines.into_bytes())
}

/// The same to be looked at while nothing runs in the sandbox, though it may still be mounted there: nobody writes to it.
pub(super) fn look(state: &Path) -> Result<MountSource, FileError> {
    check_family(state)?;
    let mut lower = vec![state.join(CHANGES).join(UPPER)];
    lower.extend(below(state)?);
    Ok(MountSource::Layers { lower, upper: None })
}

/// Keeps the exclusions of a clone that no sandbox has seen yet.
pub(super) fn keep_rules(
    state: &Path,
    mode: registry::Mode,
    clone: &PrivateClone,
) -> Result<(), FileError> {
    let rules = fsx::read_bounded(&clone.exclusions(), RULES_LIMIT)?;
    fsx::write_private(&kept_rules(state, mode), &rules)
}

fn kept_rules(state: &Path, mode: registry::Mode) -> PathBuf {
    match mode {
        registry::Mode::Layer => state.join(CHANGES).join(RULES),
        _ => state.join(RULES),
    }
}

/// What was kept of them: none of a sandbox that an older version made.
pub(super) fn rules(state: &Path, mode: registry::Mode) -> Result<Vec<u8>, FileError> {
    match fsx::read_bounded(&kept_rules(state, mode), RULES_LIMIT) {
        Err(error) if error.is_not_found() => Ok(Vec::new()),
        read => read,
    }
}

/// Where what was changed is.
pub(super) fn upper(state: &Path) -> PathBuf {
    state.join(CHANGES).join(UPPER)
}

/// Whether nothing was changed, or staged: then nobody needs to look.
pub(super) fn is_untouched(state: &Path) -> bool {
    // Another content of a file leaves the size as it is, where its directories were told.
    let clone = PrivateClone::at(state);
    let staged = below(state).is_ok_and(|below| {
        let made = below.first().and_then(|files| files.parent());
        made.is_some_and(|layer| index::summed(layer) != index::summed(&clone.git_dir))
    });
    if staged && clone.git_dir.is_dir() {
        return false;
    }
    let upper = state.join(CHANGES).join(UPPER);
    let mut entries = match std::fs::read_dir(upper) {
        Ok(entries) => entries,
        // Nobody ever worked there.
        Err(error) => return error.kind() == std::io::ErrorKind::NotFound,
    };
    // Where the sandbox's git directory is mounted.
    entries.all(|entry| entry.is_ok_and(|entry| entry.file_name() == ".git"))
}

/// The layers that a sandbox stands on; none where it has none.
fn below(state: &Path) -> Result<Vec<PathBuf>, FileError> {
    let bytes = match fsx::read_bounded(&state.join(BELOW), LIMIT) {
        Err(error) if error.is_not_found() => return Ok(Vec::new()),
        read => read?,
    };
    let names = bytes
        .split(|&byte| byte == 0)
        .filter(|name| !name.is_empty());
    Ok(names
        .map(|name| PathBuf::from(OsString::from_vec(name.to_vec())))
        .collect())
}

/// Removes files of commits that no sandbox stands on, until what stays takes no more than `bytes`; those first that were
/// used longest ago.
pub(super) fn trim(home: &Home, bytes: u64, dry_run: bool) -> Result<Trimmed, FileError> {
    trees::keep(home, bytes, dry_run, || stood_on(home))
}

/// Where the commit of `repo` that was used last lies on as many layers as there may be, its files are written to one again,
/// if all of them take no more than `bytes`. `false`: there is nothing to do, or somebody is at work there. `begin` hears of
/// it first, because it takes as long as the first start; without one nothing is written, and `true` says what would be.
pub(super) async fn rebase(
    home: &Home,
    repo: &Repository,
    bytes: u64,
    begin: Option<&(dyn Fn() + Sync)>,
    cancel: &CancellationToken,
) -> Result<bool, TreeError> {
    let Some(tree) = trees::full_stack(home, repo, bytes, &stood_on(home)?)? else {
        return Ok(false);
    };
    let Some(begin) = begin else {
        return Ok(true);
    };
    begin();
    trees::rebase(home, repo, &tree, || stood_on(home), cancel).await
}

/// The layers that sandboxes stand on, all of them.
fn stood_on(home: &Home) -> Result<BTreeSet<PathBuf>, FileError> {
    let mut used = BTreeSet::new();
    let all = home.state();
    let states = match std::fs::read_dir(&all) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(used),
        read => read.context("list", &all)?,
    };
    for state in states {
        match below(&state.context("list", &all)?.path()) {
            // Somebody's file, and no sandbox.
            Err(error) if error.source.kind() == ErrorKind::NotADirectory => {}
            layers => used.extend(layers?),
        }
    }
    Ok(used)
}

/// Whether sandboxes of this provider can have layers below `home`; else why not. Tried once in a boot: a real mount takes as
/// long as a start. That it is not possible is not remembered, so that whoever mends it sees it.
pub(super) async fn possible(
    home: &Home,
    sandbox: &Contained,
    cancel: &CancellationToken,
) -> Result<(), String> {
    let place = home.all_trees();
    let provider = sandbox.provider_name();
    let note = place.join(format!("{TRIED}{}", hex(provider.as_bytes())));
    let now = format!(
        "{} {} {} {}\n",
        trees::boot(),
        env!("CARGO_PKG_VERSION"),
        rustix::process::geteuid().as_raw(),
        confines()
    );
    let known = fsx::read_bounded(&note, NOTE_LIMIT);
    if known.is_ok_and(|known| known == now.as_bytes()) {
        return Ok(());
    }
    fsx::private_dir(&place).map_err(|error| error.to_string())?;
    let tried = sandbox.try_layers(&place, cancel).await;
    tried.map_err(|error| error.to_string())?;
    // Else it is tried again.
    let _ = fsx::write_private(&note, now.as_bytes());
    Ok(())
}

/// What is around this process: in a container, or under somebody's filter, a mount or a rename may be refused that is not
/// elsewhere, and the home is the same.
fn confines() -> String {
    let namespaces = ["mnt", "user"]
        .map(|name| std::fs::read_link(format!("/proc/self/ns/{name}")).unwrap_or_default());
    let status = fsx::read_bounded(Path::new("/proc/self/status"), LIMIT).unwrap_or_default();
    let status = String::from_utf8_lossy(&status);
    let filters = status.lines().filter(|line| line.starts_with("Seccomp"));
    let words = filters.flat_map(str::split_whitespace);
    let namespaces = namespaces.iter().map(|one| one.to_string_lossy());
    let all: Vec<_> = namespaces.chain(words.map(Cow::Borrowed)).collect();
    all.join(" ")
}

/// What goes with the sandbox.
pub(super) const OWN: [&str; 3] = [CHANGES, BELOW, MOUNTED];

/// The content of a tree's regular file at the top, of `limit` bytes at most.
pub(super) fn content_at_top(stack: &Stack, name: &Path, limit: u64) -> Option<Vec<u8>> {
    let places = stack.layers.iter().map(|layer| layer.join(name));
    let there = |place: &PathBuf| place.symlink_metadata().is_ok();
    fsx::read_bounded(&places.into_iter().find(there)?, limit).ok()
}

/// Whether a tree has a regular file at a path, behind no link.
pub(super) fn has_file(stack: &Stack, path: &Path) -> bool {
    for layer in &stack.layers {
        let mut at = layer.clone();
        let mut found = None;
        for name in path {
            at.push(name);
            found = at.symlink_metadata().ok();
            match &found {
                Some(entry) if entry.is_dir() => {}
                // A file, a link, or a whiteout: what lies below it in other layers is hidden.
                Some(_) if at != layer.join(path) => return false,
                Some(_) | None => break,
            }
        }
        if let Some(found) = found {
            return at == layer.join(path) && found.is_file();
        }
    }
    false
}
