//! From what was asked for to mounts of a sandbox, in the order in which they lie over one another.

use std::path::{Path, PathBuf};

use super::below::{self, Below};
use super::error::ExtraMountError;
use super::source::{self, Around};
use super::target;
use crate::fsx::{self, FileError};
use crate::git::{GitError, Repository, identity};
use crate::names::SandboxId;
use crate::registry::{self, ExtraMount, PathText, RegistryError};
use crate::sandbox::{Access, Mount, MountSource};
use crate::session::emitter::Emitter;
use crate::session::event::Notice;
use crate::session::inside::AGENT_HOME;
use crate::session::mounts::NO_SOCKET;
use crate::session::options::Caller;
use crate::session::plan::error::PlanError;
use crate::session::shared;

/// The sandbox that gets them.
#[derive(Debug, Clone, Copy)]
pub(in crate::session) struct Beside<'a> {
    pub caller: &'a Caller,
    pub repository: &'a Repository,
    pub id: SandboxId,
    /// What it must not see, relative to the repository's top.
    pub hidden: &'a [PathText],
}

/// What was asked for, by its real paths. Refuses what no sandbox gets, before anything is made.
pub(in crate::session) fn check<E: From<PlanError> + From<RegistryError>>(
    asked: &[ExtraMount],
    beside: Beside<'_>,
) -> Result<Vec<ExtraMount>, E> {
    if asked.is_empty() {
        return Ok(Vec::new());
    }
    let around = beside.around(Vec::new())?;
    let admit = || {
        target::check(asked)?;
        let all = asked.iter().map(|mount| source::admit(mount, &around));
        all.collect::<Result<Vec<_>, _>>()
    };
    Ok(admit().map_err(PlanError::from)?)
}

impl Beside<'_> {
    /// `steering`: what the user's git runs, obeys or borrows from.
    fn around(self, steering: Vec<PathBuf>) -> Result<Around, RegistryError> {
        let Self {
            caller, repository, ..
        } = self;
        let path = caller.environment.get(std::ffi::OsStr::new("PATH"));
        let programs = path.into_iter().flat_map(std::env::split_paths);
        Ok(Around {
            own: caller.home.path().to_owned(),
            homes: source::homes(caller.user_home.as_deref()),
            programs: programs.filter(|path| path.is_absolute()).collect(),
            repository: [
                repository.top.as_path().to_owned(),
                repository.common_dir.clone(),
            ],
            hidden: self.hidden.iter().map(|path| path.0.clone()).collect(),
            writers: registry::writers(&caller.home, self.id)?,
            written: registry::written::read(&caller.home)?,
            steering,
            environment: caller.environment.clone(),
        })
    }

    /// The mounts of what its record has, looked at again: none of them may have become what is refused. `state`: the
    /// sandbox's directory; `home`: the agent's, where that is a directory of this machine.
    pub(in crate::session) async fn mounts<
        E: From<PlanError> + From<RegistryError> + From<GitError>,
    >(
        self,
        recorded: &[ExtraMount],
        state: &Path,
        home: Option<&Path>,
        events: &Emitter,
    ) -> Result<Vec<Mount>, E> {
        if recorded.is_empty() {
            return Ok(Vec::new());
        }
        let (caller, repository) = (self.caller, self.repository);
        let user_home = caller.user_home.as_deref();
        let config = identity::user_config(repository, user_home, &caller.cancel).await?;
        let around = self.around(config.steering.paths(repository, user_home))?;
        let all = recorded.to_vec();
        let looked = tokio::task::spawn_blocking(move || look(all, &around)).await;
        let made = looked
            .map_err(|error| FileError::new("look through", state, error.into()))
            .map_err(ExtraMountError::from)
            .and_then(|looked| make(&looked?, state, home));
        let (mounts, frozen) = made.map_err(PlanError::from)?;
        if !frozen.is_empty() {
            let text = format!(
                "read-only in the sandbox, because what is there is also elsewhere on this machine or runs with rights of its \
                 owner's: {}",
                shared::named(&frozen)
            );
            events.notice(Notice::Other { text });
        }
        Ok(mounts)
    }
}

fn look(
    all: Vec<ExtraMount>,
    around: &Around,
) -> Result<Vec<(ExtraMount, Below)>, ExtraMountError> {
    target::check(&all)?;
    let one = |mount: ExtraMount| {
        source::admit_again(&mount, around)?;
        let below = below::look(&mount)?;
        Ok((mount, below))
    };
    all.into_iter().map(one).collect()
}

/// The mounts, and where inside they are read-only though they are asked for otherwise.
fn make(
    looked: &[(ExtraMount, Below)],
    state: &Path,
    home: Option<&Path>,
) -> Result<(Vec<Mount>, Vec<PathBuf>), ExtraMountError> {
    let (mut mounts, mut frozen) = (Vec::new(), Vec::new());
    let read_only = |source: MountSource, target: PathBuf| Mount {
        source,
        target,
        access: Access::ReadOnly,
    };
    for (mount, below) in looked {
        if let Some(home) = home {
            point(home, mount)?;
        }
        let inside = |path: &PathBuf| mount.target.join(path);
        mounts.push(Mount {
            source: MountSource::Path(mount.source.clone()),
            target: mount.target.clone(),
            access: if mount.writable {
                Access::ReadWrite
            } else {
                Access::ReadOnly
            },
        });
        frozen.extend(below.frozen.iter().map(inside));
        let again = below.frozen.iter().map(inside);
        mounts.extend(again.map(|target| read_only(MountSource::Target, target)));
        let own = below.own.iter().chain(&below.closed).map(inside);
        mounts.extend(own.map(|target| read_only(MountSource::Nothing, target)));
        if !below.doors.is_empty() {
            fsx::write_private(&state.join(NO_SOCKET), b"")?;
        }
        // What lies over a socket is found by the name of this one.
        let doors = below.doors.iter().map(inside);
        let empty = || MountSource::Path(state.join(NO_SOCKET));
        mounts.extend(doors.map(|target| read_only(empty(), target)));
    }
    Ok((mounts, frozen))
}

/// A place for a mount in the agent's home, which is a directory of this machine. Nothing runs in the sandbox now; what its
/// programs left there stays, and a mount lies over nothing of another kind.
fn point(home: &Path, mount: &ExtraMount) -> Result<(), ExtraMountError> {
    let Ok(name) = mount.target.strip_prefix(AGENT_HOME) else {
        return Ok(());
    };
    let place = home.join(name);
    let is_directory = mount.source.is_dir();
    match place.symlink_metadata() {
        Err(_) if is_directory => Ok(fsx::private_dir(&place)?),
        Err(_) => Ok(fsx::write_private(&place, b"")?),
        Ok(found) if is_directory && found.is_dir() => Ok(()),
        Ok(found) if !is_directory && found.is_file() => Ok(()),
        Ok(_) => Err(ExtraMountError::Target {
            target: mount.target.clone(),
            why: "something else is there in the agent's home".to_owned(),
        }),
    }
}
