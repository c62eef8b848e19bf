//! Sandboxes that are lived in beside a checkout see its files too, and nobody works on them there: they stand still for the moment in which
//! git of the host's writes them.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::timeout;

use crate::home::Home;
use crate::names::SandboxId;
use crate::registry;
use crate::sandbox::{self, Handle, Sandbox, SandboxError};

/// One that does not stand still by then is at work there.
const LIMIT: Duration = Duration::from_secs(10);

/// They go on when this is dropped.
#[derive(Debug, Default)]
pub(super) struct Standing(Vec<(SandboxId, Arc<dyn Sandbox>)>);

impl Standing {
    /// Stops those that run beside the checkout `top`. What cannot be stopped, or is at work in the checkout itself, bars as ever.
    pub(super) async fn beside(home: &Home, top: &Path) -> Self {
        let Ok(found) = registry::occupants(home, top) else {
            return Self::default();
        };
        let is_up = |id| sandbox::is_up(&home.sandbox(id));
        let (beside, within): (Vec<_>, Vec<_>) = found
            .into_iter()
            .map(|(_, entry)| entry.record)
            .filter(|record| !record.lives_on() || is_up(record.id))
            .partition(|record| record.lives_on() && record.shelf_branch().is_some());
        // Who ends by itself is waited for, and nothing is written there then. Of one that lives there everybody else who is in
        // the way has to be known, to be stopped with it.
        if within.iter().any(|record| !record.lives_on()) {
            return Self::default();
        }
        let stopping = beside.into_iter().map(async |record| {
            let handle = Handle {
                id: record.id,
                state: home.sandbox(record.id),
            };
            let stopped = async {
                let provider = sandbox::provider_of(&record.provider, &handle.state)?;
                let sandbox = provider.open(&handle).await?;
                sandbox.freeze().await?;
                Ok::<_, SandboxError>(sandbox)
            };
            let stopped = timeout(LIMIT, stopped).await.ok()?.ok()?;
            Some((record.id, stopped))
        });
        Self(join_all(stopping).await.into_iter().flatten().collect())
    }

    pub(super) fn has(&self, id: SandboxId) -> bool {
        self.0.iter().any(|(one, _)| *one == id)
    }
}
