//! What the configuration says, in a living sandbox.

use super::life::turn;
use super::{Session, SessionError};
use crate::session::emitter::Emitter;
use crate::session::form::Form;
use crate::session::sync::{SyncMode, Synced, Syncing};
use crate::session::unsynced::SyncError;
use crate::session::variables;

impl Session {
    /// Brings what the configuration says into the sandbox. Waits for whoever changes it. Its files are in place one by one, whole or
    /// not at all; the commands of `on_sync` are bounded by 600 s each.
    pub async fn sync(&self, mode: SyncMode) -> Result<Synced, SessionError> {
        let turn = turn(&self.caller, &self.named).await?;
        let synced = self.bring(mode).await;
        drop(turn);
        synced
    }

    /// For whoever has the sandbox's turn.
    pub(super) async fn bring(&self, mode: SyncMode) -> Result<Synced, SessionError> {
        let directory = self.directory();
        let form = Form::read(&directory)?;
        let given = form.environment();
        let repository = &self.named.repository;
        let resolved = variables::of_a_session(&self.caller, &given, repository).await;
        let (environment, _) = resolved?;
        let syncing = Syncing {
            caller: &self.caller,
            repository,
            state: &directory,
            workdir: &form.workdir(),
            sandbox: self.sandbox(),
            environment: &environment,
            events: &Emitter::sink(self.caller.events.clone()),
            life: form.starts(),
            told: false,
        };
        let synced = syncing.run(mode).await;
        synced.map_err(|source| match source {
            SyncError::Sandbox(source) => self.failed(source),
            source => SessionError::Sync {
                name: self.name().to_string(),
                source,
            },
        })
    }
}
