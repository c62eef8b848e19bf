//! The supervisor of a sandbox that lives on, with real gateways.

mod asked;
mod life;
mod network;
mod size;
pub(crate) mod world;
