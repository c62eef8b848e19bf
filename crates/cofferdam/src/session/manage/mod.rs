//! What people do with sandboxes after (or during) their runs: list, look, merge, delete, clean up.

mod apply;
mod applying;
mod branch;
mod checkout;
mod delete;
pub(super) mod error;
mod gc;
mod half_merged;
mod list;
mod merge;
mod merged;
mod orphan;
mod rest;
mod risk;
mod sandbox_ref;
mod show;
mod taken_out;
mod tips;
mod turn;
mod worktree;

pub use crate::git::DiffStyle;
pub use crate::git::land::{Applied, TakenBack};
pub use crate::git::refs::Was;
pub use crate::session::collect::Rest;
pub use apply::{Application, apply, take_back};
pub(super) use applying::unfinished as unfinished_in;
pub(super) use delete::closed;
pub use delete::{DeleteOptions, Deleted, KeptBranch, bring_home, delete, let_go};
pub use error::{Lost, ManageError};
pub use gc::{Doing, GcOptions, GcReport, KEEP_TREES, Problem, Recovered, gc};
pub(super) use gc::{give_up, recover_in};
pub use half_merged::lacking;
pub use list::{State, Summary, ask, list, unreadable};
pub use merge::{Merge, MergeOptions, at_work, merge};
pub use merged::{Stays, stays};
pub use rest::rest;
pub(super) use risk::{at_risk, on_no_other_branch};
pub use sandbox_ref::SandboxRef;
pub use show::{Shown, diff, diff_of, diff_rest, log, still_kept};
pub(in crate::session) use taken_out::{
    ended_with_rest, has_rest, is_rest, keeps_more, nothing_is_taken_out,
};
pub(super) use tips::made_branch;
pub use worktree::worktree;
