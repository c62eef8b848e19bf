//! Making a container: created, started, met, and left alone only when it is whole.

use std::path::Path;
use std::sync::Arc;

use cofferdam_guest::protocol::{self, Agent, SPOKEN, Setup};
use tokio::net::UnixStream;
use tokio_util::sync::CancellationToken;

use super::Kind;
use super::about::unfiltered;
use super::astray;
use super::attached::{Attached, Owner};
use super::client::Client;
use super::environment::{environment, of_the_container};
use super::etc;
use super::filter;
use super::guest_file::GuestFile;
use super::holder::{Held, Holder};
use super::holding::{GENERIC, Holding};
use super::image::Chosen;
use super::inside::Inside;
use super::life::{Keeper, Maker};
use super::mounts::{self, Bind, Laid};
use super::namespaces;
use super::newborn::{Newborn, go_on, meet, short};
use super::places::{meeting, mounted, nothing, wall_meeting};
use super::profile::{self, Body, OF_CALLER, Profile};
use super::reach::Reach;
use super::record::Made;
use super::rendezvous::Rendezvous;
use super::shown::{HOLDER, command};
use super::users::Users;
use super::whose::Whose;
use crate::authorities;
use crate::fsx;
use crate::names::RepoPath;
use crate::path_json::PathText;
use crate::sandbox::guest::{
    self, Connection, Door, GuestSandbox, Provisional, Staying, bounded, bytes, raise_wall,
    start_error,
};
use crate::sandbox::{
    Access, Lifetime, Mount, MountSource, Network, SandboxError, SandboxSpec, examined, identity,
    limits,
};

pub(super) async fn make(
    reach: &Arc<Reach>,
    client: &Client,
    image: &Chosen,
    spec: &SandboxSpec,
    cancel: &CancellationToken,
) -> Result<(GuestSandbox, Made), SandboxError> {
    if cancel.is_cancelled() {
        return Err(SandboxError::Cancelled);
    }
    let door = match &spec.lifetime {
        Lifetime::WithMaker => None,
        Lifetime::UntilRemoved { state } => Some(guest::free_door(spec, state).await?),
    };
    // An engine's step is waited for, because it goes on whoever waits; what a guest does is not.
    let made = come_up(reach, client, image, spec, door.as_ref(), cancel).await;
    if let (Err(_), Some(door)) = (&made, door) {
        door.remove();
    }
    // Nothing of the host's leads there by another name now.
    made.map(|up| (up.sandbox, up.made))
}

/// A sandbox that has come up.
pub(super) struct Up {
    pub(super) sandbox: GuestSandbox,
    /// Where it was met: whoever lets that go takes its files away too.
    pub(super) rendezvous: Rendezvous,
    pub(super) inside: Inside,
    pub(super) made: Made,
}

pub(super) async fn come_up(
    reach: &Arc<Reach>,
    client: &Client,
    image: &Chosen,
    spec: &SandboxSpec,
    door: Option<&Door>,
    cancel: &CancellationToken,
) -> Result<Up, SandboxError> {
    let options = &reach.options;
    let given = Given::find(reach, client, spec).await?;
    let wall_meeting = wall_meeting(options, &spec.id);
    let holding = Holding {
        client,
        options,
        id: spec.id,
        hostname: &given.hostname,
        labels: given.whose.labels(),
        guest: &given.guest,
        meeting: &wall_meeting,
        limit: options.ready_limit,
        cancel,
    };
    let holder = match &spec.network {
        // What is ready has no name.
        Network::Wall(_) if spec.named => Some(Holder::create(&holding).await?),
        Network::Wall(_) => Some(Holder::find(&holding).await?),
        Network::None | Network::Open => None,
    };
    let rendezvous = Rendezvous::at(&meeting(options, &spec.id)).map_err(start_error)?;
    let owner = match given.agent {
        Agent::Separate { uid, gid } => Some(Owner::Root(uid, gid)),
        Agent::Caller if given.users.rootless() && has_layers(&spec.mounts) => {
            Some(Owner::Engine([namespaces::process(client, options)?]))
        }
        Agent::Caller => None,
    };
    let begin = |owner| Attached::begin(&mounted(options, &spec.id), owner, lifetime(spec));
    let mut attached = owner.map(begin).transpose()?;
    let layered = match &mut attached {
        Some(attached) => attached.layers(&spec.mounts).await?,
        None => Vec::new(),
    };
    let mut container =
        Container::plan(reach, client, image, spec, &given, (&rendezvous, &layered))?;
    let seen = container.binds.iter().map(Bind::seen).collect();
    if let Some(attached) = &mut attached {
        let ours = container.ours;
        attached.binds(&mut container.binds[ours..]).await?;
    }
    mounts::can_be_told(client.kind(), &container.binds)?;
    let names = container_names(spec);
    go_on(cancel)?;
    let (agent, whose) = (given.agent, &given.whose);
    let inside = container.inside.clone();
    let body = |holder: Option<&Holder<'_>>| container.body(holder.map(Holder::network));
    let waited = holder.as_ref().is_some_and(Holder::waited);
    let made = body(holder.as_ref());
    Box::pin(astray::check(
        client,
        options,
        (spec.id, whose),
        image,
        (&made, &inside),
    ))
    .await?;
    go_on(cancel)?;
    let expected = astray::expected(&made, image);
    let planned = Made {
        command: command(client.spoken(), &names[0], &made),
        root: container.has_root(),
        volumes: Some(
            image
                .volumes
                .iter()
                .map(astray::plain)
                .map(PathText)
                .collect(),
        ),
        ..profile::planned(&made)
    };
    // What was looked at, whatever its name means by now.
    let exact = |made: Body| Body {
        image: Some(image.exact().to_owned()),
        ..made
    };
    let (mut holder, newborn) = match both(client, holder, &names, exact(made)).await {
        // Whatever became of one that waited.
        Err(_) if waited && !cancel.is_cancelled() => {
            let holder = Holder::create(&holding).await?;
            let made = exact(body(Some(&holder)));
            both(client, Some(holder), &names, made).await?
        }
        done => done?,
    };
    go_on(cancel)?;
    client.start(newborn.id()).await?;
    let met = meet(client, &rendezvous, newborn.id(), &given.guest);
    let (stream, process) = bounded(met, options.ready_limit, cancel).await?;
    is_filtered(client.kind(), &stream)?;
    // It has them now.
    drop(attached);
    let root = container.has_root();
    let variables = environment(spec, &image.variables, &inside.authorities());
    let frame = describe(spec, variables, (seen, expected), &given, root)?;
    let mut fds = holder.as_mut().map(Held::take_sockets).unwrap_or_default();
    if let (true, Lifetime::UntilRemoved { state }) = (root, &spec.lifetime) {
        let listener = Door::at(state)?.of_root().bind_alone();
        fds.push(listener.map_err(start_error)?);
    }
    fds.extend(
        door.map(Door::bind)
            .transpose()
            .map_err(start_error)?
            .unwrap_or_default(),
    );
    let sent = guest::send(&stream, &frame, &fds).await;
    drop(fds);
    sent.map_err(start_error)?;
    let ready = guest::ready(&stream);
    let sockets = bounded(ready, options.ready_limit, cancel).await?;
    let mut containers = vec![newborn.id().to_owned()];
    // The namespace is the agent's container's now.
    if let Some(holder) = holder {
        containers.push(holder.id().to_owned());
        holder.leave();
    }
    let raised = raise_wall(&stream, sockets, &spec.network);
    let wall = bounded(raised, options.ready_limit, cancel).await?;
    let (stream, maker) = match door {
        None => (stream, None),
        Some(door) => {
            let found = async {
                let ours = door.connect().await?;
                guest::greet(&ours).await?;
                Ok(ours)
            };
            let ours = bounded(found, options.ready_limit, cancel).await?;
            (ours, Some(stream))
        }
    };
    newborn.keep();
    let made = Made {
        containers: containers.clone(),
        ..planned
    };
    let process = Arc::new(process);
    let staying = match maker {
        None => Staying::already(),
        Some(stream) => Staying::with(Maker {
            stream,
            guest: Provisional::new(Arc::clone(&process)),
        }),
    };
    let end = Keeper {
        reach: Arc::clone(reach),
        whose: whose.clone().with(containers),
        process,
        lives_on: door.is_some(),
        staying,
    };
    let sandbox = GuestSandbox {
        connection: Connection::new(stream),
        version: SPOKEN,
        agent,
        end: Box::new(end),
        wall,
    };
    Ok(Up {
        sandbox,
        rendezvous,
        inside,
        made,
    })
}

/// Who a sandbox's programs are, and what its container is called and shown by.
struct Given {
    agent: Agent,
    users: Users,
    /// Never 0.
    ids: (u32, u32),
    hostname: String,
    guest: GuestFile,
    whose: Whose,
}

impl Given {
    async fn find(
        reach: &Reach,
        client: &Client,
        spec: &SandboxSpec,
    ) -> Result<Self, SandboxError> {
        let options = &reach.options;
        let agent = identity::agent(spec.id)?;
        let users = client.users()?;
        client.can_limit(&spec.limits).await?;
        for path in spec.mounts.iter().flat_map(|mount| mount.source.shows()) {
            client.may_have(path).await?;
        }
        let private = fsx::private_dir(&options.home);
        private.map_err(|error| SandboxError::Start(error.to_string()))?;
        Ok(Self {
            agent,
            users,
            ids: match agent {
                Agent::Caller => (
                    rustix::process::geteuid().as_raw(),
                    rustix::process::getegid().as_raw(),
                ),
                Agent::Separate { uid, gid } => (uid, gid),
            },
            hostname: match spec.network {
                Network::Wall(_) if client.kind().shares_hostname() && !spec.named => {
                    GENERIC.to_owned()
                }
                _ => hostname(&spec.hostname),
            },
            guest: GuestFile::find(&options.home)?,
            whose: Whose::made(options, spec.id, spec.repository.as_ref()),
        })
    }
}

/// The agent's container, before anything of it is there.
struct Container<'a> {
    kind: Kind,
    image: &'a Chosen,
    given: &'a Given,
    spec: &'a SandboxSpec,
    binds: Vec<Bind>,
    inside: Inside,
    /// So many at the beginning can be read by everybody who comes so far.
    ours: usize,
    filter: String,
    runtime: Option<String>,
    environment: Vec<String>,
}

impl<'a> Container<'a> {
    /// `layered`: where directories lie over one another that are to.
    fn plan(
        reach: &Reach,
        client: &Client,
        image: &'a Chosen,
        spec: &'a SandboxSpec,
        given: &'a Given,
        (rendezvous, layered): (&Rendezvous, &[Laid]),
    ) -> Result<Self, SandboxError> {
        let options = &reach.options;
        let inside = Inside::random()?;
        let mut binds = own(&inside, &given.guest, rendezvous)?;
        let names = etc::write(rendezvous, &given.hostname, &spec.network, given.ids)?;
        binds.extend(names);
        let ours = binds.len();
        let nothing = nothing(options)?;
        if given.users == Users::Mapped {
            // In a user namespace an engine shows the host's, with the names of its devices.
            binds.push(Bind::of(&nothing, Path::new("/sys"), Access::ReadOnly)?);
        }
        binds.extend(mounts::plan(&spec.mounts, &nothing, layered)?);
        Ok(Self {
            kind: client.kind(),
            image,
            given,
            spec,
            binds,
            ours,
            filter: filter::option(client.kind(), given.users, options)?,
            runtime: options.runtime.clone(),
            environment: of_the_container(spec, &image.variables, &inside.authorities()),
            inside,
        })
    }

    /// `joined`: the network of a holder, where there is a wall.
    fn body(&self, joined: Option<String>) -> Body {
        let Self {
            kind, given, spec, ..
        } = self;
        // The network is of the user namespace that it was made in.
        let namespace = (given.users == Users::Kept)
            .then(|| joined.clone().unwrap_or_else(|| OF_CALLER.to_owned()));
        let network = match (&spec.network, joined) {
            (Network::Open, _) => kind.open_network().to_owned(),
            (_, Some(network)) => network,
            (_, None) => "none".to_owned(),
        };
        let profile = Profile {
            kind: *kind,
            image: &self.image.name,
            hostname: &given.hostname,
            ids: given.ids,
            labels: given.whose.labels(),
            binds: &self.binds,
            limits: &spec.limits,
            network: &network,
            namespace,
            users: given.users,
            memory_of_machine: memory_of_machine(),
            filter: self.filter.clone(),
            runtime: self.runtime.clone(),
            root: self.has_root(),
            guest: self.inside.guest(),
            socket: Rendezvous::socket(&self.inside.meeting()),
            environment: self.environment.clone(),
        };
        profile.body()
    }

    /// Whoever's the engine is is root in its containers already, and what lies in them is theirs.
    fn has_root(&self) -> bool {
        let stays = matches!(self.spec.lifetime, Lifetime::UntilRemoved { .. });
        self.spec.root && stays && self.given.users != Users::Mapped
    }
}

/// The command that would make the agent's container. Nothing is made, and nothing stays.
pub(super) async fn show(
    reach: &Reach,
    client: &Client,
    image: &Chosen,
    spec: &SandboxSpec,
) -> Result<Vec<String>, SandboxError> {
    let given = Given::find(reach, client, spec).await?;
    let rendezvous = Rendezvous::at(&meeting(&reach.options, &spec.id)).map_err(start_error)?;
    let container = Container::plan(reach, client, image, spec, &given, (&rendezvous, &[]))?;
    mounts::can_be_told(client.kind(), &container.binds)?;
    let joined = matches!(spec.network, Network::Wall(_)).then(|| HOLDER.to_owned());
    let names = container_names(spec);
    Ok(command(client.spoken(), &names[0], &container.body(joined)))
}

/// Whether directories can lie over one another for the caller: whoever does that has to have mounted them before the engine is
/// asked, where it sees them.
pub(super) fn can_lay(client: &Client) -> Result<(), SandboxError> {
    if rustix::process::geteuid().is_root() || client.users()?.rootless() {
        return Ok(());
    }
    Err(mounts::no_layers())
}

/// What an engine says of its filter is what it was told; the kernel says what its container has. The guest adds none to its own
/// process.
fn is_filtered(kind: Kind, guest: &UnixStream) -> Result<(), SandboxError> {
    let process = guest.peer_cred().map_err(start_error)?.pid();
    match process.and_then(examined::is_filtered) {
        Some(true) => Ok(()),
        _ => Err(unfiltered(kind)),
    }
}

/// What this machine has, in bytes.
fn memory_of_machine() -> u64 {
    let system = rustix::system::sysinfo();
    system.totalram.saturating_mul(system.mem_unit.into())
}

fn has_layers(mounts: &[Mount]) -> bool {
    let mut sources = mounts.iter().map(|mount| &mount.source);
    sources.any(|source| matches!(source, MountSource::Layers { .. }))
}

/// The engine makes the one while the other's wall comes up.
async fn both<'a>(
    client: &'a Client,
    holder: Option<Holder<'a>>,
    names: &[String],
    body: Body,
) -> Result<(Option<Held<'a>>, Newborn<'a>), SandboxError> {
    let stands = async {
        match holder {
            Some(holder) => holder.start().await.map(Some),
            None => Ok(None),
        }
    };
    tokio::try_join!(stands, Newborn::create(client, names.to_vec(), body))
}

/// What every container sees: its process 1, where that meets its maker, and whom this machine believes.
fn own(
    inside: &Inside,
    guest: &GuestFile,
    rendezvous: &Rendezvous,
) -> Result<Vec<Bind>, SandboxError> {
    let read_only = Access::ReadOnly;
    let mut binds = vec![
        Bind::of(guest.path(), Path::new(&inside.guest()), read_only)?,
        Bind::of(
            rendezvous.directory(),
            Path::new(&inside.meeting()),
            read_only,
        )?,
    ];
    if let Some(bundle) = authorities::bundle() {
        let place = inside.authorities();
        binds.push(Bind::of(&bundle, Path::new(&place), read_only)?);
    }
    Ok(binds)
}

fn describe(
    spec: &SandboxSpec,
    environment: std::collections::BTreeMap<std::ffi::OsString, std::ffi::OsString>,
    (seen, expected): (Vec<protocol::Seen>, protocol::Expected),
    given: &Given,
    root: bool,
) -> Result<Vec<u8>, SandboxError> {
    use std::os::unix::ffi::OsStrExt;
    let mut limits = limits::of(&spec.limits, None, limits::file_table());
    if !given.users.rootless() {
        // The engine counts them. Here it would be all of the user's, of the whole machine.
        limits.processes = None;
    }
    let setup = Setup {
        hostname: String::new(),
        agent: match (root, given.ids) {
            (true, (uid, gid)) => Agent::Separate { uid, gid },
            // It was started with the agent's ids, or has taken them already.
            (false, _) => Agent::Caller,
        },
        mounts: Vec::new(),
        limits,
        workdir: spec.workdir.as_os_str().as_bytes().to_vec(),
        environment: bytes(environment),
        network: match spec.network {
            Network::None => protocol::Network::None,
            Network::Wall(_) => protocol::Network::Wall,
            Network::Open => protocol::Network::Open,
        },
        lifetime: lifetime(spec),
        group: None,
        seen,
        expected: Some(expected),
        root,
    };
    protocol::encode(&setup).map_err(|error| SandboxError::Unsupported {
        what: format!("cannot describe the sandbox to its init: {error}"),
        hint: "mount fewer or shorter paths".to_owned(),
    })
}

fn lifetime(spec: &SandboxSpec) -> protocol::Lifetime {
    match spec.lifetime {
        Lifetime::WithMaker => protocol::Lifetime::WithConnection,
        Lifetime::UntilRemoved { .. } => protocol::Lifetime::UntilEnded,
    }
}

/// What sethostname(2) takes.
fn hostname(wanted: &str) -> String {
    let usable = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    wanted.chars().filter(usable).take(63).collect()
}

/// The first that nobody has: its own, with that of its repository where another path has taken it, and with its id.
fn container_names(spec: &SandboxSpec) -> Vec<String> {
    let (name, id) = (hostname(&spec.hostname), spec.id.to_string());
    // An engine's names begin with a letter or a digit.
    let name = name.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
    if name.is_empty() {
        return vec![
            format!("cofferdam-{}", short(&id)),
            format!("cofferdam-{id}"),
        ];
    }
    let of_repository = spec.repository.as_ref().map(RepoPath::hash8);
    let of_repository = of_repository.map(|hash8| format!("{name}-{hash8}"));
    let last = format!(
        "{}-{}",
        of_repository.as_deref().unwrap_or(name),
        short(&id)
    );
    [Some(name.to_owned()), of_repository, Some(last)]
        .into_iter()
        .flatten()
        .collect()
}
