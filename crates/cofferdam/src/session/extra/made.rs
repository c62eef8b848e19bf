//! From what was asked for to mounts of a sandbox, in the order in which they lie over one another.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

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

/// One mount that was looked through.
#[derive(Debug)]
struct Looked {
    mount: ExtraMount,
    is_directory: bool,
    below: Below,
}

/// How long a look at one mount may take: as long as a disk needs for as much as may be in it.
const LOOK_LIMIT: Duration = Duration::from_secs(300);
/// And one at its path alone.
const PATH_LIMIT: Duration = Duration::from_secs(20);

/// What was asked for, by its real paths. Refuses what no sandbox gets, before anything is made. Bounded: 20 s for each.
pub(in crate::session) async fn check<E: From<PlanError> + From<RegistryError>>(
    asked: &[ExtraMount],
    beside: Beside<'_>,
) -> Result<Vec<ExtraMount>, E> {
    if asked.is_empty() {
        return Ok(Vec::new());
    }
    target::check(asked).map_err(PlanError::from)?;
    let around = Arc::new(beside.around(Vec::new())?);
    let admitted = each(asked, beside.caller, PATH_LIMIT, move |mount| {
        source::admit(mount, &around)
    });
    Ok(admitted.await.map_err(PlanError::from)?)
}

/// Looks at one after the other, each beside everything else that this process does. What lies on a server that is gone keeps its
/// looker for ever: that one is left to itself.
async fn each<T: Send + 'static>(
    all: &[ExtraMount],
    caller: &Caller,
    limit: Duration,
    look: impl Fn(&ExtraMount) -> Result<T, ExtraMountError> + Clone + Send + 'static,
) -> Result<Vec<T>, ExtraMountError> {
    let mut done = Vec::new();
    for mount in all {
        let path = &mount.source;
        let (look, mount) = (look.clone(), mount.clone());
        let looked = tokio::task::spawn_blocking(move || look(&mount));
        let looked = tokio::select! {
            () = caller.cancel.cancelled() => return Err(ExtraMountError::Cancelled),
            looked = tokio::time::timeout(limit, looked) => looked,
        };
        let path = path.clone();
        match looked {
            Err(_) => return Err(ExtraMountError::Slow { path, limit }),
            Ok(Err(error)) => return Err(FileError::new("look at", path, error.into()).into()),
            Ok(Ok(looked)) => done.push(looked?),
        }
    }
    Ok(done)
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
        let around = Arc::new(self.around(config.steering.paths(repository, user_home))?);
        target::check(recorded).map_err(PlanError::from)?;
        let looked = each(recorded, caller, LOOK_LIMIT, move |mount| {
            look(mount, &around)
        });
        let looked = looked.await.map_err(PlanError::from)?;
        let (mounts, frozen) = make(&looked, state, home).map_err(PlanError::from)?;
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

fn look(mount: &ExtraMount, around: &Around) -> Result<Looked, ExtraMountError> {
    source::admit_again(mount, around)?;
    Ok(Looked {
        mount: mount.clone(),
        is_directory: mount.source.is_dir(),
        below: below::look(mount)?,
    })
}

/// The mounts, and where inside they are read-only though they are asked for otherwise.
fn make(
    looked: &[Looked],
    state: &Path,
    home: Option<&Path>,
) -> Result<(Vec<Mount>, Vec<PathBuf>), ExtraMountError> {
    let (mut mounts, mut frozen) = (Vec::new(), Vec::new());
    let read_only = |source: MountSource, target: PathBuf| Mount {
        source,
        target,
        access: Access::ReadOnly,
    };
    for Looked {
        mount,
        is_directory,
        below,
    } in looked
    {
        if let Some(home) = home {
            point(home, mount, *is_directory)?;
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
fn point(home: &Path, mount: &ExtraMount, is_directory: bool) -> Result<(), ExtraMountError> {
    let Ok(name) = mount.target.strip_prefix(AGENT_HOME) else {
        return Ok(());
    };
    let place = home.join(name);
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

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, mpsc};

    use super::*;
    use crate::home::Home;

    /// What is looked at by `look` does not answer as long as the sender is there.
    #[tokio::test]
    async fn what_does_not_answer_is_given_up() {
        let mount = ExtraMount {
            source: "/server/gone".into(),
            target: "/mnt/gone".into(),
            writable: false,
        };
        let caller = Caller::new(Home::new("/none"));
        let (answers, silence) = mpsc::channel::<()>();
        let silence = Arc::new(Mutex::new(silence));
        let look = |limit| {
            let silence = Arc::clone(&silence);
            let waits = move |_: &ExtraMount| {
                let _ = silence.lock().unwrap().recv();
                Ok(())
            };
            each(std::slice::from_ref(&mount), &caller, limit, waits)
        };
        let slow = look(Duration::from_millis(20)).await.unwrap_err();
        assert!(
            slow.to_string().starts_with("cannot mount /server/gone: "),
            "{slow}"
        );
        caller.cancel.cancel();
        let cancelled = look(Duration::from_secs(30)).await.unwrap_err();
        assert!(
            matches!(cancelled, ExtraMountError::Cancelled),
            "{cancelled}"
        );
        drop(answers);
    }
}
