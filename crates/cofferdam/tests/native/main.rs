//! The native sandbox, for real. Every test runs as the caller, and where that is root once more as
//! an ordinary user, in a copy of this program that setpriv(1) starts.

#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests start helpers, write files, and stop at the first surprise"
)]

mod world;

mod ends;
mod files;
mod frozen;
mod layers;
mod limits;
mod living;
mod ports;
mod programs;
mod renames;
mod rights;
mod shown;
mod terminals;
mod traced;
