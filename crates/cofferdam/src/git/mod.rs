//! The only tree that runs git. Host git never opens a git directory that a sandbox can write;
//! every call goes through the hardened command in [`command`].
//!
//! In: [`vault`] (host-owned packs of what was exported), [`private_clone`] (a sandbox's own git
//! directory), [`worktree`], [`before`]. Out: [`gate`] (the one door) and [`land`] (head,
//! merge-to-head, branch).

pub mod appearing;
pub mod bare;
pub mod before;
pub mod below;
mod binary;
pub mod command;
mod commit_line;
pub mod copied;
pub mod copies;
pub mod discovery;
pub mod files;
pub mod gate;
pub mod hex;
mod history;
pub mod identity;
pub mod index;
pub mod inodes;
pub mod land;
pub(crate) mod lock;
pub mod nested;
mod oid;
pub mod own_files;
pub mod private_clone;
pub mod progress;
pub mod recorded;
pub(crate) mod ref_words;
pub mod refs;
pub mod refs_at;
pub mod repository;
mod repository_error;
pub mod rights;
mod scratch;
pub mod status;
pub mod steering;
pub mod trees;
pub mod vault;
pub mod walked;
pub mod worktree;

pub use command::{Git, GitError};
pub use commit_line::CommitLine;
pub use history::{DiffStyle, InTree};
pub use lock::{occupy, occupy_beside, unseen, vacant};
pub use oid::{ObjectFormat, Oid};
pub use repository::{Head, Identity, Repository, RepositoryError};
pub use scratch::UserRules;
