//! Ports of this machine that lead into a sandbox: from its next start on, or for as long as somebody wants it.

use std::num::NonZeroU16;

use tokio::task::JoinSet;

use super::{Named, Session, SessionError, life};
use crate::home::Home;
use crate::published::PublishedPort;
use crate::registry::{self, Reach, Record};
use crate::sandbox::{self, Ability};
use crate::session::options::Caller;
use crate::session::outlived::End;
use crate::session::plan::PlanError;
use crate::session::ports::{self, Doors};

/// Ports that lead into a sandbox for as long as this value is there.
#[derive(Debug)]
pub struct Forwarded {
    /// Aborted when it is dropped, with the connections.
    _serving: JoinSet<()>,
    end: Option<End>,
}

impl Forwarded {
    /// Waits for the end of the sandbox, if it has one that can be waited for.
    pub async fn ended(&self) {
        match &self.end {
            Some(end) => end.comes().await,
            None => std::future::pending().await,
        }
    }
}

impl Session {
    /// Has ports of this machine's loopback lead into it until what is returned is dropped; at them [`Session::connect`] says what
    /// connecting means. Where one cannot be listened at it is an error.
    pub async fn forward(&self, wanted: &[PublishedPort]) -> Result<Forwarded, SessionError> {
        self.require(Ability::Ports)?;
        self.named.check_files(&self.caller)?;
        let network = self.record().network.as_ref().map(Reach::kind);
        ports::check_network(network).map_err(PlanError::from)?;
        let doors = Doors::open(wanted).map_err(PlanError::from)?;
        self.see_watched().await?;
        // It is the connections', however long they last.
        let handle = self.named.handle(&self.caller);
        let provider = sandbox::provider_of(&self.record().provider, &handle.state);
        let opened = async { provider?.open(&handle).await };
        let sandbox = opened.await.map_err(|source| self.failed(source))?;
        let end = End::of(sandbox.as_ref());
        let serving = doors.serve(&sandbox).map_err(PlanError::from)?;
        Ok(Forwarded {
            _serving: serving,
            end,
        })
    }
}

/// The sandbox into which a port of this machine leads now, as far as one look tells. `None`: none of ours.
pub fn leads_into(home: &Home, port: NonZeroU16) -> Option<Record> {
    let entries = registry::list(home, None).ok()?.entries.into_iter();
    let mut records = entries.map(|entry| entry.record);
    records.find(|record| {
        let state = home.sandbox(record.id);
        let is_to_have = record.lives_on() && record.ports.iter().any(|one| one.host == port);
        // One that came second has it no more than who asks.
        let failed = || ports::unpublished(&state).unwrap_or_default();
        is_to_have && sandbox::is_up(&state) && failed().iter().all(|one| one.port != port)
    })
}

/// Has these ports of this machine's loopback lead into it, in the place of those that do, from its next start on. `configured`: as
/// [`crate::session::SessionOptions::ports_configured`]. Where one that is new cannot be published now it is an error, and nothing
/// changes.
pub async fn publish(
    caller: &Caller,
    named: &mut Named,
    wanted: &[PublishedPort],
    configured: bool,
) -> Result<(), SessionError> {
    let is_there =
        |record: &Record| record.ports == wanted && record.ports_configured == configured;
    if is_there(&named.record) {
        return Ok(());
    }
    let mut turn = life::turn(caller, named).await?;
    let is_new = |one: &&PublishedPort| {
        let mut before = turn.record.ports.iter();
        !before.any(|before| before.host == one.host)
    };
    let network = turn.record.network.as_ref().map(Reach::kind);
    let is_dev = turn.record.dev.is_some();
    if !configured {
        let new: Vec<_> = wanted.iter().filter(is_new).copied().collect();
        ports::check(&new, is_dev, network).map_err(PlanError::from)?;
    }
    let ports = if configured {
        ports::wanted(wanted, configured, is_dev, network).map_err(PlanError::from)?
    } else {
        wanted.to_vec()
    };
    turn.record.ports = ports;
    turn.record.ports_configured = configured;
    turn.save()?;
    named.record = turn.record.clone();
    Ok(())
}
