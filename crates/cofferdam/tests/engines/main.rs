//! Docker and Podman, for real: containers of engines that this machine has.

#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests start helpers, write files, and stop at the first surprise"
)]

mod between;
mod world;

mod attacks;
mod conforms;
mod containers;
mod images;
mod joined;
mod others;
mod ready;
mod unasked;
