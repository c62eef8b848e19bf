//! The real gateway: its control socket, and real sockets of sandboxes in real network namespaces.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests"
)]

mod control;
mod support;
mod wall;
