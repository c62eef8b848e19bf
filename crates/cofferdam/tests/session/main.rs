//! Whole runs through the library, with real git and the native sandbox.

#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    reason = "tests start programs, write files, and fail by panicking"
)]

mod agents;
mod apart;
mod bad_input;
mod branches;
mod compile_fail;
mod env_file;
mod every_entry;
mod examples;
mod half_merged;
mod hidden;
mod homes;
mod lifecycle;
mod living;
mod living_attacks;
mod living_collect;
mod living_dropped;
mod living_faults;
mod living_flows;
mod living_ports;
mod living_small;
mod living_turns;
mod living_watch;
mod notes;
mod older;
mod orchestrate;
mod prompts;
mod providers;
mod same_work;
mod shared;
mod shown;
mod silence;
mod sockets;
mod submodules;
mod support;
mod uncommitted;
mod without_git;

#[path = "../common/port.rs"]
mod port;
