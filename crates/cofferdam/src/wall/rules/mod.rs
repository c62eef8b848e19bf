//! Where the rules of a sandbox come from. All of it is host-owned: nothing that a sandbox can write
//! is read here.

mod check;
pub(super) mod loaded;
pub(super) mod problem;
mod sources;
#[cfg(test)]
mod tests;

pub use check::{CheckError, caution, check};
pub use loaded::{Loaded, WrittenAt};
pub use problem::{LineError, Problem};
pub use sources::Sources;
