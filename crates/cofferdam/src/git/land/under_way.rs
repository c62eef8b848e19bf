//! What the user has begun in a checkout and not ended. Its branch and index are part of that: moved
//! in between, `--abort` leads somewhere else, and the commit that ends it says what is not so.

use std::path::Path;

use super::landing::FINISH_FIRST;
use crate::text::printable;

/// What a [`Landing::Kept`](super::Landing::Kept) says of it in the checkout with this top, to the end of its `why`. `detached`: no
/// branch is checked out.
pub(super) fn under_way(git_dir: &Path, top: &Path, detached: bool) -> Option<String> {
    let what = operation(git_dir, detached)?;
    let at = printable(&top.to_string_lossy());
    Some(format!("{what} is under way in {at}: {FINISH_FIRST}"))
}

/// As a person calls it. A search by `bisect` is of account only where no branch is checked out, for it moves nothing but `HEAD`.
fn operation(git_dir: &Path, detached: bool) -> Option<&'static str> {
    let signs = [
        ("rebase-merge", "a rebase"),
        ("rebase-apply/applying", "`git am`"),
        ("rebase-apply", "a rebase"),
        ("MERGE_HEAD", "a merge"),
        ("CHERRY_PICK_HEAD", "a cherry-pick"),
        ("REVERT_HEAD", "a revert"),
        // Between two commits of several there is no other sign.
        ("sequencer/todo", "a cherry-pick or revert"),
    ];
    let found = signs
        .into_iter()
        .find(|(sign, _)| git_dir.join(sign).symlink_metadata().is_ok())
        .map(|(_, what)| what);
    let bisect = || (detached && git_dir.join("BISECT_LOG").exists()).then_some("a bisect");
    found.or_else(bisect)
}

/// What one says of a checkout in which somebody else is at work whom nobody knows.
pub(super) fn at_work(top: &Path) -> String {
    let at = printable(&top.to_string_lossy());
    format!("another sandbox is at work in {at}")
}
