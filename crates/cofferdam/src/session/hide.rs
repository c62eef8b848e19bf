//! Paths that a sandbox must not see (`--hide`): checked before anything is made, then covered or left
//! out. What the history holds at them goes in all the same, and is told.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use tokio_util::sync::CancellationToken;

use super::error::RunErrorKind;
use super::event::Notice;
use super::plan::error::PlanError;
use crate::fsx;
use crate::git::{Oid, Repository, below};

/// An empty file in the state directory, that lies over hidden files.
pub(super) const NO_FILE: &str = "no-file";

/// One path that is covered in a mounted workspace, relative to its top.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Covered {
    pub path: PathBuf,
    pub is_directory: bool,
}

/// The paths made plain, without those that another one hides already. One that is neither in the
/// checkout nor tracked is refused: what was meant would stay visible. Of `configured` it is passed over: that is said once for many
/// repositories and commits.
pub(super) async fn plan(
    repository: &Repository,
    base: &Oid,
    paths: &[PathBuf],
    configured: &[PathBuf],
    cancel: &CancellationToken,
) -> Result<Vec<PathBuf>, RunErrorKind> {
    let top = repository.top.as_path();
    let mut plain = Vec::new();
    let named = paths.iter().map(|path| (path, true));
    let all = named.chain(configured.iter().map(|path| (path, false)));
    for (path, must_be) in all {
        let refuse = |why| PlanError::Hide {
            path: path.clone(),
            why,
        };
        let path = below::plain(top, path).map_err(refuse)?;
        match lies_at(top, &path) {
            Lies::There => {}
            Lies::Behind => return Err(refuse(BEHIND).into()),
            Lies::Nowhere => {
                if !repository.is_tracked(base, &path, cancel).await? {
                    if !must_be {
                        continue;
                    }
                    return Err(refuse("there is nothing at it, and nothing is tracked").into());
                }
            }
        }
        plain.push(path);
    }
    plain.sort();
    // A path sorts before what is below it.
    plain.dedup_by(|later, kept| later.starts_with(kept));
    Ok(plain)
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
pub(super) fn cover(
    state: &Path,
    workspace: &Path,
    hidden: &[PathBuf],
) -> Result<Vec<Covered>, RunErrorKind> {
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
