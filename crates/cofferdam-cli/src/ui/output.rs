//! Data on standard output.

use std::io::{self, Write};

/// Writes all of `text` to standard output. A reader that went away is an error of kind
/// `BrokenPipe`, which the command reports as success.
pub(crate) fn data(text: &str) -> io::Result<()> {
    bytes(text.as_bytes())
}

/// As [`data`], what is no text too.
pub(crate) fn bytes(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}

/// Writes `text` to standard error. Nobody who does not listen there can stop a command.
pub(crate) fn note(text: &str) {
    let mut out = io::stderr().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
