//! The command as its users meet it: one module for each command, real git, real sandboxes, and an
//! environment of the tests' own.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod apart;
mod checked;
mod checks_inside;
mod codex;
mod committed;
mod completions;
mod configured;
mod configured_shells;
mod containers;
mod daemon;
mod delete;
mod demo;
mod dev;
mod dev_attach;
mod dev_changes;
mod dev_kept;
mod dev_ports;
mod dev_push;
mod dev_root;
mod dev_shown;
mod doctor;
mod engine_bad_input;
mod engine_by_hand;
mod engine_faults;
mod engine_gone;
mod engine_no_room;
mod engine_open;
mod engine_restarts;
mod engine_versions;
mod engine_weaker;
mod environment;
mod everywhere;
mod fake_engine;
mod gc;
mod homes;
mod hooks;
mod images;
mod images_base;
mod inside;
mod interrupt;
mod kept;
mod left;
mod left_attacks;
mod left_judged;
mod left_kinds;
mod left_told;
mod list;
mod lives;
mod living;
mod living_exec;
mod living_faults;
mod living_home;
mod living_made;
mod living_runs;
mod living_shells;
mod living_states;
mod living_terminal;
mod living_versions;
mod look;
mod man;
mod mcp;
mod mcp_client;
mod mcp_commits;
mod mcp_files;
mod mcp_http;
mod mcp_install;
mod mcp_serves;
mod mcp_told;
mod merge;
mod mistakes;
mod mounted;
mod network;
mod notes;
mod orphans;
mod planted;
mod previous;
mod programs;
mod prompt;
mod readme;
mod reference;
mod rules;
mod run;
mod run_events;
mod secrets;
mod synced_attacks;
mod synced_changes;
mod synced_containers;
mod synced_faults;
mod synced_inputs;
mod synced_places;
mod terminal;
mod told;
mod tools;
mod uncommitted;
mod undermined;
mod usage;
mod version;
mod wall;
