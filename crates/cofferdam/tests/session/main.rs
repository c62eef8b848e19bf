//! Whole runs through the library, with real git and the native sandbox.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod agents;
mod bad_input;
mod branches;
mod lifecycle;
mod prompts;
mod providers;
mod support;
