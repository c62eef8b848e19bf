//! The launcher: in the host's namespaces, with the caller's uid. It opens what only the caller may
//! open, makes the sandbox's init, maps its ids, and waits until everything in it is dead.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use cofferdam_guest::protocol::{AGENT_ID, Agent, Network, Reply, Setup, SetupMount, Source};

use crate::channel::Channel;
use crate::idmap::{self, Maps};
use crate::tree::{Prepared, Refusal, mount_error, shown};
use crate::{init, sys};

/// The exit code: 0 where a sandbox came up and ended.
pub(crate) fn run() -> i32 {
    let Some(mut channel) = open_channel() else {
        return 2;
    };
    let Ok(setup) = channel.read_setup() else {
        return 2;
    };
    match launch(&mut channel, &setup) {
        Ok(init) => {
            // The sandbox ends when the host closes its end: this copy must not keep it open.
            drop(channel);
            match sys::wait(init, true) {
                Ok(_) => 0,
                Err(_) => 1,
            }
        }
        Err(refusal) => {
            let _ = channel.send(&refusal.into());
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

fn launch(channel: &mut Channel, setup: &Setup) -> Result<i32, Refusal> {
    let broken = |what: &str| {
        let what = what.to_owned();
        move |error: io::Error| Refusal::Broken(format!("{what}: {error}"))
    };
    let prepared = match setup.agent {
        Agent::Caller => setup.mounts.iter().map(|_| Prepared::Later).collect(),
        Agent::Separate { uid, gid } => {
            let prepared = prepare_all(&setup.mounts, (uid, gid))?;
            sys::drop_groups().map_err(broken("cannot drop the caller's groups"))?;
            prepared
        }
    };
    let (wait, go) = sys::pipe().map_err(broken("cannot make a pipe"))?;
    let network = match setup.network {
        Network::None | Network::Wall => sys::NETWORK,
        Network::Open => 0,
    };
    let init = sys::fork_into(sys::NAMESPACES | network).map_err(|error| Refusal::Unsupported {
        what: format!("this machine refuses user namespaces: {error}"),
        hint: namespace_hint(&error),
    })?;
    if init == 0 {
        drop(go);
        init::run(channel, setup, prepared, &wait);
    }
    drop((wait, prepared));
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
            hint: namespace_hint(&error),
        });
    }
    // Open until this process ends: its hang-up tells the init that the launcher is dead.
    std::mem::forget(go);
    Ok(init)
}

fn namespace_hint(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::ENOSPC | libc::EUSERS) => {
            "raise the sysctl `user.max_user_namespaces`".to_owned()
        }
        Some(libc::EPERM | libc::EACCES) => {
            "allow user namespaces: see `cofferdam doctor` (sysctl `kernel.unprivileged_userns_clone`, \
             or on Ubuntu an AppArmor profile with `userns`)"
                .to_owned()
        }
        _ => "see `cofferdam doctor`".to_owned(),
    }
}

fn prepare_all(mounts: &[SetupMount], agent: (u32, u32)) -> Result<Vec<Prepared>, Refusal> {
    let mut maps: Vec<((u32, u32), Option<OwnedFd>)> = Vec::new();
    mounts
        .iter()
        .map(|mount| match &mount.source {
            Source::Nothing | Source::Target | Source::Link(_) => Ok(Prepared::Later),
            Source::Path(path) => match prepare(mount, path, agent, &mut maps) {
                Err(_) if mount.optional => Ok(Prepared::Absent),
                other => other.map(Prepared::Ready),
            },
        })
        .collect()
}

/// A detached copy whose owner on disk shows as the agent. A file system that cannot do that gives
/// a plain mount where it is only to be read.
fn prepare(
    mount: &SetupMount,
    path: &[u8],
    agent: (u32, u32),
    maps: &mut Vec<((u32, u32), Option<OwnedFd>)>,
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
        Err(error) if mount.writable => Err(Refusal::Unsupported {
            what: format!(
                "the file system of {} does not map owners (idmapped mounts): {error}",
                shown(path)
            ),
            hint: "run as the ordinary user who owns it, or put it on ext4, xfs or btrfs"
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
