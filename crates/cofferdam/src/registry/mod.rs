//! What sandboxes exist: one directory each in the host-owned state, with a record that is written
//! whole before the thing it describes is made. `kill -9` at any point leaves a record (or an empty
//! directory) that `list` shows and `gc` finishes.
//!
//! A sandbox's owner holds `flock` on `lock` in that directory. The kernel lets go of it when the
//! owner dies, so a free lock is the only sign of death that is trusted; pids are not.

pub mod belongs;
mod error;
mod format;
mod landing;
mod listing;
mod lock;
mod owned;
mod record;
#[cfg(test)]
mod tests;
pub mod written;

pub use crate::path_json::PathText;
pub use error::RegistryError;
pub use listing::{
    Entry, Listing, barred, find, ids, is_in_use, list, load, occupants, owner, remove_unfinished,
    unseen, workspaces, writers,
};
use lock::making;
pub use owned::Owned;
pub use record::{
    AdoptedGit, DevSandbox, ExtraMount, Lifetime, Mode, Outcome, Phase, Reach, Record, Setup,
    Squashed, Strategy, VERSION, VolumeMount,
};
