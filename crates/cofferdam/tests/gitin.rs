//! How work goes in, with real git: every git on this machine that is new enough.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods
)]

#[path = "gitin/support.rs"]
mod support;

#[path = "gitin/befores.rs"]
mod befores;
#[path = "gitin/clones.rs"]
mod clones;
#[path = "gitin/copies.rs"]
mod copies;
#[path = "gitin/indexes.rs"]
mod indexes;
#[path = "gitin/trees.rs"]
mod trees;
#[path = "gitin/trees_large.rs"]
mod trees_large;
#[path = "gitin/worktrees.rs"]
mod worktrees;
