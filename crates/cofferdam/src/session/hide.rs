//! Paths that a sandbox must not see (`--hide`): checked before anything is made, then covered or left
//! out. What the history holds at them goes in all the same, and is told.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use tokio_util::sync::CancellationToken;

use super::error::RunErrorKind;
use super::event::Notice;
use super::plan::error::PlanError;
use crate::config::Valued;
use crate::fsx::{self, FileError};
use crate::git::{Oid, Repository, below};

/// An empty file in the state directory, that lies over hidden files.
pub(super) const NO_FILE: &str = "no-file";

/// One path that is covered in a mounted workspace, relative to its top.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Covered {
    pub path: PathBuf,
    pub is_directory: bool,
}

/// What a sandbox does not see.
#[derive(Debug, Default)]
pub(super) struct Hidden {
    /// Made plain, without those that another one hides already.
    pub paths: Vec<PathBuf>,
    /// Of the configuration: nothing is at them here. It is said once for many repositories and commits.
    pub in_vain: Vec<Valued<PathBuf>>,
}

/// A path of `paths` at which nothing is is refused: what was meant would stay visible.
pub(super) async fn plan(
    repository: &Repository,
    base: &Oid,
    paths: &[PathBuf],
    configured: &[Valued<PathBuf>],
    cancel: &CancellationToken,
) -> Result<Hidden, RunErrorKind> {
    let mut hidden = Hidden::default();
    for path in paths {
        let Some(path) = found(repository, base, path, cancel).await? else {
            let (path, why) = (
                path.clone(),
                "there is nothing at it, and nothing is tracked",
            );
            return Err(PlanError::Hide { path, why }.into());
        };
        hidden.paths.push(path);
    }
    for one in configured {
        match found(repository, base, &one.value, cancel).await? {
            Some(path) => hidden.paths.push(path),
            None => hidden.in_vain.push(one.clone()),
        }
    }
    hidden.paths.sort();
    // A path sorts before what is below it.
    let paths = &mut hidden.paths;
    paths.dedup_by(|later, kept| later.starts_with(kept));
    Ok(hidden)
}

/// The path made plain; none where it is neither in the checkout nor tracked.
pub(super) async fn found(
    repository: &Repository,
    base: &Oid,
    path: &Path,
    cancel: &CancellationToken,
) -> Result<Option<PathBuf>, RunErrorKind> {
    let top = repository.top.as_path();
    let refuse = |why| PlanError::Hide {
        path: path.to_owned(),
        why,
    };
    let plain = below::plain(top, path).map_err(refuse)?;
    let is_there = match lies_at(top, &plain) {
        Lies::There => true,
        Lies::Behind => return Err(refuse(BEHIND).into()),
        Lies::Nowhere => repository.is_tracked(base, &plain, cancel).await?,
    };
    Ok(is_there.then_some(plain))
}

const BEHIND: &str = "it is a symbolic link or lies behind one: name where it leads";

enum Lies {
    There,
    /// A symlink is on its path, or it is one itself: hiding that hides no content.
    Behind,
    Nowhere,
}

fn lies_at(top: &Path, path: &Path) -> Lies {
    let mut at = top.to_owned();
    for name in path {
        at.push(name);
        match at.symlink_metadata() {
            Ok(found) if found.is_symlink() => return Lies::Behind,
            Ok(_) => {}
            Err(_) => return Lies::Nowhere,
        }
    }
    Lies::There
}

/// Whether something is at the path itself, no symlink and behind none.
pub(super) fn is_there(top: &Path, path: &Path) -> bool {
    matches!(lies_at(top, path), Lies::There)
}

/// What of `hidden` is to be covered in `workspace`, with the empty file that is needed for it made in
/// `state`. What is not there shows nothing.
pub(super) fn cover<E: From<PlanError> + From<FileError>>(
    state: &Path,
    workspace: &Path,
    hidden: &[PathBuf],
) -> Result<Vec<Covered>, E> {
    let mut covered = Vec::new();
    for path in hidden {
        match lies_at(workspace, path) {
            Lies::There => {}
            Lies::Nowhere => continue,
            Lies::Behind => {
                let (path, why) = (path.clone(), BEHIND);
                return Err(PlanError::Hide { path, why }.into());
            }
        }
        covered.push(Covered {
            path: path.clone(),
            is_directory: workspace.join(path).is_dir(),
        });
    }
    if covered.iter().any(|one| !one.is_directory) {
        fsx::write_with_mode(&state.join(NO_FILE), b"", 0o444)?;
    }
    Ok(covered)
}

/// What hiding cannot do, said before the agent starts.
pub(super) fn limits(workspace: &Path, covered: &[Covered], tracked: Vec<PathBuf>) -> Vec<Notice> {
    let mut notices = Vec::new();
    let linked = covered.iter().filter(|one| {
        let found = workspace.join(&one.path).symlink_metadata();
        !one.is_directory && found.is_ok_and(|found| found.nlink() > 1)
    });
    for Covered { path, .. } in linked {
        let path = path.display();
        notices.push(Notice::Other {
            text: format!("{path} is hidden under this name, but the file has other names too"),
        });
    }
    if !tracked.is_empty() {
        notices.push(Notice::HiddenInHistory { paths: tracked });
    }
    notices
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_hide_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path();
        std::fs::create_dir_all(top.join("d/e")).unwrap();
        symlink("d", top.join("l")).unwrap();
        let at = |path: &str| lies_at(top, Path::new(path));
        assert!(matches!(at("d/e"), Lies::There));
        assert!(matches!(at("l"), Lies::Behind));
        assert!(matches!(at("l/e"), Lies::Behind));
        assert!(matches!(at("d/none"), Lies::Nowhere));
    }
}
