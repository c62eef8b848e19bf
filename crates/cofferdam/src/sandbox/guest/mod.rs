//! The guest of a running sandbox, as the host has it: one connection, and everything that is asked over it. It is the same for
//! every provider. How a sandbox is started and how it ends ([`End`]) is the provider's.

mod coming_up;
mod connection;
mod execution;
mod polled;
mod port;
mod sandbox;
mod stream;
mod streams;
mod terminal;

pub(super) use coming_up::{bounded, greet, ready, start_error, stay};
pub(super) use connection::{ANSWER_LIMIT, Connection};
pub(super) use sandbox::{End, GuestSandbox, bytes};
pub(super) use stream::{Received, read_exact, receive, send};
pub(super) use streams::Output;
