//! The end of a sandbox that lives on. From here it is as one whose command died: collecting it and taking away what is
//! left have one way.

use super::collect::{gather, holds_uncommitted};
use super::life::{halt, turn};
use super::{Named, SessionError};
use crate::git::land::Landing;
use crate::registry::{Lifetime, Mode, Owned};
use crate::sandbox::{BindMountProvider, SandboxError};
use crate::session::manage::{ManageError, at_risk};
use crate::session::options::Caller;

/// Ends every program of the sandbox and its life; its work and its record are there for [`super::super::manage`].
/// Bounded: 60 s.
pub async fn end(
    caller: &Caller,
    named: &Named,
    provider: &dyn BindMountProvider,
) -> Result<(), SessionError> {
    named.check(provider)?;
    let turn = turn(caller, named).await?;
    close(caller, named, provider, turn).await
}

/// As [`end`], where no work of it would be lost: its commits come home first, and uncommitted work, or what the gate
/// refused, is an error. Then it goes on as before. Nothing inside runs between the look and the end.
pub async fn end_if_safe(
    caller: &Caller,
    named: &Named,
    provider: &dyn BindMountProvider,
) -> Result<(), SessionError> {
    named.check(provider)?;
    let mut turn = turn(caller, named).await?;
    let failed = |source| SessionError::sandbox(named.record.name.to_string(), source);
    let sandbox = match provider.open(&named.handle(caller)).await {
        Ok(sandbox) => Some(sandbox),
        Err(SandboxError::NotRunning) => None,
        Err(source) => return Err(failed(source)),
    };
    if let Some(sandbox) = &sandbox {
        // One that is paused too: somebody may let it go on meanwhile.
        sandbox.freeze().await.map_err(failed)?;
    }
    // What was frozen goes on when its connection ends here.
    look(caller, named, &mut turn).await?;
    close(caller, named, provider, turn).await
}

async fn close(
    caller: &Caller,
    named: &Named,
    provider: &dyn BindMountProvider,
    mut turn: Owned,
) -> Result<(), SessionError> {
    halt(caller, named, provider).await?;
    turn.record.lifetime = Lifetime::Command;
    Ok(turn.save()?)
}

async fn look(caller: &Caller, named: &Named, turn: &mut Owned) -> Result<(), SessionError> {
    let collection = gather(caller, named, turn).await?;
    if matches!(collection.landing, Landing::Refused { .. }) {
        let risk = ManageError::KeptWork {
            name: turn.record.name.to_string(),
            path: turn.directory().to_owned(),
        };
        return Err(Box::new(risk).into());
    }
    let user = caller.user_home.as_deref();
    let found = at_risk(
        &caller.home,
        &named.repository,
        &turn.record,
        user,
        &caller.cancel,
    );
    if let Some(risk) = found.await.map_err(Box::new)? {
        return Err(Box::new(risk).into());
    }
    if turn.record.mode == Mode::Copy && holds_uncommitted(caller, named, turn).await {
        let risk = ManageError::UncommittedWork {
            name: turn.record.name.to_string(),
            path: turn.record.workspace(&caller.home),
        };
        return Err(Box::new(risk).into());
    }
    Ok(())
}
