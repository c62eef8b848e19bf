//! What the files say, put in force in the sandboxes at work.

use std::path::PathBuf;

use super::right::Change;
use crate::names::{SandboxId, Slug};
use crate::registry::{self, Phase, Reach, Record, RegistryError};
use crate::wall::allowed::{AddError, Scope};
use crate::wall::rules::Problem;
use crate::wall::supervisor::{self, Supervisor, SupervisorError};
use crate::wall::{Answer, Ask, Start, WallError, gateway, sources_of};

/// Why rules were not changed.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// The rules could not be added.
    #[error(transparent)]
    Add(#[from] AddError),
    /// Nobody can say which sandboxes there are.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The gateway could not be told.
    #[error(transparent)]
    Wall(#[from] WallError),
}

/// What a change came to for one sandbox at work.
#[derive(Debug)]
pub struct Applied {
    /// By which it is known.
    pub id: SandboxId,
    /// By which people call it.
    pub name: Slug,
    /// The top of its checkout.
    pub repository: PathBuf,
    /// What it came to.
    pub effect: Effect,
}

/// What a change came to.
#[derive(Debug)]
pub struct Reached {
    /// One for each sandbox that the rules are for.
    pub sandboxes: Vec<Applied>,
    /// Records of sandboxes that may be at work, with the rules that they had: another version wrote them.
    pub unreadable: Vec<RegistryError>,
}

/// What a change of rules did to one sandbox.
#[derive(Debug)]
pub enum Effect {
    /// Its rules are what the files say; so many open connections were ended by that.
    InForce {
        /// How many connections.
        closed: u64,
    },
    /// It is stopped or just starting, or its supervisor is: who registers it reads the rules then.
    Starting,
    /// It is behind the gateway of another version of Cofferdam: the old rules stay.
    Unreachable,
    /// A source cannot be read: the old rules stay.
    Kept(Vec<Problem>),
    /// The gateway did not take them: the old rules stay.
    Failed(WallError),
}

impl Change {
    /// Puts the rules in force that the files hold now, in every sandbox at work that `scope` covers.
    /// The lists of long-lived ones are written, whether they are at work or not. Bounded: 25 s for each.
    pub async fn apply(&self, scope: &Scope) -> Result<Reached, ChangeError> {
        let behind = self.behind_the_gateway().await?;
        let another = gateway::another_lives(&self.home);
        let mut applied = Vec::new();
        let listing = registry::list(&self.home, None)?;
        for entry in listing.entries {
            let record = entry.record;
            // Who keeps the place of a long-lived one next knows no other rules than those of its list.
            let lives_on = supervisor::is_long_lived(&self.home, record.id);
            if !covers(scope, &record) || !(entry.in_use || lives_on) {
                continue;
            }
            let effect = if behind.contains(&record.id.to_string()) {
                self.set(&record, lives_on).await
            } else if lives_on {
                self.keep(&record, entry.in_use).await
            } else if record.phase == Phase::Creating {
                record
                    .network
                    .as_ref()
                    .and_then(Reach::rules)
                    .map(|_| Effect::Starting)
            } else if another && record.phase == Phase::Active {
                record
                    .network
                    .as_ref()
                    .and_then(Reach::rules)
                    .map(|_| Effect::Unreachable)
            } else {
                None
            };
            if let Some(effect) = effect {
                applied.push(Applied {
                    id: record.id,
                    name: record.name,
                    repository: record.repository,
                    effect,
                });
            }
        }
        Ok(Reached {
            sandboxes: applied,
            unreadable: listing.unreadable,
        })
    }

    async fn behind_the_gateway(&self) -> Result<Vec<String>, WallError> {
        match gateway::ask(&self.home, &Ask::Status, Start::Never).await {
            Ok(Answer::Status(all)) => Ok(all.into_iter().map(|one| one.sandbox).collect()),
            Ok(_) => Err(WallError::Protocol(
                "an answer to another question".to_owned(),
            )),
            Err(WallError::NotRunning) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// `None`: it has no wall.
    async fn set(&self, record: &Record, lives_on: bool) -> Option<Effect> {
        let loaded = sources_of(&self.home, record)?.load();
        if loaded.problems.iter().any(Problem::is_whole_source) {
            return Some(Effect::Kept(loaded.problems));
        }
        // First: a gateway that comes after this one is told the list.
        if lives_on && let Err(error) = supervisor::write(self, &self.home, record.id, &loaded) {
            return Some(Effect::Failed(error));
        }
        let ask = Ask::SetRules {
            sandbox: record.id.to_string(),
            rules: loaded.lines(),
        };
        Some(match gateway::ask(&self.home, &ask, Start::Never).await {
            Ok(Answer::RulesSet { closed }) => Effect::InForce { closed },
            Ok(_) => Effect::Failed(WallError::Protocol(
                "an answer to another question".to_owned(),
            )),
            Err(error) => Effect::Failed(error),
        })
    }

    /// For a long-lived one that no gateway has now: its list, and its supervisor, which may have given up for want
    /// of one. `None`: it has no wall, or nobody keeps its place.
    async fn keep(&self, record: &Record, in_use: bool) -> Option<Effect> {
        let loaded = sources_of(&self.home, record)?.load();
        if loaded.problems.iter().any(Problem::is_whole_source) {
            return Some(Effect::Kept(loaded.problems));
        }
        if let Err(error) = supervisor::write(self, &self.home, record.id, &loaded) {
            return Some(Effect::Failed(error));
        }
        if !in_use {
            return None;
        }
        let told = async {
            match Supervisor::connect(&self.home.sandbox(record.id)).await? {
                Some((supervisor, _)) => supervisor.reload(self).await.map(Some),
                None => Ok(None),
            }
        };
        Some(match told.await {
            Ok(Some(closed)) => Effect::InForce { closed },
            Ok(None) => Effect::Starting,
            Err(SupervisorError::OtherVersion(_)) => Effect::Unreachable,
            // Behind no gateway, and nobody who brings it there.
            Err(error) => Effect::Failed(WallError::Lost(error.to_string())),
        })
    }
}

fn covers(scope: &Scope, record: &Record) -> bool {
    match scope {
        Scope::Global => true,
        Scope::Repository(repository) => repository.as_path() == record.repository,
        Scope::Sandbox(id) => *id == record.id,
    }
}
