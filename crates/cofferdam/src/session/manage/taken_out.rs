//! What a sandbox that ended left in no commit, once all of it is outside: in a worktree, or in the user's working tree. Noted
//! in the state directory, by files that are there or not.

use std::path::Path;

use crate::fsx::{self, FileError};
use crate::git::Oid;
use crate::registry::Record;
use crate::session::collect;

/// A worktree had all of it: from then on what is there, or was, is what counts.
const IN_WORKTREE: &str = "worktree-whole";
/// The user's working tree had all of it, and still may give it back.
const APPLIED: &str = "applied-whole";
/// The same of one that lives on, which may change its files again: the commit of what it had then.
const APPLIED_REST: &str = "applied-rest";

#[derive(Debug, Clone, Copy)]
pub(super) enum Destination {
    Worktree,
    WorkingTree,
}

impl Destination {
    fn file(self) -> &'static str {
        match self {
            Self::Worktree => IN_WORKTREE,
            Self::WorkingTree => APPLIED,
        }
    }
}

/// `directory`: the sandbox's state directory, as in all of these.
pub(super) fn note(directory: &Path, to: Destination) -> Result<(), FileError> {
    fsx::write_private(&directory.join(to.file()), b"")
}

/// It is no longer in that place.
pub(super) fn forget(directory: &Path, to: Destination) -> Result<(), FileError> {
    if matches!(to, Destination::WorkingTree) {
        fsx::remove_file_if_exists(&directory.join(APPLIED_REST))?;
    }
    fsx::remove_file_if_exists(&directory.join(to.file()))
}

/// Notes that all of `rest`, the commit of what a sandbox that lives on has in no commit, is in the user's working tree.
pub(super) fn note_rest(directory: &Path, rest: &Oid) -> Result<(), FileError> {
    fsx::write_private(&directory.join(APPLIED_REST), rest.as_str().as_bytes())
}

/// Whether such a note is there.
pub(in crate::session) fn has_rest(directory: &Path) -> bool {
    directory.join(APPLIED_REST).symlink_metadata().is_ok()
}

/// Whether it is of this commit: the same work is the same commit.
pub(in crate::session) fn is_rest(directory: &Path, rest: &Oid) -> bool {
    let noted = std::fs::read(directory.join(APPLIED_REST));
    noted.is_ok_and(|noted| noted == rest.as_str().as_bytes())
}

/// Notes that a sandbox which has ended has left nothing that is not in the user's working tree.
pub(in crate::session) fn ended_with_rest(directory: &Path) -> Result<(), FileError> {
    note(directory, Destination::WorkingTree)
}

/// Who works in the sandbox's own files again leaves something anew, and one that is ended whatever it holds may. A commit that was
/// noted stays so: it is looked at again.
pub(in crate::session) fn nothing_is_taken_out(directory: &Path) -> Result<(), FileError> {
    fsx::remove_file_if_exists(&directory.join(IN_WORKTREE))?;
    fsx::remove_file_if_exists(&directory.join(APPLIED))
}

pub(super) fn is_in(directory: &Path, to: Destination) -> bool {
    let file = directory.join(to.file());
    file.symlink_metadata().is_ok()
}

/// Whether there is more of a sandbox that lives on than its branch and its files.
pub(in crate::session) fn keeps_more(record: &Record, directory: &Path) -> bool {
    let outcome = record.outcome.as_ref();
    // What has a reference of its own outlives it.
    outcome.is_some_and(|one| one.keeps_repository) || collect::sets_aside(directory)
}

/// Whether the state directory of a sandbox that ended holds work that came no further. `taken_out`: all that was in no commit did.
pub(super) fn keeps_work(record: &Record, directory: &Path, taken_out: bool) -> bool {
    let outcome = record.outcome.as_ref();
    let holds = outcome.is_none_or(|one| one.keeps_repository);
    if taken_out && !holds {
        collect::sets_aside(directory)
    } else {
        collect::keeps_work(directory)
    }
}
