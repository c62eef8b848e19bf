//! What to do about names and branches that are taken, and about repositories that lack something.

use cofferdam::git::refs::RefError;
use cofferdam::git::vault::VaultError;
use cofferdam::git::worktree::WorktreeError;
use cofferdam::names::{NameError, Slug};
use cofferdam::session::{Holder, Holding};

use crate::ui::shell::shell_word;

pub(super) const CHECKED_OUT_HINT: &str =
    "name another branch, or work in that checkout itself with `-C DIR` and `--head`";

/// A sandbox of that name may hold work that is merged nowhere: nobody is told to delete it.
pub(super) fn taken_hint(name: &Slug) -> String {
    format!("for example `--name {name}-2`; `cofferdam list` shows what `{name}` holds")
}

/// A branch that another sandbox has.
pub(super) fn held_hint(holder: &Holder) -> String {
    let Holder { name, state, at } = holder;
    match state {
        Holding::Running => {
            format!(
                "wait for the end of `{name}`, stop it with Ctrl-C in its terminal, or name another branch"
            )
        }
        Holding::LivesOn => format!(
            "work in it with `cofferdam shell {name}`, end it with `cofferdam delete {name}`, or name another branch"
        ),
        Holding::Interrupted => {
            "bring its commits home with `cofferdam gc`, then try again".to_owned()
        }
        Holding::Ended => {
            let at = shell_word(at);
            format!(
                "see it with `git -C {at} status`; commit it there, then free the branch with `git worktree remove {at}`; \
                 or, when nothing of it is needed, `cofferdam delete --force {name}`; or name another branch"
            )
        }
    }
}

pub(super) fn worktree_hint(error: &WorktreeError) -> Option<String> {
    let hint = match error {
        WorktreeError::CheckedOut { .. } => CHECKED_OUT_HINT.to_owned(),
        WorktreeError::Preserved { at, .. } => format!(
            "see what is in it with `git -C {0} status`, then free the branch with `git worktree remove {0}`",
            shell_word(at)
        ),
        WorktreeError::NameConflict { .. } => "name another branch".to_owned(),
        WorktreeError::InTheWay { path, .. } => {
            let path = shell_word(path);
            format!("move it away: `mv {path} {path}.old`")
        }
        // It says what to do.
        WorktreeError::NotMade { .. }
        | WorktreeError::NoBranch { .. }
        | WorktreeError::NotOurs { .. }
        | WorktreeError::Cancelled
        | WorktreeError::File(_)
        | WorktreeError::Git(_) => return None,
    };
    Some(hint)
}

pub(super) fn ref_hint(error: &RefError) -> Option<String> {
    match error {
        RefError::CheckedOut { at, .. } => Some(format!(
            "check out another branch there first: `git -C {} switch NAME`",
            shell_word(at)
        )),
        RefError::Moved { .. } => Some("nothing was moved: try again".to_owned()),
        RefError::TrashFull(_) => {
            Some("see what is in it with `git for-each-ref refs/cofferdam/trash`".to_owned())
        }
        RefError::Git(_) => None,
    }
}

pub(super) fn vault_hint(error: &VaultError) -> Option<String> {
    match error {
        // It left objects at its origin.
        VaultError::PartialClone { repository, .. } => Some(format!(
            "complete it with `git -C {} fetch --refetch --no-filter`",
            shell_word(repository)
        )),
        VaultError::Cancelled | VaultError::File(_) | VaultError::Git(_) => None,
    }
}

pub(super) fn name_hint(error: &NameError) -> Option<String> {
    match error {
        NameError::Sandbox { slug } if slug.is_empty() => {
            Some("use letters and digits, for example `--name fix-17`".to_owned())
        }
        NameError::Sandbox { slug } => Some(format!(
            "it has {} characters: shorten it, for example to `--name {}`",
            slug.len(),
            slug[..Slug::MAX.min(slug.len()).min(20)].trim_end_matches('-')
        )),
        NameError::EmptySlug(_)
        | NameError::Branch { .. }
        | NameError::Volume(_)
        | NameError::Id(_) => None,
    }
}
