//! What a start looks for anew in a checkout that the agent shares with its user: an agent can move a directory, and
//! what was mounted over something in it stays behind.

use super::SessionError;
use crate::registry::{Mode, Record};
use crate::sandbox::Mount;
use crate::session::emitter::Emitter;
use crate::session::error::RunErrorKind;
use crate::session::form::Form;
use crate::session::options::Caller;
use crate::session::{mounts, prepare, shared};

/// The mounts of a sandbox that is made again from its form.
pub(super) async fn mounts(
    caller: &Caller,
    record: &Record,
    form: &Form,
) -> Result<Vec<Mount>, SessionError> {
    let Some(stored) = form.passing() else {
        return Ok(form.mounts());
    };
    let failed = |error: RunErrorKind| SessionError::Checkout {
        name: record.name.to_string(),
        source: Box::new(error),
    };
    let (state, workspace) = (
        caller.home.sandbox(record.id),
        record.workspace(&caller.home),
    );
    let found = prepare::nested_git(Mode::Bind, &workspace, true).await;
    let found = found.map_err(failed)?;
    let events = Emitter::sink(caller.events.clone());
    let frozen = shared::freeze(&workspace, &found.inodes, &events);
    let frozen = frozen.map_err(|error| failed(error.into()))?;
    shared::cover_doors(&state, &workspace, &found.doors).map_err(failed)?;
    let mut all = form.mounts();
    let passing = mounts::passing(&state, &form.workdir(), &frozen, &found.doors);
    all.splice(stored, passing);
    Ok(all)
}
