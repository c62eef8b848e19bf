//! Making a container: created, started, met, and left alone only when it is whole.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cofferdam_guest::protocol::{self, Agent, Setup};
use tokio::net::UnixStream;
use tokio_util::sync::CancellationToken;

use super::EngineOptions;
use super::attached::Attached;
use super::client::Client;
use super::environment::environment;
use super::life::{Keeper, labels};
use super::mounts::{self, Bind};
use super::profile::{GUEST, MEETING, Profile};
use super::rendezvous::Rendezvous;
use crate::embedded;
use crate::fsx;
use crate::sandbox::guest::{
    self, Connection, Door, GuestSandbox, Process, bounded, bytes, start_error,
};
use crate::sandbox::{Access, Lifetime, Network, SandboxError, SandboxSpec, identity, limits};

/// Below [`EngineOptions::home`]: where guests are met, and what root mounts for its containers.
const MEETINGS: &str = "meet";
const MOUNTS: &str = "mounts";
/// A directory that stays empty.
const NOTHING: &str = "nothing";
/// How often a container is looked at that does not come.
const LOOK: Duration = Duration::from_millis(500);

/// What one sandbox has of an engine's place on the host.
pub(super) fn meeting(options: &EngineOptions, id: &impl ToString) -> PathBuf {
    options.home.join(MEETINGS).join(id.to_string())
}

pub(super) fn mounted(options: &EngineOptions, id: &impl ToString) -> PathBuf {
    options.home.join(MOUNTS).join(id.to_string())
}

/// A container that is there, and is removed unless it is kept.
struct Newborn<'a> {
    client: &'a Client,
    id: Option<String>,
}

impl Newborn<'_> {
    /// It came to nothing.
    async fn remove(mut self) {
        if let Some(id) = self.id.take() {
            let _ = self.client.remove(&id).await;
        }
    }

    fn keep(mut self) -> String {
        self.id.take().unwrap_or_default()
    }
}

impl Drop for Newborn<'_> {
    fn drop(&mut self) {
        // Only where the future was dropped.
        if let Some(id) = self.id.take() {
            let client = self.client.clone();
            tokio::spawn(async move { client.remove(&id).await });
        }
    }
}

pub(super) async fn make(
    client: &Client,
    options: &EngineOptions,
    spec: &SandboxSpec,
    cancel: &CancellationToken,
) -> Result<GuestSandbox, SandboxError> {
    if cancel.is_cancelled() {
        return Err(SandboxError::Cancelled);
    }
    let door = match &spec.lifetime {
        Lifetime::WithMaker => None,
        Lifetime::UntilRemoved { state } => Some(guest::free_door(spec, state).await?),
    };
    let made = come_up(client, options, spec, door.as_ref(), cancel);
    let made = bounded(made, options.ready_limit, cancel).await;
    if let (Err(_), Some(door)) = (&made, door) {
        door.remove();
    }
    made
}

async fn come_up(
    client: &Client,
    options: &EngineOptions,
    spec: &SandboxSpec,
    door: Option<&Door>,
    cancel: &CancellationToken,
) -> Result<GuestSandbox, SandboxError> {
    let agent = identity::agent(spec.id)?;
    let image = client.image(&options.image).await?;
    fsx::private_dir(&options.home).map_err(|error| SandboxError::Start(error.to_string()))?;
    let rendezvous = Rendezvous::at(&meeting(options, &spec.id)).map_err(start_error)?;
    let (mut binds, own) = binds(options, spec, &rendezvous)?;
    let seen = binds.iter().map(Bind::seen).collect();
    let ids = match agent {
        Agent::Caller => (
            rustix::process::geteuid().as_raw(),
            rustix::process::getegid().as_raw(),
        ),
        Agent::Separate { uid, gid } => (uid, gid),
    };
    let attached = match agent {
        Agent::Caller => None,
        // What is ours can be read by everybody who comes so far.
        Agent::Separate { .. } => {
            let directory = mounted(options, &spec.id);
            Some(Attached::make(&directory, &mut binds[own..], ids).await?)
        }
    };
    let profile = Profile {
        kind: client.kind(),
        image: &options.image,
        hostname: &hostname(&spec.hostname),
        ids,
        labels: HashMap::from(labels(options, spec.id)),
        binds: &binds,
        limits: &spec.limits,
        network: network(&spec.network)?,
        socket: Rendezvous::socket(MEETING),
    };
    let body = profile.body();
    let name = container_name(spec);
    let other = format!("{name}-{}", short(&spec.id.to_string()));
    let newborn = Newborn {
        client,
        id: Some(client.create(&name, &other, &body).await?),
    };
    let id = newborn.id.clone().unwrap_or_default();
    let up = async {
        client.start(&id).await?;
        let (stream, process) = meet(client, &rendezvous, &id).await?;
        // It has them now; from here on nothing of the host's leads there by another name.
        drop((attached, rendezvous));
        let frame = describe(spec, environment(spec, &image), seen)?;
        let way = door.map(Door::bind).transpose().map_err(start_error)?;
        let sent = guest::send(&stream, &frame, &way.unwrap_or_default()).await;
        sent.map_err(start_error)?;
        let given = guest::ready(&stream).await?;
        if !given.is_empty() {
            let what = "its init handed over what nobody asked for";
            return Err(SandboxError::Start(what.to_owned()));
        }
        let Some(door) = door else {
            return Ok((stream, process));
        };
        let ours = door.connect().await?;
        guest::greet(&ours).await?;
        guest::stay(&stream).await?;
        Ok((ours, process))
    };
    let (stream, process) = match bounded(up, options.ready_limit, cancel).await {
        Ok(up) => up,
        Err(error) => {
            newborn.remove().await;
            return Err(error);
        }
    };
    let container = newborn.keep();
    let lives_on = door.is_some();
    let (client, connection) = (client.clone(), Connection::new(stream));
    let end = Keeper::new(client, container, process, lives_on);
    Ok(GuestSandbox {
        connection,
        agent,
        end: Box::new(end),
        wall: None,
    })
}

/// What the container sees, and how many of these are ours alone, which everybody may read.
fn binds(
    options: &EngineOptions,
    spec: &SandboxSpec,
    rendezvous: &Rendezvous,
) -> Result<(Vec<Bind>, usize), SandboxError> {
    let guest = embedded::guest_file(&options.home).map_err(start_error)?;
    let nothing = options.home.join(NOTHING);
    match std::fs::create_dir(&nothing) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            return Err(start_error(error));
        }
        _ => {}
    }
    let read_only = Access::ReadOnly;
    let mut binds = vec![
        Bind::of(&guest, Path::new(GUEST), read_only)?,
        Bind::of(rendezvous.directory(), Path::new(MEETING), read_only)?,
    ];
    let own = binds.len();
    binds.extend(mounts::plan(&spec.mounts, &nothing)?);
    Ok((binds, own))
}

/// The guest of this container, and no other: programs inside could find the way too, but none runs before it was met.
async fn meet(
    client: &Client,
    rendezvous: &Rendezvous,
    id: &str,
) -> Result<(UnixStream, Process), SandboxError> {
    let ended = || SandboxError::Start("its container ended before it was ready".to_owned());
    let stream = loop {
        match tokio::time::timeout(LOOK, rendezvous.accept()).await {
            Ok(met) => break met.map_err(start_error)?,
            Err(_) => match client.look(id).await? {
                Some(one) if one.process.is_some() => {}
                Some(one) => return Err(one.problem.map_or_else(ended, SandboxError::Start)),
                None => return Err(ended()),
            },
        }
    };
    let theirs = stream.peer_cred().map_err(start_error)?.pid();
    let process = Process::of(&stream)?;
    let container = client.look(id).await?.ok_or_else(ended)?;
    if theirs.map(i64::from) != container.process {
        return Err(SandboxError::Start(
            "somebody else came in its container's place".to_owned(),
        ));
    }
    Ok((stream, process))
}

fn describe(
    spec: &SandboxSpec,
    environment: std::collections::BTreeMap<std::ffi::OsString, std::ffi::OsString>,
    seen: Vec<protocol::Seen>,
) -> Result<Vec<u8>, SandboxError> {
    use std::os::unix::ffi::OsStrExt;
    let mut limits = limits::of(&spec.limits, None, limits::file_table());
    // The engine counts them. Here it would be all of the user's, of the whole machine.
    limits.processes = None;
    let setup = Setup {
        hostname: String::new(),
        // It was started with the agent's ids already.
        agent: Agent::Caller,
        mounts: Vec::new(),
        limits,
        workdir: spec.workdir.as_os_str().as_bytes().to_vec(),
        environment: bytes(environment),
        network: protocol::Network::None,
        lifetime: match spec.lifetime {
            Lifetime::WithMaker => protocol::Lifetime::WithConnection,
            Lifetime::UntilRemoved { .. } => protocol::Lifetime::UntilEnded,
        },
        group: None,
        seen,
    };
    protocol::encode(&setup).map_err(|error| SandboxError::Unsupported {
        what: format!("cannot describe the sandbox to its init: {error}"),
        hint: "mount fewer or shorter paths".to_owned(),
    })
}

/// The engine's name for it.
fn network(network: &Network) -> Result<&'static str, SandboxError> {
    match network {
        Network::None => Ok("none"),
        Network::Open => Ok("bridge"),
        Network::Wall(_) => Err(SandboxError::Unsupported {
            what: "containers have no wall yet".to_owned(),
            hint: "give it no network: `--network none`".to_owned(),
        }),
    }
}

/// What sethostname(2) takes.
fn hostname(wanted: &str) -> String {
    let usable = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    wanted.chars().filter(usable).take(63).collect()
}

fn container_name(spec: &SandboxSpec) -> String {
    let name = hostname(&spec.hostname);
    if name.is_empty() {
        return format!("cofferdam-{}", short(&spec.id.to_string()));
    }
    name
}

fn short(id: &str) -> &str {
    &id[..8.min(id.len())]
}
