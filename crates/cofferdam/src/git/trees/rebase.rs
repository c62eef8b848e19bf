//! A full stack becomes one layer, when nobody waits for it: from then on what differs is little again.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use tokio_util::sync::CancellationToken;

use super::about::About;
use super::error::TreeError;
use super::store::{clean_tmp, hold, remove, trees_in, usable, used_now};
use super::write::Tell;
use super::{LONGEST_STACK, base};
use crate::fsx::{self, FileError};
use crate::git::{GitError, Oid, Repository};
use crate::home::Home;

/// The tree of `repo` that was used last, where its stack is full, all of its layers together take no more than `bytes` and
/// no sandbox stands on the uppermost, as `used` tells.
pub fn full_stack(
    home: &Home,
    repo: &Repository,
    bytes: u64,
    used: &BTreeSet<PathBuf>,
) -> Result<Option<Oid>, FileError> {
    let store = home.trees(&repo.top);
    let all = match trees_in(&store) {
        Err(error) if error.is_not_found() => return Ok(None),
        read => read?,
    };
    let when = |place: &PathBuf| place.metadata().and_then(|found| found.modified()).ok();
    let last = all.into_iter().max_by_key(|(_, place)| when(place));
    let Some((tree, _)) = last.filter(|(_, place)| !used.contains(&place.join("files"))) else {
        return Ok(None);
    };
    let Some(about) = usable(&store, &tree)?.filter(|it| it.below.len() + 1 == LONGEST_STACK)
    else {
        return Ok(None);
    };
    let mut takes = about.bytes;
    for below in &about.below {
        takes += About::read(&store.join(below.as_str()))?.map_or(0, |it| it.bytes);
    }
    Ok((takes <= bytes).then_some(tree))
}

/// Writes all files of `tree` to one layer, in the place of that which stood on others. `false`: another process writes a
/// tree of this repository or begins with one, a sandbox stands on it by now, or the repository no longer has it. Then all
/// is as it was.
pub async fn rebase(
    home: &Home,
    repo: &Repository,
    tree: &Oid,
    used: impl FnOnce() -> Result<BTreeSet<PathBuf>, FileError>,
    cancel: &CancellationToken,
) -> Result<bool, TreeError> {
    let store = home.trees(&repo.top);
    let Some(_writing) = hold(&store.join("write.lock"))? else {
        return Ok(false);
    };
    clean_tmp(&store)?;
    let made = store.join("tmp").join(format!("{tree}-base"));
    fsx::private_dir(&made)?;
    let about = match base::write(repo, tree, &made, &Tell::nobody(), cancel).await {
        Err(TreeError::Git(GitError::Failed { .. })) => {
            clean_tmp(&store)?;
            return Ok(false);
        }
        written => written?,
    };
    about.write(&made)?;
    // From here on nobody begins to stand on it.
    let place = store.join(tree.as_str());
    let beginning = hold(&store.join("lease.lock"))?;
    if beginning.is_none() || used()?.contains(&place.join("files")) {
        clean_tmp(&store)?;
        return Ok(false);
    }
    // Killed between the two, there is none, and the next one writes it.
    remove(&store, tree)?;
    fs::rename(&made, &place).map_err(|source| FileError::new("move", &made, source))?;
    used_now(&place);
    Ok(true)
}
