//! A sandbox that stands still while its files are looked at.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio::sync::OwnedMutexGuard;

use super::Session;
use crate::sandbox::{Sandbox, SandboxError};

/// Its programs stand still until [`Self::go_on`]. Dropped before that, as with a future that nobody waits for any more, it has
/// them go on too.
#[derive(Debug)]
pub(super) struct Frozen {
    sandbox: Arc<dyn Sandbox>,
    /// Whoever comes next would go on by what this one still has to say.
    alone: Option<OwnedMutexGuard<()>>,
    began: Instant,
    ended: OnceLock<Instant>,
}

impl Frozen {
    /// A paused one too: somebody may resume it meanwhile, and each of both holds for itself.
    pub(super) async fn begin(session: &Session) -> Result<Self, SandboxError> {
        let this = Self {
            sandbox: Arc::clone(&session.sandbox),
            alone: Some(Arc::clone(&session.still).lock_owned().await),
            began: Instant::now(),
            ended: OnceLock::new(),
        };
        let frozen = this.sandbox.freeze().await;
        if frozen.is_err() {
            this.is_over();
        }
        frozen.map(|()| this)
    }

    /// Idempotent. Where that fails they go on when this process is gone.
    pub(super) async fn go_on(&self) -> Result<(), SandboxError> {
        let done = self.sandbox.thaw().await;
        self.is_over();
        done
    }

    /// Whether they still do.
    pub(super) fn is_still(&self) -> bool {
        self.ended.get().is_none()
    }

    /// How long they stood still.
    pub(super) fn still(&self) -> Duration {
        let ended = self.ended.get().copied();
        ended.unwrap_or_else(Instant::now) - self.began
    }

    fn is_over(&self) {
        let _ = self.ended.set(Instant::now());
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        if self.ended.get().is_some() {
            return;
        }
        let (sandbox, alone) = (Arc::clone(&self.sandbox), self.alone.take());
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                // Where that fails too, see `go_on`.
                let _ = sandbox.thaw().await;
                drop(alone);
            });
        }
    }
}
