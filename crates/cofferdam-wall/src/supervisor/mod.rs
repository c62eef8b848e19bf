//! The supervisor: one small process for each sandbox that outlives its command. It holds the sandbox's lock and
//! its place behind the wall, and nothing of the sandbox itself: see docs/decisions/0011-a-sandbox-that-lives-on.md.
//!
//! It is the gateway's executable in another role. One thread, one poll(2); it wakes up when somebody asks, when the
//! gateway ends and when the sandbox's init is dead.
//!
//! - `messages`: what is said to it and what it answers. `list`: the rules that it knows. Both pure.
//! - `begin`, `confine`: what it is started with, and what it gives up.
//! - `serve`, `clients`: the loop, and who asks. `state_directory`: what lies there.
//! - `link`, `carried`, `exchange`: its place behind the wall.

mod list;
mod messages;
mod names;

#[cfg(feature = "gateway")]
mod begin;
#[cfg(feature = "gateway")]
mod carried;
#[cfg(feature = "gateway")]
mod clients;
#[cfg(feature = "gateway")]
mod confine;
#[cfg(feature = "gateway")]
mod error;
#[cfg(feature = "gateway")]
mod exchange;
#[cfg(feature = "gateway")]
mod link;
#[cfg(feature = "gateway")]
mod serve;
#[cfg(feature = "gateway")]
mod state_directory;

#[cfg(feature = "gateway")]
pub use error::SupervisorError;
pub use list::{List, ListError};
#[cfg(test)]
pub(crate) use messages::read_question;
pub use messages::{
    Answer, Ask, Beginning, Behind, Heard, PROTOCOL, Said, Status, Wall, question, read_answer,
};
pub use names::{ENDED, ERRORS, NAME, ROLE, RULES, SOCKET};
#[cfg(feature = "gateway")]
pub use serve::run;
