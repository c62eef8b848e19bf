//! The gateway's life as the library sees it, with the real gateway.

#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::panic,
    reason = "tests write files, and fail by panicking"
)]

mod change;
mod life;
mod place;
mod ports;
mod proof;
mod registration;
mod resident;
mod supervisor;
mod support;

#[path = "../common/port.rs"]
mod port;
