//! The user's own terminal while a program in a sandbox has it.

use std::io::{self, stderr, stdout};

use cofferdam::sandbox::TerminalSize;
use rustix::stdio::stdin;
use rustix::termios::{OptionalActions, Termios, isatty, tcgetattr, tcgetwinsize, tcsetattr};

/// What a program may have left on a terminal that it could not clear up: the second screen, an application's keys, a
/// hidden cursor, marked pastes, the mouse, news of the focus, lines that do not wrap, other keys' codes, other letters, a colour. It
/// moves no cursor, so it is nothing where nothing was left.
const CALM: &str = concat!(
    "\x1b[?1047l\x1b[?1l\x1b>\x1b[?25h\x1b[?2004l",
    "\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1005l\x1b[?1006l\x1b[?1015l",
    "\x1b[?1004l\x1b[?2026l\x1b[?7h\x1b[4l\x1b[>4m\x1b[<u\x0f\x1b(B\x1b[0m"
);

/// Where a terminal does not say how large it is.
const USUAL: TerminalSize = TerminalSize {
    rows: 24,
    columns: 80,
};

/// Whether standard input is one.
pub(crate) fn is_there() -> bool {
    isatty(stdin())
}

pub(crate) fn size() -> TerminalSize {
    let size = tcgetwinsize(stdin()).ok();
    let told = size.filter(|size| size.ws_row > 0 && size.ws_col > 0);
    told.map_or(USUAL, |size| TerminalSize {
        rows: size.ws_row,
        columns: size.ws_col,
    })
}

/// Every key goes to the program, as long as this is there. Then the terminal is as it was, however that came about: a
/// panic unwinds, and signals are waited for.
#[derive(Debug)]
pub(crate) struct Raw {
    before: Termios,
}

impl Raw {
    pub(crate) fn enter() -> io::Result<Self> {
        let this = Self {
            before: tcgetattr(stdin())?,
        };
        this.again()?;
        Ok(this)
    }

    /// A shell that had the terminal meanwhile gave it its own modes.
    pub(crate) fn again(&self) -> io::Result<()> {
        let mut raw = self.before.clone();
        raw.make_raw();
        Ok(tcsetattr(stdin(), OptionalActions::Now, &raw)?)
    }
}

/// Clears up after a program that had the terminal.
pub(crate) fn calm() {
    if isatty(stderr()) {
        super::output::note(CALM);
    } else if isatty(stdout()) {
        // It may be gone.
        let _ = super::output::data(CALM);
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // It may be gone.
        let _ = tcsetattr(stdin(), OptionalActions::Now, &self.before);
    }
}
