//! Each engine by its own name.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use super::{Engine, EngineOptions, Kind};
use crate::names::RepoPath;
use crate::sandbox::{
    Abilities, BindMountProvider, Examined, Handle, Limits, Sandbox, SandboxError, SandboxSpec,
};

macro_rules! engine {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        #[derive(Debug, Clone)]
        pub struct $name(Engine);

        impl $name {
            /// Nothing is looked for or started yet.
            pub fn new(options: EngineOptions) -> Self {
                Self(Engine::new(Kind::$name, options))
            }
        }

        #[async_trait]
        impl BindMountProvider for $name {
            fn name(&self) -> &str {
                self.0.name()
            }

            fn check_limits(&self, limits: &Limits) -> Result<(), SandboxError> {
                self.0.check_limits(limits)
            }

            async fn pinned(&self, image: &str) -> Result<Option<String>, SandboxError> {
                self.0.pinned(image).await
            }

            async fn open_as_root(
                &self,
                handle: &Handle,
                files_of: (u32, u32),
            ) -> Result<Box<dyn Sandbox>, SandboxError> {
                self.0.open_as_root(handle, files_of).await
            }

            fn abilities(&self) -> Abilities {
                self.0.abilities()
            }

            async fn check(
                &self,
                repository: &RepoPath,
            ) -> Result<Option<String>, SandboxError> {
                self.0.check(repository).await
            }

            async fn try_layers(
                &self,
                place: &Path,
                cancel: &CancellationToken,
            ) -> Result<(), SandboxError> {
                self.0.try_layers(place, cancel).await
            }

            async fn create(
                &self,
                spec: &SandboxSpec,
                cancel: &CancellationToken,
            ) -> Result<Arc<dyn Sandbox>, SandboxError> {
                self.0.create(spec, cancel).await
            }

            async fn open(&self, handle: &Handle) -> Result<Arc<dyn Sandbox>, SandboxError> {
                self.0.open(handle).await
            }

            async fn examine(&self, handle: &Handle) -> Result<Vec<Examined>, SandboxError> {
                self.0.examine(handle).await
            }

            async fn remove(&self, handle: &Handle) -> Result<(), SandboxError> {
                self.0.remove(handle).await
            }

            async fn let_go(&self, handle: &Handle) -> Result<Option<String>, SandboxError> {
                self.0.let_go(handle).await
            }
        }
    };
}

engine! {
    /// Sandboxes in Docker's containers. Cheap to clone; it connects when it is first needed.
    Docker
}

engine! {
    /// Sandboxes in Podman's containers. Cheap to clone; it connects when it is first needed.
    Podman
}
