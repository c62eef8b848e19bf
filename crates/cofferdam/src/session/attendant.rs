//! Who is at an agent's own terminal interface.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;

use async_trait::async_trait;

use crate::process::Exit;
use crate::sandbox::{Execution, SandboxError, TerminalSize};

/// Whoever has a terminal for an agent: see [`crate::interactive`].
#[async_trait]
pub trait Attendant: Send + Sync + fmt::Debug {
    /// How large it is when the program starts.
    fn size(&self) -> TerminalSize;

    /// Variables for the program, such as `TERM`.
    fn environment(&self) -> BTreeMap<OsString, OsString> {
        BTreeMap::new()
    }

    /// Carries what is typed and shown until the program has ended, and says how. The terminal is
    /// [`Execution::take_terminal`]'s. It may be dropped at any point.
    async fn attend(&self, execution: Box<dyn Execution>) -> Result<Exit, SandboxError>;
}
