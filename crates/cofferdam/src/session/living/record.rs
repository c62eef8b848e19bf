//! What was changed in a sandbox's files, as the next commit of its branch, and that branch at home.

use super::collect::{Collection, collector, gather};
use super::frozen::Frozen;
use super::life::turn;
use super::{Session, SessionError};
use crate::fsx;
use crate::git::land::Landing;
use crate::git::{Identity, identity};
use crate::registry::Owned;
use crate::sandbox::SandboxError;
use crate::session::collect::{
    CollectError, NextCommit, Reaches, Recorded, Recording, Seen, remember_clean,
};
use crate::session::emitter::Emitter;
use crate::session::guard;

/// So often what the gate does not let in is left out, and the rest is tried again; and so many paths.
const TRIES: usize = 8;
const MOST_LEFT_OUT: usize = 1000;

impl Session {
    /// Commits what lies uncommitted in the sandbox's own files, on what is checked out there, with `tool` and the paths for a message,
    /// and brings home what is new, as [`Self::collect`] does. New files that an ignore file covers stay as they are, also where one did
    /// that the sandbox began with. What the gate does not let in is left out: it stays as it is, and what it would stand in the way of
    /// comes home. Every program is stopped for the moment that it takes; where that cannot be, or nothing was changed since it was done
    /// last, nothing is done, and there is no collection. Bounds as there, and two minutes, and only
    /// [`crate::session::Caller::abandon`] cuts it short: what was changed is to come home.
    pub async fn record_changes(
        &self,
        tool: &str,
    ) -> Result<(Recorded, Option<Collection>), SessionError> {
        let this = self.whatever_was_cancelled();
        let (caller, named) = (&this.caller, &this.named);
        // While nothing stands still for it.
        named.repository(caller).await?;
        let mut turn = turn(caller, named).await?;
        // A file that is just being written is none yet.
        let alone = this.alone_with_files().await?;
        let frozen = match Frozen::begin(&this).await {
            Ok(frozen) => frozen,
            Err(SandboxError::Restless) => {
                let why = "its programs cannot be stopped for a moment".to_owned();
                return Ok((Recorded::Refused { why }, None));
            }
            Err(source) => return Err(this.failed(source)),
        };
        let seen = Seen::now(&turn, &caller.home);
        // Whoever does nothing waits for no look.
        let is_known = seen.is_some_and(|seen| seen.is_known(&turn));
        let done = if is_known && guard::refused(turn.directory()).is_empty() {
            None
        } else {
            Some(this.record_all(tool, &mut turn, &frozen).await)
        };
        drop(alone);
        let went_on = frozen.go_on().await;
        let Some(done) = done else {
            went_on.map_err(|source| this.failed(source))?;
            return Ok((Recorded::Nothing, None));
        };
        let (recorded, mut collection) = done?;
        went_on.map_err(|source| this.failed(source))?;
        collection.still = frozen.still();
        Ok((recorded, Some(collection)))
    }

    async fn record_all(
        &self,
        tool: &str,
        turn: &mut Owned,
        frozen: &Frozen,
    ) -> Result<(Recorded, Collection), SessionError> {
        let caller = &self.caller;
        let repository = self.named.repository(caller).await?;
        let user = caller.user_home.as_deref();
        let config = identity::user_config(repository, user, &caller.cancel).await?;
        let author = config.identity.unwrap_or_else(Identity::fallback);
        let (recorded, made, collection) = self
            .record_all_it_may((tool, &author), turn, frozen)
            .await?;
        // Without these the next one looks again. What went on while its commits were checked may have changed more.
        if frozen.is_still() && is_whole(&recorded, &collection) {
            if let Some(seen) = Seen::now(turn, &caller.home) {
                let _ = seen.remember(turn);
            }
            if let Some(made) = made.filter(|made| made.is_index) {
                let _ = remember_clean(turn, &made.commit);
            }
        }
        Ok((recorded, collection))
    }

    async fn record_all_it_may(
        &self,
        (tool, author): (&str, &Identity),
        turn: &mut Owned,
        frozen: &Frozen,
    ) -> Result<(Recorded, Option<NextCommit>, Collection), SessionError> {
        let (caller, named) = (&self.caller, &self.named);
        let events = Emitter::sink(caller.events.clone());
        let repository = named.repository(caller).await?;
        let collector = || collector(caller, repository, author, &events);
        let failed = |source| SessionError::Collect {
            name: named.record.name.to_string(),
            ended: false,
            source,
        };
        let (mut left_out, mut why_left_out) = (Vec::new(), None);
        let mut tries = 0;
        loop {
            tries += 1;
            let recording = Recording {
                tool,
                left_out: &left_out,
            };
            let recorded = Box::pin(collector().record(turn, &recording)).await;
            let reaches = (Reaches::WhileItLives, Some(frozen));
            let gathered = gather(caller, named, turn, reaches).await;
            let (recorded, made) = recorded.map_err(failed)?;
            let mut collection = gathered?;
            let (Landing::Refused { pack, why }, Some(made)) = (&collection.landing, &made) else {
                let recorded = with_what_is_left(recorded, why_left_out);
                return Ok((recorded, made, collection));
            };
            if !collector()
                .take_back(turn, &made.commit)
                .await
                .map_err(failed)?
            {
                return Ok((recorded, None, collection));
            }
            // The files have it all.
            forget_refused(turn, pack.as_deref()).map_err(failed)?;
            let mut more = std::mem::take(&mut collection.refused_paths);
            more.retain(|path| !left_out.contains(path));
            let why = why_left_out.map_or_else(|| why.clone(), |first| format!("{first}; {why}"));
            collection.landing = Landing::Nothing;
            if tries == TRIES || more.is_empty() || left_out.len() + more.len() > MOST_LEFT_OUT {
                return Ok((Recorded::Refused { why }, None, collection));
            }
            left_out.extend(more);
            why_left_out = Some(why);
        }
    }
}

/// Whether nothing is left of which the next call has to tell.
fn is_whole(recorded: &Recorded, collection: &Collection) -> bool {
    let all = matches!(
        recorded,
        Recorded::Nothing
            | Recorded::Commit {
                unread: 0,
                left_out: None
            }
    );
    let home = matches!(
        collection.landing,
        Landing::Nothing | Landing::Landed { .. }
    );
    all && home && collection.beside.is_empty() && !collection.ended
}

fn with_what_is_left(recorded: Recorded, why: Option<String>) -> Recorded {
    match (recorded, why) {
        (Recorded::Commit { unread, .. }, left_out) => Recorded::Commit { unread, left_out },
        (Recorded::Nothing, Some(why)) => Recorded::Refused { why },
        (other, _) => other,
    }
}

fn forget_refused(turn: &mut Owned, pack: Option<&std::path::Path>) -> Result<(), CollectError> {
    if let Some(pack) = pack.filter(|pack| pack.starts_with(turn.directory()) && pack.is_file()) {
        fsx::remove_file_if_exists(pack)?;
    }
    turn.record.outcome = None;
    Ok(turn.save()?)
}
