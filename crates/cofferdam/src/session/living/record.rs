//! What was changed in a sandbox's files, as the next commit of its branch, and that branch at home.

use super::collect::{Collection, collector, gather};
use super::life::turn;
use super::{Session, SessionError};
use crate::git::{Identity, identity};
use crate::sandbox::SandboxError;
use crate::session::collect::{Reaches, Recorded, Recording};
use crate::session::emitter::Emitter;

impl Session {
    /// Commits what lies uncommitted in the sandbox's own files, on what is checked out there, with `tool` and the paths for a message,
    /// and brings home what is new, as [`Self::collect`] does. New files that an ignore file covers stay as they are. Every program is
    /// stopped for the moment that it takes; where that cannot be, nothing is done, and there is no collection. Bounds as there, and two
    /// minutes, and only [`crate::session::Caller::abandon`] cuts it short: what was changed is to come home.
    pub async fn record_changes(
        &self,
        tool: &str,
    ) -> Result<(Recorded, Option<Collection>), SessionError> {
        let this = self.whatever_was_cancelled();
        let (caller, named) = (&this.caller, &this.named);
        let mut turn = turn(caller, named).await?;
        let user = caller.user_home.as_deref();
        let config = identity::user_config(&named.repository, user, &caller.cancel).await?;
        let author = config.identity.unwrap_or_else(Identity::fallback);
        match this.sandbox.freeze().await {
            Ok(()) => {}
            Err(SandboxError::Restless) => {
                let why = "its programs cannot be stopped for a moment".to_owned();
                return Ok((Recorded::Refused { why }, None));
            }
            Err(source) => return Err(this.failed(source)),
        }
        let began = std::time::Instant::now();
        let events = Emitter::sink(caller.events.clone());
        let recording = Recording { tool };
        let recorded = collector(caller, named, &author, &events);
        let recorded = Box::pin(recorded.record(&turn, &recording)).await;
        let sandbox = Some(this.sandbox.as_ref());
        let gathered = gather(caller, named, &mut turn, (Reaches::WhileItLives, sandbox)).await;
        // Where that fails they go on when this process is gone.
        let thawed = this.sandbox.thaw().await;
        let recorded = recorded.map_err(|source| SessionError::Collect {
            name: named.record.name.to_string(),
            ended: false,
            source,
        })?;
        let mut collection = gathered?;
        thawed.map_err(|source| this.failed(source))?;
        collection.still = began.elapsed();
        Ok((recorded, Some(collection)))
    }
}
