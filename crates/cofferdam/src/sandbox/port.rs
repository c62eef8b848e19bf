//! A connection to a server inside, as its user has it.

use std::fmt;

use super::{BoxRead, BoxWrite};

/// Bytes to and from a server inside. It is its user's alone: it goes on when the [`super::Sandbox`] is dropped, until
/// one side ends it or the sandbox does.
pub struct PortStream {
    /// What the server says. Whatever is inside wrote it.
    pub output: BoxRead,
    /// What it is told. Waits for as long as nobody inside reads. Shutting it down or dropping it is the end for the
    /// server, which can still answer.
    pub input: BoxWrite,
}

impl fmt::Debug for PortStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PortStream")
    }
}
