//! The network of a run's sandbox: checked against its provider, watched while it works.

use std::convert::Infallible;
use std::time::Duration;

use super::emitter::Emitter;
use super::event::Notice;
use super::network_options::NetworkOptions;
use super::options::Caller;
use super::plan::error::PlanError;
use super::refusals::Refusals;
use crate::config;
use crate::home::Home;
use crate::registry::{Reach, Record};
use crate::sandbox::{Contained, Network, Sandbox};
use crate::wall;
use crate::wall::rules::Problem;
use crate::wall::{Health, Refused, WallSpec};

/// How long the summary of what was refused may take. It is news, not work.
const SUMMARY_LIMIT: Duration = Duration::from_secs(2);

/// As the provider gets it for a sandbox that is there. Rules that this version does not understand give none.
pub(super) fn of_a_record(home: &Home, record: &Record) -> Network {
    match (&record.network, wall_of_a_record(home, record)) {
        (Some(Reach::Open), _) => Network::Open,
        (_, Some(wall)) => Network::Wall(Box::new(wall)),
        _ => Network::None,
    }
}

/// The place behind the wall of a sandbox that is there; `None`: it has none.
pub(super) fn wall_of_a_record(home: &Home, record: &Record) -> Option<WallSpec> {
    Some(WallSpec {
        home: home.clone(),
        sandbox: record.id,
        name: record.name.clone(),
        sources: wall::sources_of(home, record)?,
    })
}

/// A provider that cannot give what is asked is an error, never another network.
pub(super) fn check(asked: &NetworkOptions, sandbox: &Contained) -> Result<(), PlanError> {
    let (asked, given) = (asked.kind(), sandbox.networks());
    if given.contains(&asked) {
        return Ok(());
    }
    Err(PlanError::NoSuchNetwork {
        provider: sandbox.provider_name().to_owned(),
        asked,
        given: given.to_vec(),
    })
}

/// What is wrong with the user's own file of rules. It is whole or not there at all: nothing of it is in force
/// then, and the built-in list does not take its place (invariant 11). Said before anything starts, because an
/// agent behind a wall without rules tries for minutes.
pub(super) async fn unread(caller: &Caller) -> Option<Notice> {
    let home = caller.home.clone();
    // It may be large.
    let loaded = tokio::task::spawn_blocking(move || config::load(&home)).await;
    let error = loaded.ok()?.err()?;
    Some(Notice::ConfigUnread {
        text: Problem::from(error).message(),
    })
}

/// Tells of the sandbox's network: what is refused, and once if it is lost. Never returns: for a `select!`
/// beside the work.
pub(super) async fn watch(
    sandbox: &dyn Sandbox,
    refusals: &mut Refusals,
    events: &Emitter,
) -> Infallible {
    tokio::select! {
        never = tell_loss(sandbox, events) => never,
        never = refusals.follow(events) => never,
    }
}

async fn tell_loss(sandbox: &dyn Sandbox, events: &Emitter) -> Infallible {
    if let Some(wall) = sandbox.wall() {
        let mut health = wall.health();
        let lost = health.wait_for(|health| matches!(health, Health::Lost(_)));
        // Without a keeper the sandbox is being closed.
        if let Ok(health) = lost.await
            && let Health::Lost(why) = &*health
        {
            let why = why.clone();
            events.notice(Notice::NetworkLost { why });
        }
    }
    std::future::pending().await
}

/// What the wall refused to the sandbox; nothing where there is no wall, or no answer.
pub(super) async fn refused(home: &Home, record: &Record) -> Vec<Refused> {
    if !matches!(record.network, Some(Reach::Allowlist { .. })) {
        return Vec::new();
    }
    match tokio::time::timeout(SUMMARY_LIMIT, wall::refused(home, record.id)).await {
        Ok(Ok(refused)) => refused,
        // The log has it.
        Ok(Err(_)) | Err(_) => Vec::new(),
    }
}
