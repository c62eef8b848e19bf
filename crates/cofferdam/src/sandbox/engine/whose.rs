//! Which containers are a sandbox's: all that is known of them is compared before one is looked at, ended or removed.

use std::collections::HashMap;
use std::path::Path;

use super::client::Client;
use super::labels::labels;
use super::{EngineOptions, record};
use crate::names::{RepoPath, SandboxId};
use crate::sandbox::SandboxError;

/// Which containers are a sandbox's.
#[derive(Debug, Clone)]
pub(super) struct Whose {
    labels: HashMap<String, String>,
    /// By the engine's own ids, which nobody can give to another one. None while it is made, and of one that an earlier version
    /// made: then the labels alone decide.
    containers: Option<Vec<String>>,
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

    /// What is written on each.
    pub(super) fn labels(&self) -> HashMap<String, String> {
        self.labels.clone()
    }

    /// Those that are there, running or not.
    pub(super) async fn found(&self, client: &Client) -> Result<Vec<String>, SandboxError> {
        let labels: Vec<String> = (self.labels.iter())
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let mut found = client.labelled(&labels).await?;
        if let Some(made) = &self.containers {
            found.retain(|id| made.contains(id));
        }
        Ok(found)
    }
}
