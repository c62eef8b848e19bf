//! An internet in two network namespaces: in the "house" a command runs as on any machine, in the
//! "internet" everything it could reach is ours, and every frame that arrives there is kept.
//!
//! Both are children of the caller's namespaces and end with it. An ordinary user gets them too, in a user
//! namespace that maps nothing but the caller: the command has capabilities there until it gives them up.

pub mod control;
mod dns;
mod frame;
mod namespaces;
mod origins;
pub mod place;
pub mod port;
mod recorder;
mod tls;
mod world;

pub use frame::{Packet, Transport};
pub use namespaces::{enter, role};
pub use world::{Query, Reply, Visit};
