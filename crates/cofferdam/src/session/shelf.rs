//! The shelf: a repository in a volume, with a working tree for each branch that somebody works on beside the checkout. All dev sandboxes
//! of the checkout have it, and what is in it is theirs: no git of the host's opens it. Branches get there by git in a jail.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::configured::{effective, limits_of};
use super::dev::{self, SHELF};
use super::jailed::run_limited;
use super::options::Caller;
use crate::fsx::{self, FileError, lock};
use crate::git::identity::{self, UserConfig};
use crate::git::private_clone::{HOOKS, inside_hooks};
use crate::git::vault::{Vault, VaultError};
use crate::git::{GitError, Identity, ObjectFormat, Oid, Repository};
use crate::home::Home;
use crate::names::{BranchName, VolumeName};
use crate::process::Exit;
use crate::registry::Record;
use crate::sandbox::native::jail::{JailOutput, JailRequest};
use crate::sandbox::{Access, Limits, Mount, MountSource, SandboxError};
use crate::text::printable_line;
use crate::volumes::{self, Purpose, Volume, VolumeError};

const SCRIPT: &str = include_str!("shelf.sh");
/// How the script ends where nothing on the shelf has a commit in common with the branch.
const ANOTHER: Exit = Exit::Code(3);
/// So many of the commits that were brought last are looked for here.
const LOOKED_FOR: usize = 8;
/// Where the packs are in the jail.
const PACKS: &str = "/packs";
/// Of a list, in bytes.
const LIST_LIMIT: u64 = 4 << 20;
/// So many commits of one branch are kept on a list.
const COMMITS: usize = 4;
/// How long another command may write that list.
const OTHERS: Duration = Duration::from_secs(5);
/// The working tree of a large repository is written.
const LIMIT: Duration = Duration::from_mins(20);

/// Why a branch is not on the shelf.
#[derive(Debug, thiserror::Error)]
pub enum ShelfError {
    /// The shelf itself cannot be used.
    #[error(transparent)]
    Volume(#[from] VolumeError),
    /// Git failed on the host.
    #[error(transparent)]
    Git(#[from] GitError),
    /// The history could not be exported.
    #[error(transparent)]
    Vault(#[from] VaultError),
    /// Something could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// Nothing was started.
    #[error("branch `{branch}` cannot be brought to the shelf: {source}")]
    Jail {
        /// Its short name.
        branch: BranchName,
        /// Why the throw-away sandbox did not come up.
        #[source]
        source: SandboxError,
    },
    /// In the words of git, safe for a terminal.
    #[error("branch `{branch}` cannot be brought to the shelf, {exit}: {said}")]
    Failed {
        /// Its short name.
        branch: BranchName,
        /// How git ended.
        exit: Exit,
        /// What git printed.
        said: String,
    },
    /// Another repository lay in the directory before, and its shelf is there still. Nothing was changed.
    #[error(
        "branch `{branch}` cannot be brought to the shelf {volume}: what is there is of another repository, which lay here before"
    )]
    Another {
        /// Its short name.
        branch: BranchName,
        /// The shelf.
        volume: VolumeName,
    },
}

/// A branch on the shelf.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Shelved {
    /// Its working tree inside.
    pub directory: PathBuf,
    /// The commit that it has here, or would start from.
    pub tip: Oid,
    /// Where that comes from, as messages name it.
    pub from: String,
    /// No branch had the name, here, at the origin or on the shelf.
    pub is_new: bool,
}

impl Shelved {
    /// What somebody who mistyped a name wants to know; nothing where the branch was there before.
    pub fn newness(&self, branch: &BranchName) -> Option<String> {
        let from = &self.from;
        self.is_new.then(|| {
            format!("{branch} is a new branch, from {from}: no branch had that name here or at the origin")
        })
    }
}

/// Sees to it that a branch has its working tree on the shelf of this checkout: one that is there stays as it is. It starts at the
/// branch of that name here, else at the origin's, else where the checkout is. The caller has the turn of the checkout's dev sandboxes
/// ([`dev::turn`]). Bounded: 20 min, and the first export of a history.
pub async fn provision(
    caller: &Caller,
    repository: &Repository,
    branch: &BranchName,
) -> Result<Shelved, ShelfError> {
    let top = repository.top.as_path();
    let volume = volumes::open(&caller.home, Purpose::Shelf, top)?;
    let user = caller.user_home.as_deref();
    let (start, config, origin) = tokio::try_join!(
        start(repository, branch, caller),
        identity::user_config(repository, user, &caller.cancel),
        repository.origin(&caller.cancel),
    )?;
    let Start {
        tip,
        from,
        is_known,
    } = start;
    let brought = Noted::read(&volume, List::Brought)?;
    let is_new = !is_known && !brought.has(branch);
    // One that was cloned anew has not all of its commits, and is looked at by its history.
    let is_doubtful = !is_of(&brought, repository, caller).await?;
    let vault = Vault::open(&caller.home, repository)?;
    let exported = vault.export(repository, &tip, &caller.cancel).await?;
    let directory = dev::worktree(branch);
    let read_only = |source: PathBuf, name: &Path| Mount {
        source: MountSource::Path(source),
        target: Path::new(PACKS).join(name),
        access: Access::ReadOnly,
    };
    let mut mounts = vec![Mount {
        source: MountSource::Path(volume.files()),
        target: SHELF.into(),
        access: Access::ReadWrite,
    }];
    for pack in &exported.packs {
        for path in [pack.clone(), pack.with_extension("idx")] {
            let name = path.file_name().map(PathBuf::from).unwrap_or_default();
            mounts.push(read_only(path, &name));
        }
    }
    // Where the history ends here, as git has it.
    let shallow: String = exported
        .shallow
        .iter()
        .map(|oid| format!("{oid}\n"))
        .collect();
    // Those that its user's own commits run: in the tree, or as the workspace has them.
    let hooks = inside_hooks(&config, top).unwrap_or_else(|| {
        let workspace = Path::new("/workspace").join(repository.top.slug().as_str());
        workspace.join(".git").join(HOOKS)
    });
    let UserConfig { identity, .. } = config;
    let identity = identity.unwrap_or_else(Identity::fallback);
    let workspace = format!("file:///workspace/{}", repository.top.slug());
    let words: [OsString; 10] = [
        branch.as_str().into(),
        tip.as_str().into(),
        directory.clone().into(),
        origin.unwrap_or_default().into(),
        identity.name.into(),
        identity.email.into(),
        workspace.into(),
        hooks.into(),
        if is_doubtful { "doubtful" } else { "" }.into(),
        match repository.format {
            ObjectFormat::Sha1 => String::new(),
            ObjectFormat::Sha256 => "--object-format=sha256".to_owned(),
        }
        .into(),
    ];
    let request = |memory, begins| JailRequest {
        mounts,
        arguments: ["/bin/sh", "-c", &format!("{begins}\n{SCRIPT}"), "shelf"]
            .map(OsString::from)
            .into_iter()
            .chain(words)
            .collect(),
        environment: BTreeMap::from([
            ("GIT_CONFIG_NOSYSTEM".into(), "1".into()),
            ("GIT_CONFIG_GLOBAL".into(), "/dev/null".into()),
            ("GIT_TERMINAL_PROMPT".into(), "0".into()),
        ]),
        directory: "/".into(),
        stdin: shallow.into_bytes(),
        stdout: JailOutput::Nothing,
        limits: Limits {
            processes: Some(256),
            memory,
            ..Limits::default()
        },
        timeout: LIMIT,
    };
    // What a sandbox has said to git there runs too: it gets no more than a sandbox.
    let config = effective(caller, &repository.top).await.config;
    let memory = limits_of(&config).memory;
    let done = run_limited(memory, request, &caller.cancel).await;
    let done = done.map_err(|source| ShelfError::Jail {
        branch: branch.clone(),
        source,
    })?;
    if done.exit == ANOTHER {
        return Err(ShelfError::Another {
            branch: branch.clone(),
            volume: volume.name,
        });
    }
    if !done.exit.success() {
        let said = String::from_utf8_lossy(&done.stderr_tail);
        return Err(ShelfError::Failed {
            branch: branch.clone(),
            exit: done.exit,
            said: printable_line(said.trim_end()),
        });
    }
    write(&volume, List::Brought, branch, &tip).await?;
    Ok(Shelved {
        directory,
        tip,
        from,
        is_new,
    })
}

/// Whether a commit that was brought to the shelf last is one of this repository, or none was.
async fn is_of(
    brought: &Noted,
    repository: &Repository,
    caller: &Caller,
) -> Result<bool, GitError> {
    for (commit, _) in brought.0.iter().rev().take(LOOKED_FOR) {
        let name = format!("{commit}^{{commit}}");
        let found = repository.resolve(&name, &caller.cancel).await?;
        if found.is_some() {
            return Ok(true);
        }
    }
    Ok(brought.0.is_empty())
}

/// Lists of branches with commits, beside the files of the volume, where no sandbox writes. A line for each commit, the newest last.
#[derive(Debug, Clone, Copy)]
pub(super) enum List {
    /// What its user has brought to the shelf, and what pushes have made: with where each started.
    Brought,
    /// Where pushes have left branches.
    Pushed,
}

impl List {
    fn file(self) -> &'static str {
        match self {
            Self::Brought => "branches",
            Self::Pushed => "pushed",
        }
    }
}

/// What is on a list.
#[derive(Debug, Default)]
pub(super) struct Noted(Vec<(Oid, BranchName)>);

impl Noted {
    fn read(volume: &Volume, list: List) -> Result<Self, FileError> {
        let text = match fsx::read_bounded(&volume.beside(list.file()), LIST_LIMIT) {
            Err(error) if error.is_not_found() => return Ok(Self::default()),
            text => text?,
        };
        let text = String::from_utf8_lossy(&text);
        let lines = text.lines().filter_map(|line| {
            let (oid, branch) = line.split_once(' ')?;
            Some((oid.parse().ok()?, branch.parse().ok()?))
        });
        Ok(Self(lines.collect()))
    }

    pub(super) fn has(&self, branch: &BranchName) -> bool {
        self.commits(branch).next().is_some()
    }

    /// Each once.
    pub(super) fn branches(&self) -> impl Iterator<Item = &BranchName> {
        let all: BTreeSet<&BranchName> = self.0.iter().map(|(_, branch)| branch).collect();
        all.into_iter()
    }

    /// Those of a branch, the newest first.
    pub(super) fn commits(&self, branch: &BranchName) -> impl Iterator<Item = &Oid> {
        let ours = self.0.iter().rev().filter(move |(_, one)| one == branch);
        ours.map(|(commit, _)| commit)
    }
}

/// The shelf that a sandbox has.
pub(super) fn of(home: &Home, record: &Record) -> Result<Option<Volume>, VolumeError> {
    let mut ours = record.volumes.iter();
    let ours = ours.find(|mount| dev::purpose(mount) == Some(Purpose::Shelf));
    match ours {
        Some(mount) => volumes::find(home, &mount.name),
        None => Ok(None),
    }
}

/// What is on one of its lists.
pub(super) fn noted(home: &Home, record: &Record, list: List) -> Result<Noted, VolumeError> {
    match of(home, record)? {
        Some(volume) => Ok(Noted::read(&volume, list)?),
        None => Ok(Noted::default()),
    }
}

/// From now on this is.
pub(super) async fn note(
    home: &Home,
    record: &Record,
    list: List,
    branch: &BranchName,
    commit: &Oid,
) -> Result<(), VolumeError> {
    match of(home, record)? {
        Some(volume) => Ok(write(&volume, list, branch, commit).await?),
        None => Ok(()),
    }
}

async fn write(
    volume: &Volume,
    list: List,
    branch: &BranchName,
    commit: &Oid,
) -> Result<(), FileError> {
    // Where it is held for longer something is wrong, and a line less does no harm.
    let lock = lock::take_within(&volume.beside("lists.lock"), OTHERS).await?;
    let mut noted = Noted::read(volume, list)?;
    let kept: Vec<Oid> = noted.commits(branch).take(COMMITS - 1).cloned().collect();
    if kept.first() == Some(commit) {
        return Ok(());
    }
    noted
        .0
        .retain(|(oid, one)| one != branch || (kept.contains(oid) && oid != commit));
    noted.0.push((commit.clone(), branch.clone()));
    let lines = noted
        .0
        .iter()
        .map(|(oid, branch)| format!("{oid} {branch}\n"));
    fsx::write_private(
        &volume.beside(list.file()),
        lines.collect::<String>().as_bytes(),
    )?;
    drop(lock);
    Ok(())
}

/// The commit from which it goes on.
struct Start {
    tip: Oid,
    /// The name of what has that.
    from: String,
    /// That is a branch of its name.
    is_known: bool,
}

async fn start(
    repository: &Repository,
    branch: &BranchName,
    caller: &Caller,
) -> Result<Start, GitError> {
    let remote = format!("refs/remotes/origin/{branch}");
    let known = [
        (branch.full(), branch.to_string()),
        (remote, format!("origin/{branch}")),
    ];
    for (reference, shown) in known {
        if let Some(tip) = repository.resolve(&reference, &caller.cancel).await? {
            return Ok(Start {
                tip,
                from: shown,
                is_known: true,
            });
        }
    }
    let head = &repository.head;
    Ok(Start {
        tip: head.commit().clone(),
        from: head.branch_text(),
        is_known: false,
    })
}
