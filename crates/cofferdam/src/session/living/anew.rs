//! What a start looks for anew in a checkout that the agent shares with its user: an agent can move a directory, and
//! what was mounted over something in it stays behind.

use super::SessionError;
use crate::fsx::FileError;
use crate::git::{Repository, nested};
use crate::registry::{Mode, Record};
use crate::sandbox::{Mount, MountSource};
use crate::session::emitter::Emitter;
use crate::session::form::Form;
use crate::session::options::Caller;
use crate::session::{layers, mounts, protect, shared};

/// The mounts of a sandbox that is made again from its form.
pub(super) async fn mounts(
    caller: &Caller,
    repo: &Repository,
    record: &Record,
    form: &Form,
) -> Result<Vec<Mount>, SessionError> {
    let mut all = form.mounts();
    if record.mode == Mode::Layer {
        let events = caller.events.clone();
        let stands = layers::stand(&caller.home, repo, record, events, &caller.cancel);
        stands
            .await
            .map_err(|source| SessionError::sandbox(record.name.to_string(), source))?;
        let now = layers::source(&caller.home.sandbox(record.id))?;
        let stored = all
            .iter_mut()
            .filter(|mount| matches!(mount.source, MountSource::Layers { .. }));
        stored.for_each(|mount| mount.source = now.clone());
    }
    let Some(stored) = form.passing() else {
        return Ok(all);
    };
    let (state, workspace) = (
        caller.home.sandbox(record.id),
        record.workspace(&caller.home),
    );
    if record.worktree.is_none() {
        protect::make_again(record, &workspace)?;
    }
    let top = workspace.clone();
    let scan = tokio::task::spawn_blocking(move || nested::scan_before(&top, true)).await;
    let found =
        scan.map_err(|error| FileError::new("look through", &workspace, error.into()))??;
    let events = Emitter::sink(caller.events.clone());
    let frozen = shared::freeze(&workspace, &found.inodes, &events)?;
    shared::cover_doors::<SessionError>(&state, &workspace, &found.doors)?;
    let passing = mounts::passing(&state, &form.workspace(), &frozen, &found.doors);
    all.splice(stored, passing);
    Ok(all)
}
