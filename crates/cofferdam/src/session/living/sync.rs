//! What the configuration says, in a living sandbox.

use std::pin::pin;
use std::time::Duration;

use super::life::turn;
use super::{Session, SessionError};
use crate::session::emitter::Emitter;
use crate::session::event::{Event, Notice};
use crate::session::form::Form;
use crate::session::sync::{RulesNow, SyncMode, Synced, Syncing};
use crate::session::unsynced::SyncError;
use crate::session::variables;
use crate::wall::allowed::Scope;
use crate::wall::change::{Change, ChangeError, Effect};
use crate::wall::rules::Problem;

/// So long rules may take without a word.
const QUIET: Duration = Duration::from_secs(2);

impl Session {
    /// Brings what the configuration says into the sandbox. Waits for whoever changes it. What it may reach is in force first, of this
    /// sandbox alone. Its files are in place one by one, whole or not at all; the commands of `on_sync` are bounded by 600 s each.
    pub async fn sync(&self, mode: SyncMode) -> Result<Synced, SessionError> {
        // Before anything is in force.
        self.named.repository(&self.caller).await?;
        let turn = turn(&self.caller, &self.named).await?;
        let rules = self.load_rules().await;
        let synced = self.bring(mode).await;
        drop(turn);
        synced.map(|synced| Synced { rules, ..synced })
    }

    /// A sandbox whose rules cannot be read or changed keeps those that it had; that is said, and the sync goes on (S1-92). What is
    /// wrong with the configuration itself is said by the sync.
    async fn load_rules(&self) -> RulesNow {
        if self.wall_spec().is_none() {
            return RulesNow::Unchanged;
        }
        let events = Emitter::sink(self.caller.events.clone());
        events.emit(&Event::Step { step: "rules" });
        let mut applied = pin!(self.apply_rules());
        let applied = tokio::select! {
            done = &mut applied => done,
            () = tokio::time::sleep(QUIET) => {
                events.notice(Notice::RulesSlow);
                applied.await
            }
        };
        let (rules, said) = match applied {
            Ok(None) => (RulesNow::Unchanged, Vec::new()),
            Ok(Some(effect)) => now(effect),
            Err(error) => (RulesNow::Kept, vec![error.to_string()]),
        };
        for why in said {
            let text = format!("it keeps the network rules that it had: {why}");
            events.notice(Notice::NotSynced { text });
        }
        rules
    }

    /// Nothing where somebody gave up waiting for a turn: the sync says so.
    async fn apply_rules(&self) -> Result<Option<Effect>, ChangeError> {
        let begun = Change::begin(&self.caller.home);
        let Some(change) = self.caller.cancel.run_until_cancelled(begun).await else {
            return Ok(None);
        };
        let reached = change?.apply(&Scope::Sandbox(self.id())).await?;
        Ok(reached.sandboxes.into_iter().next().map(|one| one.effect))
    }

    /// For whoever has the sandbox's turn.
    pub(super) async fn bring(&self, mode: SyncMode) -> Result<Synced, SessionError> {
        let directory = self.directory();
        let form = Form::read(&directory)?;
        let given = form.environment();
        let located = &self.named.located;
        let resolved = variables::of_a_session(&self.caller, &given, located).await;
        let (environment, _) = resolved?;
        let syncing = Syncing {
            caller: &self.caller,
            repository: self.named.repository(&self.caller).await?,
            state: &directory,
            workdir: &form.workdir(),
            mounts: &self.record().mounts,
            sandbox: self.sandbox(),
            record: self.record(),
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

/// What a change came to, and why it is not in force.
fn now(effect: Effect) -> (RulesNow, Vec<String>) {
    let why = match effect {
        Effect::InForce { closed } => return (RulesNow::InForce { closed }, Vec::new()),
        Effect::Starting => return (RulesNow::InForce { closed: 0 }, Vec::new()),
        Effect::Unreachable => {
            vec!["it was started by another version of cofferdam".to_owned()]
        }
        Effect::Failed(error) => vec![error.to_string()],
        Effect::Kept(problems) => {
            let of_sync = |problem: &Problem| {
                use Problem::{Approvals, Config, OfRepository};
                matches!(problem, Config(_) | OfRepository(_) | Approvals(_))
            };
            let problems = problems.iter().filter(|problem| !of_sync(problem));
            problems.map(Problem::message).collect()
        }
    };
    (RulesNow::Kept, why)
}
