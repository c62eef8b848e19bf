//! A program's terminal, as its user has it.

use std::fmt;
use std::io;
use std::sync::Arc;

use super::{BoxRead, BoxWrite};

/// In characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TerminalSize {
    /// Lines of text.
    pub rows: u16,
    /// Characters in a line.
    pub columns: u16,
}

/// Says how large a terminal is now; its programs hear of it (`SIGWINCH`).
pub trait Resize: Send + Sync + fmt::Debug {
    /// Tells it. Fails where the terminal is gone.
    fn resize(&self, size: TerminalSize) -> io::Result<()>;
}

/// The user's side of a terminal. When all three parts are dropped its programs are hung up.
pub struct Terminal {
    /// Ends when nothing inside has the terminal open any more. Whatever is inside wrote it.
    pub output: BoxRead,
    /// What is typed. Waits for as long as nothing inside reads.
    pub input: BoxWrite,
    /// How it hears of another size.
    pub size: Arc<dyn Resize>,
}

impl fmt::Debug for Terminal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Terminal")
    }
}
