//! A sandbox's work in the user's own working tree, without a commit, and out of it again.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::checkout::take_for_checkout;
use super::taken_out::{self, Destination};
use super::{ManageError, SandboxRef, applying};
use crate::git::gate;
use crate::git::land::{self, Applied, Landing, TakenBack};
use crate::git::{DiffStyle, Oid, Repository};
use crate::registry::Owned;
use crate::session::barred::barred;
use crate::session::collect::CollectError;
use crate::session::standing::Standing;
use crate::text::printable_bytes_line;

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Application {
    /// Whether it is in the checkout now.
    pub applied: Applied,
    /// Lines of `git diff --stat` of what was brought in, control bytes escaped.
    pub diffstat: String,
    /// Those of what was brought in that can run by themselves, printable.
    pub executes: Vec<String>,
    /// So many ends of the sandbox's work lie beside what was brought in, on a branch that moved.
    pub beside: usize,
}

/// Brings what the sandbox committed into the working tree around the command, and with it `rest`, the commit of what it did
/// not commit; `whole`: that is all of it, so that the sandbox's own files keep it from no `delete` any more. The branch does not
/// move, and what came is staged. Nothing is changed where it conflicts, or where a local
/// change would be overwritten. Calls `said` with what was done before about a dead run in the checkout.
pub async fn apply(
    target: &SandboxRef,
    rest: Option<Oid>,
    whole: bool,
    said: &(dyn Fn(&str) + Sync),
) -> Result<Application, ManageError> {
    let (repo, owned) = open(target, said).await?;
    let record = &owned.record;
    let (work, beside) = if let Some(rest) = &rest {
        (rest.clone(), 0)
    } else {
        let tips = target.tips(&repo, record, false).await?;
        let beside = tips.len().saturating_sub(1);
        let first = tips.into_iter().next().map(|tip| tip.id);
        (first.unwrap_or_else(|| record.base.clone()), beside)
    };
    let cancel = &target.cancel;
    let standing = Standing::beside(&target.home, repo.top.as_path()).await;
    let barred = |top: &Path| barred(&target.home, record.id, top, &standing);
    let cut_short = applying::unfinished(owned.directory()).is_some();
    let begins = || applying::begin(&owned, &repo.top);
    let applied = land::apply(&repo, record.id, &work, &barred, &begins, cancel).await;
    let applied = applied.map_err(CollectError::from)?;
    if matches!(applied, Applied::Nothing) {
        target.refuse_unpushed(&repo, record, true).await?;
        // What is not here did not get this far.
        if let Some(Landing::Refused { why, pack }) =
            record.outcome.as_ref().map(|one| &one.landing)
        {
            return Err(ManageError::Refused {
                name: record.name.to_string(),
                why: why.clone(),
                pack: pack.clone(),
                has_files: record.lives_on()
                    || record.mode.owns_files() && record.has_files(&target.home),
            });
        }
    }
    // What was in its way left an earlier one as it is.
    let unfinished = match &applied {
        Applied::Done { .. } | Applied::Nothing => false,
        Applied::Conflict(_) | Applied::InTheWay(_) => cut_short,
        Applied::Half(_) => true,
    };
    if !unfinished {
        applying::end(&owned)?;
    }
    // What is there already may be there in part: an earlier one has noted whether it was all.
    let came = matches!(applied, Applied::Done { .. });
    match &rest {
        Some(rest) if came && whole && record.lives_on() => {
            taken_out::note_rest(owned.directory(), rest)?;
        }
        _ if came && whole && beside == 0 && !record.lives_on() => {
            taken_out::note(owned.directory(), Destination::WorkingTree)?;
        }
        _ => {}
    }
    let diffstat = match &applied {
        Applied::Done { from, to } => repo.diff(from, to, DiffStyle::Stat, cancel).await?,
        Applied::Nothing | Applied::Conflict(_) | Applied::InTheWay(_) | Applied::Half(_) => {
            String::new()
        }
    };
    let changed = match &applied {
        Applied::Done { from, to } => repo.changed_files(from, to, cancel).await?,
        Applied::Nothing | Applied::Conflict(_) | Applied::InTheWay(_) | Applied::Half(_) => {
            Vec::new()
        }
    };
    let executes = changed.iter().filter(|path| gate::runs_by_itself(path));
    let executes = executes.map(|path| printable_bytes_line(path.as_os_str().as_bytes()));
    Ok(Application {
        executes: executes.collect(),
        applied,
        diffstat,
        beside,
    })
}

/// Takes back what [`apply`] brought in last, as far as nobody changed it since.
pub async fn take_back(
    target: &SandboxRef,
    said: &(dyn Fn(&str) + Sync),
) -> Result<TakenBack, ManageError> {
    let (repo, owned) = open(target, said).await?;
    let id = owned.record.id;
    let standing = Standing::beside(&target.home, repo.top.as_path()).await;
    let barred = |top: &Path| barred(&target.home, id, top, &standing);
    let cut_short = applying::unfinished(owned.directory()).is_some();
    let begins = || {
        taken_out::forget(owned.directory(), Destination::WorkingTree)?;
        applying::begin(&owned, &repo.top)
    };
    let done = land::take_back(&repo, id, &barred, &begins, &target.cancel).await;
    let done = done.map_err(CollectError::from)?;
    let unfinished = match &done {
        TakenBack::Nothing | TakenBack::Done { .. } | TakenBack::Committed => false,
        TakenBack::InTheWay(_) => cut_short,
        TakenBack::Half(_) => true,
    };
    if !unfinished {
        applying::end(&owned)?;
    }
    Ok(done)
}

/// The checkout, in which no driver runs, and the right to the sandbox.
async fn open(
    target: &SandboxRef,
    said: &(dyn Fn(&str) + Sync),
) -> Result<(Repository, Owned), ManageError> {
    let (repo, owned, _) = take_for_checkout(target, said).await?;
    Ok((repo.without_drivers(&target.cancel).await?, owned))
}
