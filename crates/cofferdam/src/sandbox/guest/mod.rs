//! The guest of a running sandbox, as the host has it: one connection, and everything that is asked over it. It is the same for
//! every provider. How a sandbox is started and how it ends ([`End`]) is the provider's.

mod coming_up;
mod connection;
mod door;
mod executable;
mod execution;
mod polled;
mod port;
mod process;
mod sandbox;
mod staying;
mod stream;
mod streams;
mod terminal;
mod wall;

pub(super) use coming_up::{bounded, greet, ready, start_error, stay};
pub(super) use connection::Connection;
pub(crate) use door::is_up;
pub(super) use door::{Door, free_door};
pub(super) use executable::spawn;
pub(crate) use process::number;
pub(super) use process::{END_LIMIT, Process};
pub(super) use sandbox::{End, GuestSandbox, bytes};
pub(super) use staying::{Provisional, Staying};
pub(super) use stream::{read_exact, send};
pub(super) use streams::Output;
pub(super) use terminal::terminal_of;
pub(super) use wall::raise as raise_wall;
