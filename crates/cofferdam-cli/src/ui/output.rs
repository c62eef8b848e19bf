//! Data on standard output.

use std::borrow::Cow;
use std::io::{self, Write};

use super::from_here::from_here;

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

/// Writes `text` to standard error, with the commands that it names as they are given from here; lines that are set in are not its own.
/// Nobody who does not listen there can stop a command.
pub(crate) fn note(text: &str) {
    let lines = text.split_inclusive('\n').map(|line| {
        if line.starts_with("  ") {
            Cow::Borrowed(line)
        } else {
            from_here(line)
        }
    });
    let text: String = lines.collect();
    let mut out = io::stderr().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
