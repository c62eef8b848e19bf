//! Which containers are a sandbox's: all that is known of them is compared before one is looked at, ended or removed.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::client::Client;
use super::labels::{AGENT, ROLE, labels};
use super::{EngineOptions, places, record};
use crate::names::{RepoPath, SandboxId};
use crate::sandbox::SandboxError;

/// Which containers are a sandbox's.
#[derive(Debug, Clone)]
pub(super) struct Whose {
    labels: HashMap<String, String>,
    /// By the engine's own ids, which nobody can give to another one. None while it is made, and of one that an earlier version
    /// made: then it is where they meet their maker.
    containers: Option<Vec<String>>,
    /// These are places of the sandbox's alone.
    meetings: Vec<PathBuf>,
}

impl Whose {
    fn new(
        options: &EngineOptions,
        id: SandboxId,
        repository: Option<&Path>,
        containers: Option<Vec<String>>,
    ) -> Self {
        Self {
            labels: labels(options, id, repository),
            containers,
            meetings: places::real(
                options,
                [
                    places::meeting(options, &id),
                    places::wall_meeting(options, &id),
                ],
            ),
        }
    }

    /// Of a sandbox that is being made.
    pub(super) fn made(
        options: &EngineOptions,
        id: SandboxId,
        repository: Option<&RepoPath>,
    ) -> Self {
        Self::new(options, id, repository.map(RepoPath::as_path), None)
    }

    /// As it is remembered in `place`, which may be nothing.
    pub(super) fn recorded(
        options: &EngineOptions,
        id: SandboxId,
        place: &Path,
    ) -> Result<Self, SandboxError> {
        let remembered = record::whose(place)?;
        let made = remembered.made.map(|made| made.containers);
        let repository = remembered.repository.as_deref();
        Ok(Self::new(options, id, repository, made))
    }

    /// With the ids of all that were made.
    pub(super) fn with(self, containers: Vec<String>) -> Self {
        Self {
            containers: Some(containers),
            ..self
        }
    }

    /// Their ids, where those are known.
    pub(super) fn containers(&self) -> &[String] {
        self.containers.as_deref().unwrap_or_default()
    }

    /// What is written on each.
    pub(super) fn labels(&self) -> HashMap<String, String> {
        let role = (ROLE.to_owned(), AGENT.to_owned());
        self.labels.clone().into_iter().chain([role]).collect()
    }

    /// Those that are there, running or not.
    pub(super) async fn found(&self, client: &Client) -> Result<Vec<String>, SandboxError> {
        let labels: Vec<String> = (self.labels.iter())
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let mut found = client.labelled(&labels).await?;
        if let Some(made) = &self.containers {
            found.retain(|id| made.contains(id));
            return Ok(found);
        }
        let mut ours = Vec::new();
        for id in found {
            if client.meets_below(&id, &self.meetings).await? {
                ours.push(id);
            }
        }
        Ok(ours)
    }
}
