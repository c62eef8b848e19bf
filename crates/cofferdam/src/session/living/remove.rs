//! The end of a sandbox that lives on. From here it is as one whose command died: collecting it and taking away what is
//! left have one way.

use std::ffi::OsString;
use std::time::Duration;

use super::agent::nobody_at_work;
use super::collect::{Collection, bring_up, gather, holds_uncommitted};
use super::detached::left_running;
use super::files::alone_with_files;
use super::life::{halt_as_asked, turn};
use super::rest::gather_rest;
use super::stop::turn_to_end;
use super::{Named, Session, SessionError};
use crate::git::land::Landing;
use crate::registry::{Lifetime, Owned};
use crate::sandbox::{BindMountProvider, Listed, SandboxError};
use crate::session::collect::{Reaches, Rest};
use crate::session::manage::{
    self, ManageError, Recovered, SandboxRef, at_risk, on_no_other_branch,
};
use crate::session::options::Caller;
use crate::text::printable_line;

/// So many characters of a program are named in a message.
const SHOWN: usize = 60;

/// Ends every program of the sandbox and its life; its work and its record are there for [`super::super::manage`].
/// Bounded: 60 s.
pub async fn end(
    caller: &Caller,
    named: &Named,
    provider: &dyn BindMountProvider,
) -> Result<(), SessionError> {
    named.check(provider)?;
    let mut turn = turn_to_end(caller, named, provider, Duration::ZERO).await?;
    manage::nothing_is_taken_out(turn.directory())?;
    // Nobody checks what it still has: where that is to be done, `merge` does.
    bring_up(caller, named, &mut turn).await?;
    close(caller, named, provider, turn, false).await
}

/// As [`end`], where nobody uses it and no work of it would be lost: its commits come home first. A program that somebody
/// waits for, an agent that has an end to come, uncommitted work, or what the gate refused, is an error, and the sandbox goes on as
/// before. Nothing inside runs between the look and the end, and nobody changes files from outside.
pub async fn end_if_safe(
    caller: &Caller,
    named: &Named,
    provider: &dyn BindMountProvider,
) -> Result<Collection, SessionError> {
    end_safely(caller, named, provider, Applied::Counts).await
}

/// As [`end_if_safe`], where nothing of it will be kept for a while: what is uncommitted and was applied would be lost too, where its
/// user has thrown that away since, and so would commits that are on no other branch.
pub async fn end_for_good(
    caller: &Caller,
    named: &Named,
    provider: &dyn BindMountProvider,
) -> Result<Collection, SessionError> {
    end_safely(caller, named, provider, Applied::CountsNot).await
}

/// Whether work that is in no commit is safe once it was brought into the user's working tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Applied {
    Counts,
    CountsNot,
}

async fn end_safely(
    caller: &Caller,
    named: &Named,
    provider: &dyn BindMountProvider,
    applied: Applied,
) -> Result<Collection, SessionError> {
    named.check(provider)?;
    // While nothing stands still for it.
    named.repository(caller).await?;
    let mut turn = turn(caller, named).await?;
    let nobody_at_work = nobody_at_work(turn.directory()).await?;
    // A file that is just being written is none yet.
    let _alone = alone_with_files(caller, named).await?;
    // Without them nobody can say whether something was uncommitted there.
    named.check_files(caller)?;
    let failed = |source| SessionError::sandbox(named.record.name.to_string(), source);
    let sandbox = match provider.open(&named.handle(caller)).await {
        Ok(sandbox) => Some(sandbox),
        Err(SandboxError::NotRunning) => None,
        Err(source) => return Err(failed(source)),
    };
    let mut paused = false;
    if let Some(sandbox) = &sandbox {
        paused = sandbox.status().await.is_ok_and(|status| status.paused);
        // One that is paused too: somebody may let it go on meanwhile.
        sandbox.freeze().await.map_err(failed)?;
        // Those that were left running are nobody's, and neither is one whose user is dead: they go with it.
        let programs = sandbox.programs().await.map_err(failed)?;
        let waited_for: Vec<u64> = left_running(caller, named)?
            .iter()
            .filter(|program| program.is_waited_for())
            .map(|program| program.id.number)
            .collect();
        let awaited = |program: &&Listed| {
            program.awaited || program.detached && waited_for.contains(&program.number)
        };
        let mut running = programs.iter().filter(|program| program.exit.is_none());
        if let Some(program) = running.find(awaited) {
            return Err(SessionError::InUse {
                name: named.record.name.to_string(),
                program: shown(&program.arguments),
                paused,
            });
        }
    }
    // One that waits for its next start has no program meanwhile.
    if nobody_at_work.is_none() {
        return Err(SessionError::InUse {
            name: named.record.name.to_string(),
            program: "an agent at work".to_owned(),
            paused,
        });
    }
    // What was frozen goes on when its connection ends here.
    let (collection, is_applied) = look(caller, named, &mut turn, applied).await?;
    close(caller, named, provider, turn, is_applied).await?;
    Ok(collection)
}

/// The words of a program, as far as they fit in a message.
fn shown(arguments: &[OsString]) -> String {
    let words: Vec<_> = arguments
        .iter()
        .map(|word| word.to_string_lossy())
        .collect();
    let line = printable_line(&words.join(" "));
    match line.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

impl Session {
    /// Ends the sandbox with its life, as [`end_if_safe`] does, and takes away what it needed, as a run does at its end.
    /// Its commits are home and its branch stays; with merge-to-head the target moves by [`crate::session::manage::merge()`]
    /// alone. `None`: another process has taken it away meanwhile. `provider`: the one that made it. Bounded: 10 minutes.
    pub async fn close(
        self,
        provider: &dyn BindMountProvider,
    ) -> Result<Option<Recovered>, SessionError> {
        let Self { caller, named, .. } = &self;
        end_if_safe(caller, named, provider).await?;
        let ended = SandboxRef {
            home: caller.home.clone(),
            git: caller.git.clone(),
            repository: named.located.top().as_path().to_owned(),
            caller_home: caller.user_home.clone(),
            name: named.record.id.to_string(),
            cancel: caller.cancel.clone(),
        };
        let home = manage::closed(&ended).await;
        Ok(home.map_err(Box::new)?)
    }
}

/// From here on it is as one whose command died. `is_applied`: what is in no commit of its files is in the user's working tree.
async fn close(
    caller: &Caller,
    named: &Named,
    provider: &dyn BindMountProvider,
    mut turn: Owned,
    is_applied: bool,
) -> Result<(), SessionError> {
    halt_as_asked(caller, named, provider).await?;
    if is_applied {
        manage::ended_with_rest(turn.directory())?;
    }
    turn.record.lifetime = Lifetime::Command;
    Ok(turn.save()?)
}

/// Brings its commits home, and looks what would be lost. The second: whether work in its files is in no commit, and was applied.
async fn look(
    caller: &Caller,
    named: &Named,
    turn: &mut Owned,
    applied: Applied,
) -> Result<(Collection, bool), SessionError> {
    if let Some(checkout) = manage::unfinished_in(turn.directory()) {
        let name = turn.record.name.to_string();
        return Err(Box::new(ManageError::Applying { name, checkout }).into());
    }
    let collection = gather(caller, named, turn, (Reaches::WhileItLives, None)).await?;
    if let Landing::Refused { pack, .. } = &collection.landing {
        let directory = || turn.directory().to_owned();
        let risk = ManageError::KeptWork {
            name: turn.record.name.to_string(),
            path: pack.clone().unwrap_or_else(directory),
        };
        return Err(Box::new(risk).into());
    }
    let user = caller.user_home.as_deref();
    let found = at_risk(
        &caller.home,
        named.repository(caller).await?,
        &turn.record,
        collection.checkout.as_ref().unwrap_or(&turn.record.base),
        user,
        &caller.cancel,
    );
    if let Some(risk) = found.await.map_err(Box::new)? {
        return Err(Box::new(risk).into());
    }
    if !turn.record.mode.owns_files() || !holds_uncommitted(caller, named, turn).await {
        if applied == Applied::CountsNot {
            let repo = named.repository(caller).await?;
            let found = on_no_other_branch(&caller.home, repo, &turn.record, &caller.cancel).await;
            if let Some(risk) = found.map_err(Box::new)? {
                return Err(Box::new(risk).into());
            }
        }
        return Ok((collection, false));
    }
    if applied == Applied::Counts && is_applied(caller, named, turn).await? {
        return Ok((collection, true));
    }
    let risk = ManageError::UncommittedWork {
        name: turn.record.name.to_string(),
        path: turn.record.workspace(&caller.home),
        files: Vec::new(),
    };
    Err(Box::new(risk).into())
}

/// Whether all that is in no commit is in the user's working tree, by `apply`, and nothing was changed inside since.
async fn is_applied(caller: &Caller, named: &Named, turn: &Owned) -> Result<bool, SessionError> {
    let directory = turn.directory();
    if !manage::has_rest(directory) || manage::keeps_more(&turn.record, directory) {
        return Ok(false);
    }
    Ok(match gather_rest(caller, named, turn).await? {
        Rest::Commit {
            commit,
            unread: 0,
            more: false,
        } => manage::is_rest(directory, &commit),
        _ => false,
    })
}
