//! The launcher: in the host's namespaces, with the caller's uid. It opens what only the caller may
//! open, makes the sandbox's init, maps its ids, and waits until everything in it is dead, or until it is to live on
//! without its launcher.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};

use cofferdam_guest::protocol::{AGENT_ID, Agent, Lifetime, Network, Reply, Setup, Source};

use crate::channel::Channel;
use crate::freezer::Freezer;
use crate::idmap::{self, Maps};
use crate::serve::Resident;
use crate::tree::{Prepared, Refusal, mount_error, shown};
use crate::{init, lacking, layers, sys};

/// The exit code: 0 where a sandbox came up, and ended if it was not to stay.
pub(crate) fn run() -> i32 {
    let Some(mut channel) = open_channel() else {
        return 2;
    };
    let Ok((setup, fds)) = channel.read_setup() else {
        return 2;
    };
    let mut channel = Some(channel);
    match launch(&mut channel, &setup, fds) {
        Ok((init, leave)) => {
            // The sandbox ends when the host closes its end: this copy must not keep it open.
            drop(channel);
            if leave.is_some_and(is_told_to_leave) {
                return 0;
            }
            match sys::wait(init, true) {
                Ok(_) => 0,
                Err(_) => 1,
            }
        }
        Err(refusal) => {
            if let Some(mut channel) = channel {
                let _ = channel.send(&refusal.into());
            }
            1
        }
    }
}

fn open_channel() -> Option<Channel> {
    let socket = sys::take_standard_input().ok()?;
    // Nothing that arrives later may become a standard descriptor.
    sys::install_fd(1, 0).ok()?;
    Some(Channel::new(socket))
}

/// Waits until the sandbox stays without its launcher, or has ended.
fn is_told_to_leave(leave: OwnedFd) -> bool {
    let mut byte = [0u8; 1];
    matches!(File::from(leave).read(&mut byte), Ok(1))
}

/// The sandbox's init, and what tells where it is to live on alone.
fn launch(
    channel: &mut Option<Channel>,
    setup: &Setup,
    fds: Vec<OwnedFd>,
) -> Result<(i32, Option<OwnedFd>), Refusal> {
    let broken = |what: &str| {
        let what = what.to_owned();
        move |error: io::Error| Refusal::Broken(format!("{what}: {error}"))
    };
    let prepared = match setup.agent {
        Agent::Caller => setup.mounts.iter().map(|_| Prepared::Later).collect(),
        Agent::Separate { uid, gid } => {
            let prepared = prepare_all(setup, (uid, gid))?;
            sys::drop_groups().map_err(broken("cannot drop the caller's groups"))?;
            prepared
        }
    };
    let (wait, go) = sys::pipe().map_err(broken("cannot make a pipe"))?;
    let (resident, leave) = match resident(setup.lifetime, fds)? {
        Some((resident, leave)) => (Some(resident), Some(leave)),
        None => (None, None),
    };
    let network = match setup.network {
        Network::None | Network::Wall => sys::NETWORK,
        Network::Open => 0,
    };
    let (init, freezer) =
        fork(setup, sys::NAMESPACES | network).map_err(|error| lacking::namespaces(&error))?;
    if init == 0 {
        drop((go, leave));
        let Some(channel) = channel.take() else {
            sys::exit(2);
        };
        init::run(channel, setup, prepared, &wait, resident, freezer);
    }
    drop((wait, prepared, resident, freezer));
    let (unprivileged, outside) = match setup.agent {
        Agent::Caller => (true, sys::own_ids()),
        Agent::Separate { uid, gid } => (false, (uid, gid)),
    };
    let maps = Maps::single((AGENT_ID, AGENT_ID), outside);
    let released =
        idmap::write_maps(init, &maps, unprivileged).and_then(|()| sys::write_byte(go.as_fd()));
    if let Err(error) = released {
        let _ = sys::kill(init, libc::SIGKILL);
        let _ = sys::wait(init, true);
        return Err(Refusal::Unsupported {
            what: format!("cannot map the ids of a user namespace: {error}"),
            hint: lacking::namespace_hint(&error),
        });
    }
    // Open until this process ends: its hang-up tells the init that the launcher is dead.
    std::mem::forget(go);
    Ok((init, leave))
}

/// Init's number, 0 in itself, and the group for its programs. One that cannot be used here is none.
fn fork(setup: &Setup, flags: i32) -> io::Result<(i32, Option<Freezer>)> {
    let group = setup.group.as_deref();
    if let Some(freezer) = group.and_then(|path| Freezer::open(path).ok())
        && let Ok(init) = sys::fork_within(freezer.own(), flags)
    {
        return Ok((init, Some(freezer)));
    }
    Ok((sys::fork_into(flags)?, None))
}

/// What a sandbox that outlives its maker has, and how its launcher hears that it is to leave.
fn resident(lifetime: Lifetime, fds: Vec<OwnedFd>) -> Result<Option<(Resident, OwnedFd)>, Refusal> {
    let broken = |what: &str| Refusal::Broken(what.to_owned());
    let resident = match lifetime {
        Lifetime::WithConnection if fds.is_empty() => return Ok(None),
        Lifetime::WithConnection => None,
        Lifetime::UntilEnded => {
            let (leave, stays) = sys::pipe().map_err(|error| broken(&error.to_string()))?;
            Resident::new(fds, Some(stays)).map(|resident| (resident, leave))
        }
    };
    let what = "the set-up came with other descriptors than it takes";
    resident.map(Some).ok_or_else(|| broken(what))
}

/// Whether there can be namespaces for a sandbox.
pub(crate) fn try_namespaces() -> Result<(), Refusal> {
    match sys::fork_into(sys::NAMESPACES) {
        Ok(0) => {
            let named = sys::set_hostname(b"cofferdam");
            sys::exit(named.map_or_else(|error| error.raw_os_error().unwrap_or(1), |()| 0));
        }
        Ok(child) => match sys::wait(child, true) {
            Ok(Some((_, status))) if libc::WIFEXITED(status) && status != 0 => {
                let error = io::Error::from_raw_os_error(libc::WEXITSTATUS(status));
                Err(lacking::hostname(&error))
            }
            _ => Ok(()),
        },
        Err(error) => Err(lacking::namespaces(&error)),
    }
}

fn prepare_all(setup: &Setup, agent: (u32, u32)) -> Result<Vec<Prepared>, Refusal> {
    let mut maps = Owners::default();
    setup
        .mounts
        .iter()
        .map(|mount| match &mount.source {
            Source::Nothing | Source::Target | Source::Link(_) => Ok(Prepared::Later),
            Source::Layers { lower, upper } => {
                let prepare = |path: &[u8]| prepare(true, path, agent, &mut maps);
                layers::of_root(lower, upper.as_deref(), setup.lifetime, agent, prepare)
                    .map(Prepared::Ready)
            }
            Source::Path(path) => match prepare(mount.writable, path, agent, &mut maps) {
                Err(_) if mount.optional => Ok(Prepared::Absent),
                other => other.map(Prepared::Ready),
            },
        })
        .collect()
}

/// A map for each owner that was met; none where none can be made.
pub(crate) type Owners = Vec<((u32, u32), Option<OwnedFd>)>;

/// A detached copy whose owner on disk shows as the agent. A file system that cannot do that gives
/// a plain mount where that is not `needed`.
pub(crate) fn prepare(
    needed: bool,
    path: &[u8],
    agent: (u32, u32),
    maps: &mut Owners,
) -> Result<OwnedFd, Refusal> {
    let failed = |error| mount_error(path, &error);
    let source = sys::c_string(path).map_err(failed)?;
    let tree = sys::clone_tree(libc::AT_FDCWD, &source, &sys::TreeKind::Exact).map_err(failed)?;
    let found = sys::look_at(tree.as_fd()).map_err(failed)?;
    let owner = (found.uid, found.gid);
    if owner == agent {
        return Ok(tree);
    }
    let known = maps.iter().position(|(ids, _)| *ids == owner);
    let index = known.unwrap_or_else(|| {
        maps.push((owner, idmap::mount_map(owner, agent).ok()));
        maps.len() - 1
    });
    let mapped = match &maps[index].1 {
        Some(userns) => sys::map_ids(tree.as_fd(), userns.as_fd()),
        None => Err(io::Error::from_raw_os_error(libc::EPERM)),
    };
    match mapped {
        Err(error) if needed => Err(Refusal::Unsupported {
            what: format!(
                "the file system of {} does not map owners (idmapped mounts): {error}",
                shown(path)
            ),
            hint: "run as the ordinary user who owns it, or put it on ext4, xfs or btrfs; \
                   `COFFERDAM_HOME` says where files of Cofferdam's own are"
                .to_owned(),
        }),
        _ => Ok(tree),
    }
}

impl From<Refusal> for Reply {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Unsupported { what, hint } => Self::Unsupported { what, hint },
            Refusal::Broken(what) => Self::Broken { what },
        }
    }
}
