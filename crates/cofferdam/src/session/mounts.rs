//! Which host paths a sandbox sees, and where. Pure.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::hide::{Covered, NO_FILE};
use super::submodules::{self, Shown, Submodule};
use crate::git::private_clone::{HOOKS, INSIDE_GIT_DIR, INSIDE_VAULT, PrivateClone};
use crate::sandbox::{Access, Mount, MountSource};

/// An empty file in the state directory, that lies over sockets.
pub(super) const NO_SOCKET: &str = "no-socket";

/// Where a sandbox's own git directory appears.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GitPlace {
    /// The workspace's `.git` is a directory: the private git directory lies over it.
    Directory,
    /// The workspace's `.git` is a pointer file: a read-only one of ours lies over it.
    Pointer,
}

/// The host side of a workspace.
#[derive(Debug)]
pub(super) struct Workspace<'a> {
    /// The host directory that becomes the workspace.
    pub source: &'a Path,
    /// What is mounted instead of it, where it is the uppermost of several.
    pub layers: Option<&'a MountSource>,
    /// `/workspace/<repo>`.
    pub target: &'a Path,
    /// The sandbox's state directory, with its private clone in it.
    pub state: &'a Path,
    pub git: GitPlace,
    /// Hide `.cofferdam`: it holds other sandboxes' worktrees and the user's settings.
    pub mask_config: bool,
    /// Directories below the workspace to show read-only, if they exist.
    pub read_only: &'a [PathBuf],
    /// Files and directories below the workspace that nobody may write.
    pub frozen: &'a [PathBuf],
    /// Sockets, pipes and devices below the workspace: who connects to one is served by a process outside, whatever the
    /// sandbox's network is and even where the mount is read-only.
    pub doors: &'a BTreeSet<PathBuf>,
    /// Submodules with git directories of ours, or with nothing.
    pub submodules: &'a [Submodule],
    /// Paths below the workspace that show nothing.
    pub hidden: &'a [Covered],
    /// Its files may be the user's, or have names elsewhere.
    pub shared: bool,
}

/// The mounts in order.
#[derive(Debug)]
pub(super) struct Mounts {
    pub all: Vec<Mount>,
    /// Which of them are [`passing`].
    pub passing: Range<usize>,
}

pub(super) fn mounts(workspace: &Workspace<'_>) -> Mounts {
    let Workspace {
        source,
        layers,
        target,
        state,
        git,
        mask_config,
        read_only,
        frozen,
        doors,
        submodules,
        hidden,
        shared: _,
    } = *workspace;
    let mount = |source: PathBuf, target: PathBuf, access| Mount {
        source: MountSource::Path(source),
        target,
        access,
    };
    let whole = layers.map_or_else(|| MountSource::Path(source.to_owned()), Clone::clone);
    let mut mounts = vec![Mount {
        source: whole,
        target: target.to_owned(),
        access: Access::ReadWrite,
    }];
    let clone = PrivateClone::at(state);
    let git_inside = match git {
        GitPlace::Directory => target.join(".git"),
        GitPlace::Pointer => {
            mounts.push(mount(clone.pointer, target.join(".git"), Access::ReadOnly));
            PathBuf::from(INSIDE_GIT_DIR)
        }
    };
    mounts.push(mount(clone.git_dir, git_inside.clone(), Access::ReadWrite));
    mounts.push(mount(clone.hooks, git_inside.join(HOOKS), Access::ReadOnly));
    mounts.push(mount(clone.vault, INSIDE_VAULT.into(), Access::ReadOnly));
    mounts.extend(unwritable(target, read_only, hidden));
    // After those that show a part of the workspace once more.
    let begins = mounts.len();
    mounts.extend(passing(state, target, frozen, doors));
    let passing = begins..mounts.len();
    for Submodule { path, shown } in submodules {
        let (from, to) = match shown {
            Shown::Nothing => {
                mounts.push(nothing(target.join(path)));
                continue;
            }
            Shown::Pointer(from) | Shown::Directory(from) => (from, target.join(path).join(".git")),
        };
        mounts.push(mount(from.clone(), to, Access::ReadOnly));
    }
    let modules = state.join(submodules::MODULES);
    if submodules.iter().any(|one| one.shown != Shown::Nothing) {
        let to = submodules::INSIDE.into();
        mounts.push(mount(modules, to, Access::ReadOnly));
    }
    // What is below an empty directory of ours is hidden already, and there is no place for a mount.
    let is_gone = |one: &&Covered| {
        let mut empty = (submodules.iter()).filter(|module| module.shown == Shown::Nothing);
        empty.any(|module| one.path.starts_with(&module.path))
    };
    mounts.extend(
        hidden
            .iter()
            .filter(|one| !is_gone(one))
            .map(|one| covering(state, target, one)),
    );
    if mask_config {
        mounts.push(nothing(target.join(".cofferdam")));
    }
    Mounts {
        all: mounts,
        passing,
    }
}

fn nothing(target: PathBuf) -> Mount {
    Mount {
        source: MountSource::Nothing,
        target,
        access: Access::ReadOnly,
    }
}

/// What nobody may write, below the workspace at `target`. A mount point can be neither moved nor removed, but what it lies in can: `mv
/// libs old; mkdir -p libs/sub/.git` would put another one in its place. So every directory above is one too, also of what is hidden.
pub(super) fn unwritable(target: &Path, read_only: &[PathBuf], hidden: &[Covered]) -> Vec<Mount> {
    let above: BTreeSet<&Path> = read_only
        .iter()
        .chain(hidden.iter().map(|one| &one.path))
        .flat_map(|path| path.ancestors().skip(1))
        .filter(|above| !above.as_os_str().is_empty())
        .collect();
    // Another agent may be at work in the same checkout, so the host's paths are not walked again.
    let again = |path: &Path, access| Mount {
        source: MountSource::Target,
        target: target.join(path),
        access,
    };
    let above = above.into_iter().map(|path| again(path, Access::ReadWrite));
    let read_only = read_only.iter().map(|path| again(path, Access::ReadOnly));
    above.chain(read_only).collect()
}

/// Lies over what is hidden.
pub(super) fn covering(state: &Path, target: &Path, hidden: &Covered) -> Mount {
    let target = target.join(&hidden.path);
    if hidden.is_directory {
        return nothing(target);
    }
    Mount {
        source: MountSource::Path(state.join(NO_FILE)),
        target,
        access: Access::ReadOnly,
    }
}

/// Mounts over files and sockets that nobody may write or reach, wherever they are: who makes the sandbox again looks
/// for them again.
pub(super) fn passing(
    state: &Path,
    target: &Path,
    frozen: &[PathBuf],
    doors: &BTreeSet<PathBuf>,
) -> Vec<Mount> {
    // Nothing new in its place could do harm here.
    let frozen = frozen.iter().map(|path| Mount {
        source: MountSource::Target,
        target: target.join(path),
        access: Access::ReadOnly,
    });
    // The same. A directory above one can be moved: the mount goes with the socket.
    let doors = doors.iter().map(|path| Mount {
        source: MountSource::Path(state.join(NO_SOCKET)),
        target: target.join(path),
        access: Access::ReadOnly,
    });
    frozen.chain(doors).collect()
}

/// What the jail sees that packs a private clone's commits: the clone and the vault, read-only.
pub(super) fn jail_mounts(state: &Path) -> Vec<Mount> {
    let read_only = |source: PathBuf, target: &str| Mount {
        source: MountSource::Path(source),
        target: target.into(),
        access: Access::ReadOnly,
    };
    let clone = PrivateClone::at(state);
    vec![
        read_only(clone.git_dir, INSIDE_GIT_DIR),
        read_only(clone.vault, INSIDE_VAULT),
    ]
}
