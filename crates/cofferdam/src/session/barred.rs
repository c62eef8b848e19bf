//! Where no landing may begin.

use std::path::{Path, PathBuf};

use crate::git::{land, nested};
use crate::home::Home;
use crate::names::{SandboxId, Slug};
use crate::registry::{self, RegistryError};
use crate::sandbox;
use crate::session::standing::Standing;

/// As [`registry::barred`], where those that live on can be asked whether they run.
pub(super) fn at_work(home: &Home, top: &Path) -> Option<String> {
    at_work_but(home, top, &Standing::default())
}

fn at_work_but(home: &Home, top: &Path, standing: &Standing) -> Option<String> {
    registry::barred(home, top, &|record| {
        !standing.has(record.id) && sandbox::is_up(&home.sandbox(record.id))
    })
}

/// The sandboxes that live on, and have to be stopped before something lands there.
pub(super) fn to_be_stopped(home: &Home, top: &Path) -> Result<Vec<Slug>, RegistryError> {
    let records = registry::occupants(home, top)?
        .into_iter()
        .map(|(_, entry)| entry.record);
    // Those beside it stand still meanwhile.
    let within = records.filter(|record| record.lives_on() && record.shelf_branch().is_none());
    let up = within.filter(|record| sandbox::is_up(&home.sandbox(record.id)));
    let mut names: Vec<Slug> = up.map(|record| record.name).collect();
    names.sort_unstable();
    Ok(names)
}

/// As [`at_work`], for a landing that begins while `standing` stand still: nor may one where that of another sandbox is half done.
pub(super) fn barred(
    home: &Home,
    id: SandboxId,
    top: &Path,
    standing: &Standing,
) -> Option<String> {
    let trapped = || trap(home, top).map(|trap| nested::waits_at(&trap));
    at_work_but(home, top, standing)
        .or_else(trapped)
        .or_else(|| {
            let entries = registry::list(home, None).ok()?.entries.into_iter();
            let other = entries
                .filter(|entry| !entry.in_use || entry.record.lives_on())
                .filter(|entry| entry.record.id != id)
                .find(|entry| was_in(&home.sandbox(entry.record.id), top))?;
            Some(format!(
                "the merge of sandbox `{}` was cut short here: `cofferdam gc` finishes it",
                other.record.name
            ))
        })
}

/// A pipe in the place of `.gitignore` and the like in `top`, where an agent may have made one.
fn trap(home: &Home, top: &Path) -> Option<PathBuf> {
    let occupants = registry::occupants(home, top).ok()?;
    let trap = (!occupants.is_empty()).then(|| nested::trap(top))?;
    trap.ok()?.map(|path| top.join(path))
}

/// A journal that cannot be read may be of any checkout.
pub(super) fn was_in(state: &Path, top: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    match land::half_done_in(state) {
        Ok(Some(at)) => real(&at) == real(top),
        Ok(None) => false,
        Err(_) => true,
    }
}
