//! What landing came to.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::git::Oid;

/// Where the agent's commits are now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "landing", rename_all = "snake_case")]
pub enum Landing {
    /// The agent made no commit.
    Nothing,
    /// `branch` moved to `tip`; for a merge, `tip` is the merge's result.
    Landed {
        /// Its short name.
        branch: String,
        /// Where the branch is now.
        tip: Oid,
    },
    /// Nothing of the user's moved; the commits are on `reference`, and `why` says what stood in
    /// the way.
    Kept {
        /// Its full name.
        reference: String,
        /// What stood in the way, as a sentence fragment.
        why: String,
    },
    /// The commits did not pass the gate. `pack` is what the state directory keeps of them: the pack, or
    /// the sandbox's git directory where no pack could be made.
    Refused {
        /// A path in the state directory.
        #[serde(serialize_with = "crate::path_json::optional")]
        pack: Option<PathBuf>,
        /// What is wrong with the commits.
        why: String,
    },
}

/// How [`Landing::Kept`] ends its `why` where the user is in the middle of a merge, a rebase or the like.
pub(crate) const FINISH_FIRST: &str = "finish or abort it first";

/// How [`Landing::Kept`] ends its `why` where sandboxes are at work in the checkout, and have to be stopped. `names`: of all of them, with
/// spaces between.
pub(crate) fn stop_first(names: &str) -> String {
    format!("{STOP}{names}{FIRST}")
}

/// The names in a reason that ends so.
pub(super) fn to_be_stopped(why: &str) -> Option<&str> {
    // A path stands before it, and no backquote is in a name.
    let (_, names) = why.strip_suffix(FIRST)?.rsplit_once(STOP)?;
    (!names.contains('`')).then_some(names)
}

const STOP: &str = "`cofferdam stop ";
const FIRST: &str = "` first";
/// What follows the branch's name where git did not move it.
pub(crate) const NOT_MOVED: &str = " did not move: ";
/// How it begins where the user's own work would be overwritten.
pub(crate) const LOCAL_CHANGES: &str = "local changes are in the way";
pub(crate) const UNTRACKED: &str = "files that git does not track would be overwritten";

/// Why a target was left where it is although nothing stood in the way.
pub(crate) const HELD_BACK: [&str; 7] = [
    STOPPED,
    FAILED,
    INTERRUPTED,
    LIVES,
    SEEN,
    NOT_CHECKED,
    CHECKS_CANCELLED,
];
pub(crate) const NOT_CHECKED: &str = "nobody has checked them yet: `merge` does";
pub(crate) const CHECKS_CANCELLED: &str = "their checks were cancelled: `merge` runs them again";
pub(crate) const STOPPED: &str = "the run was stopped";
pub(crate) const FAILED: &str = "the run failed";
pub(crate) const INTERRUPTED: &str = "the run was interrupted";
pub(crate) const LIVES: &str = "the sandbox goes on: `merge` moves the target";
pub(crate) const SEEN: &str = "the sandbox goes on: `collect` moves what is checked out";
/// How [`Landing::Kept`] ends its `why` where whoever was to judge the commits held them back.
pub(crate) const UNCHECKED: &str = "`merge --no-checks` merges them all the same";
/// Why nothing moves to what was committed over files that are gone.
pub(crate) const UNDERMINED: &str =
    "the files that the sandbox stood on were removed meanwhile, and they may be deleted in it";

impl Landing {
    /// Whether nobody but their user, who has looked at them, may merge the commits.
    pub fn is_to_be_looked_at(&self) -> bool {
        matches!(self, Self::Kept { why, .. } if why == UNDERMINED)
    }

    /// Whether the commits are kept on their branch because nobody has said yet that they shall go on from there.
    pub fn is_held_back(&self) -> bool {
        matches!(self, Self::Kept { why, .. } if HELD_BACK.contains(&why.as_str()))
    }

    /// Whether the configuration's checks held the commits back.
    pub fn has_failed_checks(&self) -> bool {
        matches!(self, Self::Kept { why, .. } if why.ends_with(UNCHECKED))
    }

    /// The names of the sandboxes that have to be stopped first, with spaces between.
    pub fn stop_first(&self) -> Option<&str> {
        let Self::Kept { why, .. } = self else {
            return None;
        };
        to_be_stopped(why)
    }

    /// Whether uncommitted work of the user's would be overwritten.
    pub fn waits_for_local_changes(&self) -> bool {
        let begins = [LOCAL_CHANGES, UNTRACKED];
        matches!(self, Self::Kept { why, .. } if begins.iter().any(|begin| why.starts_with(begin)))
    }

    /// Whether what stood in the way may be gone by now: nobody who comes later is told that it stands there.
    pub fn was_of_the_moment(&self) -> bool {
        let not_moved = matches!(self, Self::Kept { why, .. } if why.contains(NOT_MOVED));
        not_moved
            || self.stop_first().is_some()
            || self.waits_for_local_changes()
            || self.waits_for_the_user()
    }

    /// Whether the commits wait for what the user has begun in the checkout. No other git command that
    /// puts work aside or merges it may be offered then: `git stash` forgets a merge.
    pub fn waits_for_the_user(&self) -> bool {
        matches!(self, Self::Kept { why, .. } if why.ends_with(FINISH_FIRST))
    }
}

impl std::fmt::Display for Landing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = match self {
            Self::Nothing => "no commits".to_owned(),
            Self::Landed { branch, tip } => format!("{branch} is at {}", tip.short()),
            Self::Kept { reference, why } => format!("the commits are kept on {reference}: {why}"),
            Self::Refused { pack, why } => {
                let kept = pack
                    .as_ref()
                    .map(|pack| format!("; they are kept in {}", pack.display()));
                format!(
                    "the commits were refused: {why}{}",
                    kept.unwrap_or_default()
                )
            }
        };
        f.write_str(&crate::text::printable_line(&text))
    }
}
