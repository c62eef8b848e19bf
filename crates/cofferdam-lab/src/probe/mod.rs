//! A hostile program: everything it could do to get out of a sandbox, done on request and reported.
//!
//! Started as `serve SOCKET` it takes [`Task`]s over a unix socket, one JSON value a line, each connection
//! in its own thread; as `do FILE TASK…` it does some and writes the outcomes down. It decides nothing: what an outcome means is for the test that asked.

mod escape;
pub mod hello;
mod netlink;
mod packets;
mod query;
mod race;
mod scan;
mod serve;
mod stream;
mod task;

pub use escape::ways;
pub use race::Race;
pub use serve::{Probe, role};
pub use task::{Outcome, Step, Task};
