//! What a start looks for anew in a checkout that the agent shares with its user: an agent can move a directory, and
//! what was mounted over something in it stays behind; and while the sandbox was stopped its user may have said that something else
//! is protected, checked out another branch, or cloned a repository of theirs there.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use super::SessionError;
use crate::config::Merged;
use crate::fsx::FileError;
use crate::git::{Repository, identity, nested};
use crate::path_json::PathText;
use crate::registry::{AdoptedGit, Mode, Owned};
use crate::sandbox::{Access, Mount, MountSource};
use crate::session::emitter::Emitter;
use crate::session::form::Form;
use crate::session::hide::Covered;
use crate::session::options::Caller;
use crate::session::protect::{self, Protection};
use crate::session::watched::Sharing;
use crate::session::{hide, layers, mounts, shared};

/// The mounts of a sandbox that is made again from its form. `config`: as it stands now.
pub(super) async fn mounts(
    caller: &Caller,
    repo: &Repository,
    owned: &mut Owned,
    form: &Form,
    config: &Merged,
) -> Result<Vec<Mount>, SessionError> {
    let mut all = form.mounts();
    let record = &owned.record;
    let state = caller.home.sandbox(record.id);
    if record.mode == Mode::Layer {
        let events = caller.events.clone();
        let stands = layers::stand(&caller.home, repo, record, events, &caller.cancel);
        stands
            .await
            .map_err(|source| SessionError::sandbox(record.name.to_string(), source))?;
        let now = layers::source(&state)?;
        let stored = all
            .iter_mut()
            .filter(|mount| matches!(mount.source, MountSource::Layers { .. }));
        stored.for_each(|mount| mount.source = now.clone());
    }
    let Some(passing) = form.passing() else {
        return Ok(all);
    };
    let (workspace, target) = (record.workspace(&caller.home), form.workspace());
    let top = workspace.clone();
    let scan = tokio::task::spawn_blocking(move || nested::scan_before(&top, true));
    let user = caller.user_home.as_deref();
    let (scan, user_config) = tokio::join!(scan, identity::user_config(repo, user, &caller.cancel));
    let found =
        scan.map_err(|error| FileError::new("look through", &workspace, error.into()))??;
    let steering = user_config?.steering.in_tree(repo, user, &workspace);

    let again = |mount: &&Mount| matches!(mount.source, MountSource::Target);
    let below = |mount: &Mount| mount.target.strip_prefix(&target).ok().map(Path::to_owned);
    let begins = all
        .iter()
        .position(|mount| again(&mount))
        .unwrap_or(passing.start);
    let begins = begins.min(passing.start);
    let was_read_only = all[begins..passing.start].iter().filter(again);
    let was_read_only = was_read_only.filter(|mount| mount.access == Access::ReadOnly);
    let known = was_read_only
        .filter_map(below)
        .filter(|path| hide::is_there(&workspace, path))
        .collect();
    let sharing = Sharing::of(&caller.home, record)?;
    let adopted = adopted(&sharing, &workspace, &found.git);
    let is_theirs = |path: &&PathBuf| {
        record.nested_before.iter().any(|one| one.0 == **path)
            || adopted.iter().any(|one| one.path.0 == **path)
    };
    let before = found.git.iter().filter(is_theirs).cloned().collect();
    let hidden: Vec<PathBuf> = record.hidden.iter().map(|path| path.0.clone()).collect();
    let named = protect::by_now(&record.protected, config, repo.top.as_path());
    let protection = Protection {
        known,
        before,
        named,
        steering,
    };
    let events = Emitter::sink(caller.events.clone());
    owned.record.adopted = adopted;
    let read_only = protect::protect::<SessionError>(owned, &caller.home, protection, &events)?;
    let covered = hide::cover::<SessionError>(&state, &workspace, &hidden)?;
    let frozen = shared::freeze(&workspace, &found.inodes, &events)?;
    shared::cover_doors::<SessionError>(&state, &workspace, &found.doors)?;

    // What lay over something that is not there any more has no place; what is hidden lies behind everything that shows it again.
    let own = |path: &Path| path.starts_with(".git") || path.starts_with(".cofferdam");
    let stays = |mount: &Mount| match below(mount) {
        Some(path) if path.as_os_str().is_empty() || own(&path) => true,
        Some(path) => !hidden.contains(&path) && hide::is_there(&workspace, &path),
        None => true,
    };
    let last = all.split_off(passing.end);
    all.truncate(begins);
    all.extend(mounts::unwritable(&target, &read_only, &covered));
    all.extend(mounts::passing(&state, &target, &frozen, &found.doors));
    let (masks, submodules): (Vec<_>, Vec<_>) = last
        .into_iter()
        .filter(stays)
        .partition(|mount| below(mount).is_some_and(|path| own(&path)));
    // What is below an empty directory of ours is hidden already, and there is no place for a mount.
    let empty = submodules
        .iter()
        .filter(|mount| matches!(mount.source, MountSource::Nothing));
    let empty: Vec<PathBuf> = empty.filter_map(below).collect();
    let is_gone = |one: &&Covered| empty.iter().any(|above| one.path.starts_with(above));
    let covered = covered.iter().filter(|one| !is_gone(one));
    all.extend(submodules);
    all.extend(covered.map(|one| mounts::covering(&state, &target, one)));
    all.extend(masks);
    Ok(all)
}

/// The nested git directories that came when nobody inside could make any, now or before another sandbox of the checkout was started.
fn adopted(sharing: &Sharing, workspace: &Path, found: &BTreeSet<PathBuf>) -> Vec<AdoptedGit> {
    let one = |path: &PathBuf| {
        // A time of birth is nobody's to set.
        let there = workspace.join(path).symlink_metadata();
        let born = there.and_then(|there| there.created()).ok()?;
        let is_later = sharing.ended.is_some_and(|ended| born > ended);
        let born = Timestamp::try_from(born).ok()?;
        let path = PathText(path.clone());
        let one = AdoptedGit { path, born };
        (is_later || sharing.adopted.contains(&one)).then_some(one)
    };
    found.iter().filter_map(one).collect()
}
