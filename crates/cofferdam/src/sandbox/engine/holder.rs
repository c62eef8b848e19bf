//! The container that makes a wall: a network namespace with nothing but `lo`, the rules in it, and the sockets that the gateway
//! serves. The agent's container joins it, and has no right over it. It runs our guest alone, from an image with nothing in it, and
//! goes as soon as the agent's container is in: the namespace lives on with that.

use std::os::fd::OwnedFd;
use std::time::Duration;

use cofferdam_guest::protocol::{self, Agent, Setup, WALL_SOCKETS};
use tokio::net::UnixStream;

use super::holding::{Holding, container};
use super::labels::{HOLDER, ROLE};
use super::newborn::{Newborn, go_on, meet};
use super::ready::{self, Claimed};
use super::rendezvous::Rendezvous;
use crate::ids;
use crate::sandbox::SandboxError;
use crate::sandbox::guest::{self, bounded, start_error};

/// How long one that waited may take for a step: it runs already, or something is wrong with it.
const PATIENCE: Duration = Duration::from_secs(3);

/// A container that is there, and makes a wall when it is told to.
pub(super) struct Holder<'a> {
    of: Holding<'a>,
    rendezvous: Rendezvous,
    container: Newborn<'a>,
    /// It runs, and waits to be met.
    waited: bool,
}

/// A wall that stands, and what keeps it until somebody has joined it.
pub(super) struct Held<'a> {
    container: Newborn<'a>,
    stream: UnixStream,
    sockets: Vec<OwnedFd>,
}

impl<'a> Holder<'a> {
    /// The one that waits, or a new one. Others can be made that are to join it; none can be started before it stands.
    pub(super) async fn find(of: &Holding<'a>) -> Result<Self, SandboxError> {
        match ready::claim(of).await {
            Some(Claimed {
                container,
                rendezvous,
            }) => Ok(Self {
                of: of.clone(),
                rendezvous,
                container,
                waited: true,
            }),
            None => Self::create(of).await,
        }
    }

    pub(super) async fn create(of: &Holding<'a>) -> Result<Self, SandboxError> {
        let mut of = of.clone();
        of.labels.insert(ROLE.to_owned(), HOLDER.to_owned());
        let rendezvous = Rendezvous::at(of.meeting).map_err(start_error)?;
        let container = container(&of, rendezvous.directory(), false).await?;
        Ok(Self {
            of,
            rendezvous,
            container,
            waited: false,
        })
    }

    /// As an engine names it for who joins.
    pub(super) fn network(&self) -> String {
        format!("container:{}", self.container.id())
    }

    /// Whether it was there before: with a new one it may work where it did not with this one.
    pub(super) fn waited(&self) -> bool {
        self.waited
    }

    pub(super) async fn start(self) -> Result<Held<'a>, SandboxError> {
        let Holding {
            client,
            guest,
            limit,
            cancel,
            ..
        } = self.of;
        go_on(cancel)?;
        let limit = if self.waited {
            limit.min(PATIENCE)
        } else {
            client.start(self.container.id()).await?;
            limit
        };
        let met = meet(client, &self.rendezvous, self.container.id(), guest);
        let (stream, _) = bounded(met, limit, cancel).await?;
        let frame = describe()?;
        guest::send(&stream, &frame, &[])
            .await
            .map_err(start_error)?;
        let sockets = bounded(guest::ready(&stream), limit, cancel).await?;
        if sockets.len() != WALL_SOCKETS {
            let what = "its holder did not hand over the wall's sockets";
            return Err(SandboxError::Start(what.to_owned()));
        }
        Ok(Held {
            container: self.container,
            stream,
            sockets,
        })
    }
}

impl Held<'_> {
    pub(super) fn take_sockets(&mut self) -> Vec<OwnedFd> {
        std::mem::take(&mut self.sockets)
    }

    pub(super) fn id(&self) -> &str {
        self.container.id()
    }

    /// Somebody has joined: it is not needed any more. Its guest ends with its connection, and the engine clears it away by
    /// itself; nobody waits for that.
    pub(super) fn leave(self) {
        self.container.keep();
        drop(self.stream);
    }
}

/// It becomes who the gateway is: nobody of a sandbox.
fn describe() -> Result<Vec<u8>, SandboxError> {
    let uid = ids::gateway().filter(|&uid| uid != 0);
    let uid = uid.ok_or_else(|| SandboxError::Unsupported {
        what: "root has no unprivileged user id to give to a container's wall".to_owned(),
        hint: "run as an ordinary user, or map more ids into the container".to_owned(),
    })?;
    let setup = Setup {
        hostname: String::new(),
        agent: Agent::Separate { uid, gid: uid },
        mounts: Vec::new(),
        limits: protocol::ProcessLimits::default(),
        workdir: b"/".to_vec(),
        environment: Vec::new(),
        network: protocol::Network::Wall,
        lifetime: protocol::Lifetime::WithConnection,
        group: None,
        seen: Vec::new(),
        expected: None,
        root: false,
    };
    protocol::encode(&setup).map_err(|error| SandboxError::Start(error.to_string()))
}
