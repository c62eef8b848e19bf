//! Cofferdam as a library: give a coding agent its own sandbox and its own branch, and take back
//! only commits that passed the gate.
//!
//! The library is silent: it never prints, prompts, or reads `$HOME` or the process environment.
//! It takes values, returns values and emits typed events ([`session::Event`]).
//!
//! Whole programs to begin with are in `examples/`: `run`, `session`, `worktree`, `interactive`, `plan`, `own_agent` and
//! `own_provider`. They need no key and no network: `cargo run --example run -- DIRECTORY`.

#![warn(missing_docs)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod agent;
pub mod authorities;
pub mod config;
pub mod detached;
mod embedded;
pub mod fsx;
pub mod git;
pub mod home;
mod ids;
pub mod image;
pub mod names;
pub mod network;
mod path_json;
pub mod plan;
pub mod process;
pub mod prompt;
pub mod published;
pub mod registry;
pub mod run_id;
pub mod runs;
pub mod sandbox;
pub mod session;
pub mod size;
pub mod sync;
pub mod text;
pub mod volumes;
pub mod wall;

pub use session::{RunError, RunOptions, RunReport, interactive, run};

/// The README's example must compile.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
pub struct Readme;
