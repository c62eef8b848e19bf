//! The commit gate and the landings, with real git: what passes, what is refused, and that nothing
//! else of the repository changes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod beside_the_user;
mod in_the_middle;
mod landings;
mod landings_cut_short;
mod leftovers;
mod names;
mod packs;
mod world;
