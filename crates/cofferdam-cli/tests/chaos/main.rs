//! The command under violence: killed at every step, interrupted, run twice at once, on full
//! disks, beside a user who goes on working. After each scenario a checker compares what there was
//! before with what there is now.

#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test starts programs, writes files and fails by panicking"
)]

mod checker;
mod concurrent;
mod environment;
mod first_start;
mod full_disk;
mod interrupts;
mod keeper;
mod kill;
mod left;
mod living;
mod mcp;
#[path = "../cli/mcp_client.rs"]
#[expect(dead_code, reason = "other tests ask more of it")]
mod mcp_client;
mod mounted;
mod next_command;
mod no_record;
mod no_room;
mod roles;
mod trees;
mod user;
mod walled;
