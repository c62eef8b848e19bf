//! What the gateway itself has to complain of.

use std::io::{self, Write};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Lines of [`complain`].
const COMPLAINTS: usize = 1000;

/// One line to standard error, which the starter keeps in a file: so many in the life of the process, and a
/// last one that says so.
pub fn complain(message: &str) {
    static SAID: AtomicUsize = AtomicUsize::new(0);
    let message = match SAID.fetch_add(1, Ordering::Relaxed).cmp(&COMPLAINTS) {
        std::cmp::Ordering::Less => message,
        std::cmp::Ordering::Equal => "nothing more is said here: it was too much",
        std::cmp::Ordering::Greater => return,
    };
    // There is nobody left to tell if this fails.
    _ = writeln!(io::stderr(), "cofferdam-gateway: {message}");
}
