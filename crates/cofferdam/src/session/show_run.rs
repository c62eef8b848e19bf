//! What an engine would be asked for, for a sandbox that is not made.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use super::error::RunError;
use super::living::Session;
use super::options::{Caller, SessionOptions};
use crate::names::RepoPath;
use crate::sandbox::engine::Engine;
use crate::sandbox::{
    Abilities, BindMount, BindMountProvider, Limits, Sandbox, SandboxError, SandboxSpec,
};

/// The command line of an engine's that would make the container of this sandbox ([`Engine::command`]), word by word. No container is
/// made. What a sandbox needs beside its container is prepared for the time of the call, and volumes that it would have stay.
pub async fn show_run(
    caller: &Caller,
    mut options: SessionOptions,
    engine: Engine,
) -> Result<Vec<String>, RunError> {
    let asking = Arc::new(Asking {
        engine,
        said: Mutex::default(),
    });
    let strategy = options.sandbox.strategy();
    options.only_asked = true;
    options.sandbox = BindMount::new(Arc::clone(&asking), strategy).into();
    let made = Box::pin(Session::create(caller, &options)).await;
    let said = asking.said.lock().unwrap_or_else(PoisonError::into_inner);
    match (said.clone(), made) {
        (None, Err(error)) => Err(error),
        (said, _) => Ok(said.unwrap_or_default()),
    }
}

/// Says what it would do in the place of doing it.
#[derive(Debug)]
struct Asking {
    engine: Engine,
    said: Mutex<Option<Vec<String>>>,
}

#[async_trait]
impl BindMountProvider for Asking {
    fn name(&self) -> &str {
        self.engine.name()
    }

    fn check_limits(&self, limits: &Limits) -> Result<(), SandboxError> {
        self.engine.check_limits(limits)
    }

    async fn check(&self, repository: &RepoPath) -> Result<Option<String>, SandboxError> {
        self.engine.check(repository).await
    }

    fn abilities(&self) -> Abilities {
        self.engine.abilities()
    }

    async fn create(
        &self,
        spec: &SandboxSpec,
        _cancel: &CancellationToken,
    ) -> Result<Arc<dyn Sandbox>, SandboxError> {
        let words = self.engine.command(spec).await?;
        *self.said.lock().unwrap_or_else(PoisonError::into_inner) = Some(words);
        Err(SandboxError::Cancelled)
    }
}
