//! What is known of runs, longer than their sandboxes live: a directory for each in the host-owned state, with its record and the
//! conversations that its agent had. Whoever runs it holds a lock there; the kernel lets go of it however they end.

pub(crate) mod conversation;
mod error;
mod record;
mod store;

pub use conversation::export;
pub use error::RunsError;
pub use record::{Ended, RunIteration, RunRecord};
pub(crate) use record::{VERSION, first_line};
pub(crate) use store::{OF_ALL, forget_of, make_room};
pub use store::{Recorder, Status, find, list, remove};
