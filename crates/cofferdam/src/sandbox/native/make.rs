//! Making a sandbox: set up over the control socket, and left alone only when it is whole.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use cofferdam_guest::protocol::{self, Agent, SPOKEN, Setup, SetupMount, Source};
use tokio::net::UnixStream;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::cgroup::Group;
use super::host::Host;
use super::launch::Starting;
use super::life::{UntilRemoved, WithMaker};
use super::{NativeOptions, tools};
use crate::sandbox::guest::{
    self, Connection, Door, End, GuestSandbox, Process, Provisional, bounded, bytes, raise_wall,
    start_error,
};
use crate::sandbox::{
    Access, Handle, Lifetime, Mount, MountSource, Network, SandboxError, SandboxSpec, identity,
    limits,
};
use crate::wall::Registration;

/// A sandbox that has come up.
struct Up {
    wall: Option<Registration>,
    /// Of one that is to outlive its maker: the connection by which it is used from now on, and its init.
    living: Option<(UnixStream, Provisional)>,
}

pub(super) async fn make(
    spec: &SandboxSpec,
    options: &NativeOptions,
    cancel: &CancellationToken,
) -> Result<GuestSandbox, SandboxError> {
    if cancel.is_cancelled() {
        return Err(SandboxError::Cancelled);
    }
    let door = match &spec.lifetime {
        Lifetime::WithMaker => None,
        Lifetime::UntilRemoved { state } => Some(guest::free_door(spec, state).await?),
    };
    let agent = identity::agent(spec.id)?;
    let mut group = Group::create(spec.id, &spec.limits)?;
    if let (true, Lifetime::UntilRemoved { state }) = (options.freezer, &spec.lifetime) {
        group.make_freezer(spec.id, agent, state);
    }
    let frame = describe(spec, options, agent, &group)?;
    let (maker, launcher) = guest::spawn(None)?;
    // From here on the keeper's drop ends what was started.
    let starting = Starting {
        launcher: Some(launcher),
        group: Some(group),
    };
    let up = come_up(spec, &frame, &maker, &starting, door.as_ref());
    let Up { wall, living } = match bounded(up, options.ready_limit, cancel).await {
        Ok(up) => up,
        Err(error) => {
            drop(maker);
            starting.finish().await;
            if let Some(door) = door {
                door.remove();
            }
            return Err(error);
        }
    };
    let (connection, end): (_, Box<dyn End>) =
        if let (Some((used, init)), Lifetime::UntilRemoved { state }) = (living, &spec.lifetime) {
            let (id, state) = (spec.id, state.clone());
            let handle = Handle { id, state };
            let end = UntilRemoved::of_maker(handle, maker, init, starting);
            (Connection::new(used), Box::new(end))
        } else {
            let (connection, end) = keep(maker, starting);
            (connection, Box::new(end))
        };
    Ok(GuestSandbox {
        connection,
        version: SPOKEN,
        agent,
        end,
        wall,
    })
}

/// Everything until the sandbox is whole.
async fn come_up(
    spec: &SandboxSpec,
    frame: &[u8],
    stream: &UnixStream,
    starting: &Starting,
    door: Option<&Door>,
) -> Result<Up, SandboxError> {
    starting.join_group()?;
    let way = door.map(Door::bind).transpose().map_err(start_error)?;
    let fds = way.unwrap_or_default();
    let sent = guest::send(stream, frame, &fds).await;
    drop(fds);
    sent.map_err(start_error)?;
    let sockets = guest::ready(stream).await?;
    let wall = raise_wall(stream, sockets, &spec.network).await?;
    let Some(door) = door else {
        return Ok(Up { wall, living: None });
    };
    let ours = door.connect().await?;
    let init = Provisional::new(Arc::new(Process::of(&ours)?));
    guest::greet(&ours).await?;
    Ok(Up {
        wall,
        living: Some((ours, init)),
    })
}

/// It lives as long as its connection, and this process.
fn keep(stream: UnixStream, starting: Starting) -> (Connection, WithMaker) {
    let connection = Connection::new(stream);
    let memory = starting.memory();
    let (gone, closed) = watch::channel(false);
    let keeper = connection.clone();
    tokio::spawn(async move {
        keeper.ended().await;
        starting.finish().await;
        gone.send_replace(true);
    });
    (connection, WithMaker { closed, memory })
}

/// The first frame.
fn describe(
    spec: &SandboxSpec,
    options: &NativeOptions,
    agent: Agent,
    group: &Group,
) -> Result<Vec<u8>, SandboxError> {
    let offered = tools::offered(&Host {
        search_path: spec.search_path.as_deref(),
        home: spec.caller_home.as_deref(),
        programs: &spec.programs,
        unseen: &spec.unseen,
    });
    let environment = tools::environment(spec, &offered);
    let mut mounts = offered.mounts;
    mounts.extend(spec.mounts.iter().map(setup_mount));
    let setup = Setup {
        hostname: hostname(&spec.hostname),
        agent,
        mounts,
        limits: limits::of(&spec.limits, options.file_size, limits::file_table()),
        workdir: spec.workdir.as_os_str().as_bytes().to_vec(),
        environment: bytes(environment),
        network: match spec.network {
            Network::None => protocol::Network::None,
            Network::Wall(_) => protocol::Network::Wall,
            Network::Open => protocol::Network::Open,
        },
        lifetime: match spec.lifetime {
            Lifetime::WithMaker => protocol::Lifetime::WithConnection,
            Lifetime::UntilRemoved { .. } => protocol::Lifetime::UntilEnded,
        },
        group: group
            .freezer()
            .map(|group| group.as_os_str().as_bytes().to_vec()),
        seen: Vec::new(),
        expected: None,
        root: false,
    };
    protocol::encode(&setup).map_err(|error| SandboxError::Unsupported {
        what: format!("cannot describe the sandbox to its init: {error}"),
        hint: "mount fewer or shorter paths".to_owned(),
    })
}

/// What is left of it fits sethostname(2) and a line of `/etc/hosts`.
fn hostname(wanted: &str) -> String {
    let usable = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    wanted.chars().filter(usable).take(63).collect()
}

fn path_bytes(path: &Path) -> Vec<u8> {
    path.as_os_str().as_bytes().to_vec()
}

fn setup_mount(mount: &Mount) -> SetupMount {
    SetupMount {
        source: match &mount.source {
            MountSource::Path(path) => Source::Path(path_bytes(path)),
            MountSource::Layers { lower, upper } => Source::Layers {
                lower: lower.iter().map(|path| path_bytes(path)).collect(),
                upper: upper.as_deref().map(path_bytes),
            },
            MountSource::Nothing => Source::Nothing,
            MountSource::Target => Source::Target,
        },
        target: mount.target.as_os_str().as_bytes().to_vec(),
        writable: mount.access == Access::ReadWrite,
        optional: false,
    }
}
