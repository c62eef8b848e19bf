//! The embedded sandbox: Linux namespaces, no daemon, no image. The default.
//!
//! [`Native::create`] starts the guest from a sealed memory file; the guest's init builds the
//! sandbox and runs programs on request ([`guest`](super::guest)). One that outlives its maker is found
//! again by its socket ([`resident`]). [`jail`] runs one program in a
//! throw-away sandbox; [`probe()`] says what this machine lacks.

mod cgroup;
mod host;
pub mod jail;
mod launch;
mod life;
mod make;
mod package;
mod probe;
mod program;
mod rehearse;
mod resident;
mod tools;

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use super::{
    Abilities, Ability, BindMountProvider, Handle, Limits, NetworkKind, Sandbox, SandboxError,
    SandboxSpec, limits,
};

pub use cgroup::remove_leftovers;
pub use host::Host;
pub use probe::{Check, Status, probe, probe_layers, probe_network};
pub use program::{Found, Unshown};
pub(super) use tools::is_nowhere;
pub use tools::locate;

/// How native sandboxes are made.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct NativeOptions {
    /// How long a sandbox may take to come up, the reading of its rules included.
    pub ready_limit: Duration,
    /// Bytes of one file that a program may write. `None` means unlimited.
    pub file_size: Option<u64>,
    /// Whether what outlives its maker is stopped by the kernel's freezer, where a control group can be made for it.
    /// Else it is by signals, and [`super::Status`] says so.
    pub freezer: bool,
}

impl Default for NativeOptions {
    fn default() -> Self {
        Self {
            // 100,000 rules take seconds on a machine that is busy.
            ready_limit: Duration::from_secs(30),
            file_size: None,
            freezer: true,
        }
    }
}

/// The native provider. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Native {
    options: NativeOptions,
}

impl Native {
    /// Nothing is started yet.
    pub fn new(options: NativeOptions) -> Self {
        Self { options }
    }
}

#[async_trait]
impl BindMountProvider for Native {
    fn name(&self) -> &'static str {
        "native"
    }

    fn check_limits(&self, limits: &Limits) -> Result<(), SandboxError> {
        limits::check(limits)?;
        cgroup::check(limits)
    }

    fn lacks(&self, program: &OsStr, search_path: Option<&OsStr>) -> bool {
        is_nowhere(program, search_path)
    }

    fn abilities(&self) -> Abilities {
        Abilities {
            networks: &[NetworkKind::None, NetworkKind::Allowlist, NetworkKind::Open],
            others: &[
                Ability::Mount,
                Ability::Pause,
                Ability::Terminal,
                Ability::Outlive,
                Ability::Files,
                Ability::Git,
                Ability::Layers,
                Ability::Ports,
            ],
        }
    }

    async fn try_layers(
        &self,
        place: &Path,
        cancel: &CancellationToken,
    ) -> Result<(), SandboxError> {
        rehearse::layers(place, cancel).await
    }

    async fn create(
        &self,
        spec: &SandboxSpec,
        cancel: &CancellationToken,
    ) -> Result<Arc<dyn Sandbox>, SandboxError> {
        limits::check(&spec.limits)?;
        let sandbox = make::make(spec, &self.options, cancel).await?;
        Ok(Arc::new(sandbox))
    }

    async fn open(&self, handle: &Handle) -> Result<Arc<dyn Sandbox>, SandboxError> {
        Ok(Arc::new(life::open(handle).await?))
    }

    async fn remove(&self, handle: &Handle) -> Result<(), SandboxError> {
        resident::remove(handle).await
    }
}
