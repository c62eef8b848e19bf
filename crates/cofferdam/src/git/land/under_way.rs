//! What the user has begun in a checkout and not ended. Its branch and index are part of that: moved
//! in between, `--abort` leads somewhere else, and the commit that ends it says what is not so.

use std::path::Path;

/// The operation, as a person calls it. `detached`: no branch is checked out. A search by `bisect` is of
/// account there alone, for it moves nothing but `HEAD`.
pub(super) fn under_way(git_dir: &Path, detached: bool) -> Option<&'static str> {
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
