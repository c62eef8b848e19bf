//! What an agent may not have of a checkout that it shares with its user, and what it must not leave there:
//! doors to programs outside, files that are also elsewhere, rights of other users.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use tokio_util::sync::CancellationToken;

use super::cover;
use super::emitter::Emitter;
use super::event::Notice;
use super::mounts;
use super::plan::error::PlanError;
use crate::fsx::{self, FileError};
use crate::git::gate;
use crate::git::inodes::{Inodes, Look};
use crate::git::nested::{self, Closed, Found};
use crate::git::rights::{self, Rights};
use crate::git::status::uncommitted;
use crate::git::{Repository, own_files};
use crate::text::{printable, printable_line};

/// So many sockets, pipes and devices below a workspace are covered, each by a mount.
const MOST_DOORS: usize = 64;
/// So many files and directories are made read-only one by one.
const MOST_FROZEN: usize = 64;
/// Git is asked of so many changed files, whether they are left uncommitted.
const MOST_ASKED: usize = 200;
/// So many paths are named in a message.
const NAMED: usize = 5;
const RIGHTS: &str = "rights.json";
const RIGHTS_LIMIT: u64 = 64 << 20;

/// Makes what is mounted over sockets, pipes and devices.
pub(super) fn cover_doors<E: From<PlanError> + From<FileError>>(
    state: &Path,
    workspace: &Path,
    doors: &BTreeSet<PathBuf>,
) -> Result<(), E> {
    if doors.len() > MOST_DOORS {
        let named = doors.iter().take(3).map(|path| workspace.join(path));
        return Err(PlanError::ManySockets {
            count: doors.len(),
            some: named.collect(),
        }
        .into());
    }
    if !doors.is_empty() {
        fsx::write_private(&state.join(mounts::NO_SOCKET), b"")?;
    }
    Ok(())
}

/// What of the files an agent may not write, in few paths: who writes a file with a second name writes there
/// too, and a set-user-id file keeps its bit when it is written through a mapping.
pub(super) fn freeze(
    workspace: &Path,
    inodes: &Inodes,
    events: &Emitter,
) -> Result<Vec<PathBuf>, PlanError> {
    let linked = inodes.linked_outside();
    let mut all = inodes.privileged.clone();
    all.extend(linked.iter().cloned());
    let Some(frozen) = cover::cover(&all, MOST_FROZEN) else {
        return Err(PlanError::ManyLinks {
            count: all.len(),
            some: all
                .iter()
                .take(3)
                .map(|path| workspace.join(path))
                .collect(),
        });
    };
    if !linked.is_empty() {
        let places = cover::cover(&linked, MOST_FROZEN).unwrap_or_default();
        let text = format!(
            "read-only in the sandbox, because {} there {} also in another place on this machine (a store of \
             packages, for example), and a change would reach it: {}",
            files(linked.len()),
            if linked.len() == 1 { "is" } else { "are" },
            named(&places)
        );
        events.notice(Notice::Other { text });
    }
    if !inodes.privileged.is_empty() {
        let privileged: Vec<_> = inodes.privileged.iter().cloned().collect();
        let text = format!(
            "read-only in the sandbox, because they run with rights of their owner's: {}",
            named(&privileged)
        );
        events.notice(Notice::Other { text });
    }
    Ok(frozen)
}

/// Remembers what is compared with in [`after`]. The time at which the file is written counts, too.
pub(super) fn remember(state: &Path, inodes: &Inodes) -> Result<(), FileError> {
    let path = state.join(RIGHTS);
    let bytes = serde_json::to_vec(&inodes.rights())
        .map_err(|error| FileError::new("write", &path, error.into()))?;
    fsx::write_private(&path, &bytes)
}

/// What an agent left in a workspace.
#[derive(Debug, Default)]
pub(super) struct Left {
    /// As [`nested::scan`] finds it.
    pub git: BTreeSet<PathBuf>,
    /// Changed files, those nearest to the top first. What was deleted is not among them.
    pub changed: Vec<PathBuf>,
}

/// Looks at a workspace after its agent, and takes back what that gave to other users.
pub(super) fn after(state: &Path, workspace: &Path, events: &Emitter) -> Result<Left, FileError> {
    let path = state.join(RIGHTS);
    let remembered = fsx::read_bounded(&path, RIGHTS_LIMIT)
        .ok()
        .and_then(|bytes| serde_json::from_slice::<Rights>(&bytes).ok())
        .zip(path.symlink_metadata().ok());
    let Some((rights, written)) = remembered else {
        let git = nested::scan(workspace, Closed::Open)?;
        return Ok(Left {
            git,
            changed: Vec::new(),
        });
    };
    let look = Look::After {
        since: (written.mtime(), written.mtime_nsec()),
        rights: &rights.indexed(),
    };
    let Found { git, inodes, .. } = nested::scan_after(workspace, look)?;
    take_back(workspace, &inodes, events);
    let mut changed = inodes.changed;
    changed.sort_by_cached_key(|path| (path.components().count(), path.clone()));
    Ok(Left { git, changed })
}

fn take_back(workspace: &Path, inodes: &Inodes, events: &Emitter) {
    for (path, errno) in rights::tighten(workspace, &inodes.loosened) {
        let error = FileError::new("take rights back from", workspace.join(path), errno.into());
        events.notice(Notice::Other {
            text: error.to_string(),
        });
    }
    let asked = inodes.loosened.iter().filter(|one| one.is_asked());
    let asked: Vec<PathBuf> = asked.map(|one| one.path.clone()).collect();
    if !asked.is_empty() {
        let text = format!(
            "rights that were given to other users are taken back: {}",
            named(&asked)
        );
        events.notice(Notice::Other { text });
    }
}

/// Tells of files that run by themselves and are in the tree, but in none of the commits, which the gate
/// told of.
pub(super) fn tell_executable(changed: &[PathBuf], committed: &BTreeSet<String>, events: &Emitter) {
    let fresh: Vec<PathBuf> = changed
        .iter()
        .filter(|path| gate::runs_by_itself(path))
        .filter(|path| !committed.contains(&printable(&path.to_string_lossy())))
        .cloned()
        .collect();
    if !fresh.is_empty() {
        let text = format!(
            "changed in the working tree, in no commit, and able to run when you open or build the project: {}",
            named(&fresh)
        );
        events.notice(Notice::Other { text });
    }
}

/// Tells what changed in a checkout that the user shares and is in none of the commits: later nothing tells it from
/// work of their own. Git is asked only where there may be something, and of a few paths.
pub(super) async fn tell_uncommitted(
    changed: &[PathBuf],
    committed: &BTreeSet<PathBuf>,
    repo: &Repository,
    cancel: &CancellationToken,
    events: &Emitter,
) {
    let own = [".git", own_files::DIRECTORY];
    let rest = changed
        .iter()
        .filter(|path| !committed.contains(*path) && !own.iter().any(|own| path.starts_with(own)));
    let rest: Vec<&Path> = rest.take(MOST_ASKED).map(PathBuf::as_path).collect();
    if rest.is_empty() {
        return;
    }
    // It is news, not work.
    let left = uncommitted(repo, &rest, cancel).await.unwrap_or_default();
    if !left.is_empty() {
        let text = format!(
            "changed in this checkout during the run, and in no commit: {}",
            named(&left)
        );
        events.notice(Notice::Other { text });
    }
}

fn files(count: usize) -> String {
    if count == 1 {
        "a file".to_owned()
    } else {
        format!("{count} files")
    }
}

/// The first of them, in one line, and how many more there are.
pub(super) fn named(paths: &[PathBuf]) -> String {
    let shown = paths.iter().take(NAMED).map(|path| match path.to_str() {
        Some("") => "the top directory".to_owned(),
        _ => printable_line(&path.to_string_lossy()),
    });
    let mut text = shown.collect::<Vec<_>>().join(", ");
    if paths.len() > NAMED {
        text.push_str(&format!(" and {} more", paths.len() - NAMED));
    }
    text
}
