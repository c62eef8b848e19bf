//! Agents through their public interface: commands, and events from what the real programs printed
//! (`scripts/record-agents`).

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod commands;
mod lines;
mod recorded;
mod sessions;
mod signals;
mod started;
mod world;
