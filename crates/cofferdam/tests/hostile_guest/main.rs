//! A stand-in for everything behind the boundary: its replies, exit codes, git directories and packs
//! come from generators and from a list of spite. The host never hangs, and no reference but the
//! sandbox's own moves.
//!
//! The guest's protocol itself is fuzzed beside its reader, in `sandbox/guest/connection.rs`.

#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    reason = "tests start programs, write files, and fail by panicking"
)]

#[path = "../session/support.rs"]
#[expect(dead_code, reason = "shared with the session's tests")]
mod support;

mod git_directories;
mod packs;
mod replies;
mod world;
