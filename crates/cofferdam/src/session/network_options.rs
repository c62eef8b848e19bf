//! What a run's sandbox may reach, as it is asked for.

use crate::home::Home;
use crate::names::{RepoPath, SandboxId};
use crate::registry::{Reach, Record};
use crate::sandbox::{Network, NetworkKind};
use crate::wall::rules::Sources;
use crate::wall::{Rule, WallSpec};

/// What a run's sandbox may reach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NetworkOptions {
    /// Its own loopback and nothing else.
    None,
    /// What the user's rules name (the default list where they have none), and these.
    Allowlist {
        /// Beside those of the files.
        rules: Vec<Rule>,
    },
    /// The host's own network: no wall at all.
    Open,
}

impl Default for NetworkOptions {
    fn default() -> Self {
        Self::Allowlist { rules: Vec::new() }
    }
}

impl NetworkOptions {
    pub(super) fn kind(&self) -> NetworkKind {
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
