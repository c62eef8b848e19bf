//! What in a living sandbox is in no commit, as a commit.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::time::Duration;

use super::collect::{TRIES, collector};
use super::frozen::Frozen;
use super::life::{condition, halt_stopped, turn};
use super::{Condition, Named, Session, SessionError};
use crate::git::{Identity, copied};
use crate::registry::{Mode, Owned};
use crate::sandbox::{BindMountProvider, SandboxError};
use crate::session::collect::{ANSWER, COMMIT_THE_REST, CollectError, Rest};
use crate::session::emitter::Emitter;
use crate::session::inside::{Inside, InsideError, Output};
use crate::session::layers;
use crate::session::options::Caller;

const LIMIT: Duration = Duration::from_mins(2);

/// Makes a commit of what lies in its files and is in none, and lets it in through the gate. No branch moves, and what is
/// staged inside stays so. Files of its own are looked at while its programs stand still, as those of one that is stopped; in a
/// directory of the host's its own git is asked. In one that is paused it is refused, as programs there are. Bounded: 2
/// minutes, and those of the gate.
pub async fn rest(
    caller: &Caller,
    named: &Named,
    provider: &dyn BindMountProvider,
) -> Result<Rest, SessionError> {
    named.check_files(caller)?;
    for _ in 0..TRIES {
        if let Some(rest) = rest_now(caller, named, provider).await? {
            return Ok(rest);
        }
    }
    let name = named.name().to_string();
    Err(SessionError::Busy { name })
}

/// `None`: somebody has started it since it was seen to be stopped.
async fn rest_now(
    caller: &Caller,
    named: &Named,
    provider: &dyn BindMountProvider,
) -> Result<Option<Rest>, SessionError> {
    let repository = named.repository(caller).await?;
    let answer = match condition(caller, named, provider).await? {
        Condition::Paused => {
            let name = named.name().to_string();
            return Err(SessionError::Paused { name });
        }
        Condition::Stopped => None,
        Condition::Running => {
            let session = Session::open(caller, named.clone(), provider).await?;
            let state = caller.home.sandbox(named.record.id);
            if named.record.mode == Mode::Layer && !layers::still_stands(&state)? {
                let name = named.name().to_string();
                return Err(SessionError::Undermined { name });
            }
            if named.record.mode.owns_files() {
                return session.rest_of_its_files().await.map(Some);
            }
            let files = named.record.workspace(&caller.home);
            let which = copied::but_untouched(&state, &files);
            Some(session.commit_the_rest(which).await?)
        }
    };
    let turn = turn(caller, named).await?;
    if let Some(answer) = answer {
        let author = Identity::fallback();
        let events = Emitter::silent();
        let collector = collector(caller, repository, &author, &events);
        let done = Box::pin(collector.let_in(&turn, &answer)).await;
        return done.map(Some).map_err(|source| failed(named, source));
    }
    // Nothing starts it now.
    if !halt_stopped(caller, named, provider).await? {
        return Ok(None);
    }
    gather_rest(caller, named, &turn).await.map(Some)
}

/// Nothing of the sandbox runs meanwhile.
pub(super) async fn gather_rest(
    caller: &Caller,
    named: &Named,
    turn: &Owned,
) -> Result<Rest, SessionError> {
    let author = Identity::fallback();
    let events = Emitter::silent();
    let repository = named.repository(caller).await?;
    let collector = collector(caller, repository, &author, &events);
    let done = Box::pin(collector.rest(turn)).await;
    done.map_err(|source| failed(named, source))
}

fn failed(named: &Named, source: CollectError) -> SessionError {
    SessionError::Collect {
        name: named.name().to_string(),
        ended: false,
        source,
    }
}

impl Session {
    /// Its own git would leave out what it was told to, and an image may have none.
    async fn rest_of_its_files(&self) -> Result<Rest, SessionError> {
        // While nothing stands still for it.
        self.named.repository(&self.caller).await?;
        let turn = turn(&self.caller, &self.named).await?;
        let frozen = Frozen::begin(self).await;
        let frozen = frozen.map_err(|source| self.failed(source))?;
        let rest = gather_rest(&self.caller, &self.named, &turn).await;
        let went_on = frozen.go_on().await;
        if rest.is_ok() {
            went_on.map_err(|source| self.failed(source))?;
        }
        rest
    }

    /// What the sandbox's own git answers: hostile.
    async fn commit_the_rest(&self, which: Vec<OsString>) -> Result<Vec<u8>, SessionError> {
        let environment = BTreeMap::new();
        let inside = Inside {
            sandbox: self.sandbox(),
            arguments: ["sh", "-c", COMMIT_THE_REST, "sh"]
                .map(Into::into)
                .into_iter()
                .chain(which)
                .collect(),
            directory: None,
            environment: &environment,
            limit: LIMIT,
            // Its warnings count as well.
            output: Output::Captured(ANSWER + (4 << 20)),
        };
        let failed = |source| self.failed(source);
        let done = inside.run(&self.caller.cancel).await;
        let done = done.map_err(|error| match error {
            InsideError::Sandbox(source) => failed(source),
            InsideError::Cancelled => failed(SandboxError::Cancelled),
            InsideError::TimedOut(_) => failed(SandboxError::TimedOut(LIMIT.as_secs())),
            InsideError::TooMuchOutput(_) => failed(SandboxError::Gone(error.to_string())),
        })?;
        if done.exit.success() {
            return Ok(done.stdout);
        }
        let said = String::from_utf8_lossy(&done.stderr);
        let said = crate::text::printable_line(said.trim_end());
        Err(failed(SandboxError::Files {
            action: "commit the uncommitted work of",
            reason: format!("its git says, {}: {said}", done.exit),
        }))
    }
}
