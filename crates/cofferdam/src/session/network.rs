//! What a run's sandbox may reach: asked for, checked against its provider, watched while it works.

use std::convert::Infallible;
use std::time::Duration;

use super::emitter::Emitter;
use super::event::Notice;
use super::options::{Caller, SessionOptions};
use super::plan::PlanError;
use super::refusals::Refusals;
use crate::config;
use crate::home::Home;
use crate::names::{RepoPath, SandboxId};
use crate::registry::{Reach, Record};
use crate::sandbox::{Contained, Network, NetworkKind, Sandbox};
use crate::wall;
use crate::wall::rules::{Problem, Sources};
use crate::wall::{Health, Refused, Rule, WallSpec};

/// How long the summary of what was refused may take. It is news, not work.
const SUMMARY_LIMIT: Duration = Duration::from_secs(2);

/// What a run's sandbox may reach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NetworkOptions {
    /// Its own loopback and nothing else.
    None,
    /// What the user's rules name (the default list where they have none), and these.
    Allowlist { rules: Vec<Rule> },
    /// The host's own network: no wall at all.
    Open,
}

impl Default for NetworkOptions {
    fn default() -> Self {
        Self::Allowlist { rules: Vec::new() }
    }
}

impl NetworkOptions {
    fn kind(&self) -> NetworkKind {
        match self {
            Self::None => NetworkKind::None,
            Self::Allowlist { .. } => NetworkKind::Allowlist,
            Self::Open => NetworkKind::Open,
        }
    }

    /// As the record keeps it.
    pub(super) fn reach(&self) -> Reach {
        match self {
            Self::None => Reach::None,
            Self::Allowlist { rules } => Reach::Allowlist {
                rules: rules.iter().map(ToString::to_string).collect(),
            },
            Self::Open => Reach::Open,
        }
    }

    /// As the provider gets it.
    pub(super) fn spec(&self, home: &Home, record: &Record, repository: &RepoPath) -> Network {
        match self {
            Self::None => Network::None,
            Self::Open => Network::Open,
            Self::Allowlist { rules } => Network::Wall(Box::new(WallSpec {
                home: home.clone(),
                sandbox: record.id,
                name: record.name.clone(),
                sources: sources(home, repository, record.id, rules),
            })),
        }
    }
}

/// Where the rules of a run's sandbox come from.
pub(super) fn sources(
    home: &Home,
    repository: &RepoPath,
    sandbox: SandboxId,
    flags: &[Rule],
) -> Sources {
    Sources {
        home: home.clone(),
        repository: Some(repository.clone()),
        sandbox: Some(sandbox),
        flags: flags.to_vec(),
    }
}

/// As the provider gets it for a sandbox that is there. Rules that this version does not understand give none.
pub(super) fn of_a_record(home: &Home, record: &Record) -> Network {
    match (&record.network, wall::sources_of(home, record)) {
        (Some(Reach::Open), _) => Network::Open,
        (_, Some(sources)) => Network::Wall(Box::new(WallSpec {
            home: home.clone(),
            sandbox: record.id,
            name: record.name.clone(),
            sources,
        })),
        _ => Network::None,
    }
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
pub(super) async fn unread(caller: &Caller, options: &SessionOptions) -> Option<Notice> {
    if !matches!(options.network, NetworkOptions::Allowlist { .. }) {
        return None;
    }
    let home = caller.home.clone();
    // It may be large.
    let loaded = tokio::task::spawn_blocking(move || config::load(&home)).await;
    let error = loaded.ok()?.err()?;
    Some(Notice::ConfigUnread {
        text: Problem::from(error).message(),
    })
}

pub(super) fn listed(kinds: &[NetworkKind]) -> String {
    if kinds.is_empty() {
        return "none at all".to_owned();
    }
    let words: Vec<_> = kinds
        .iter()
        .map(|kind| format!("`{}`", kind.as_str()))
        .collect();
    words.join(", ")
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
pub(super) async fn refused(sandbox: &dyn Sandbox) -> Vec<Refused> {
    let Some(wall) = sandbox.wall() else {
        return Vec::new();
    };
    match tokio::time::timeout(SUMMARY_LIMIT, wall.refused()).await {
        Ok(Ok(refused)) => refused,
        // The log has it.
        Ok(Err(_)) | Err(_) => Vec::new(),
    }
}
