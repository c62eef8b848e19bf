//! What a supervisor wrote down of a sandbox's end.

use std::path::Path;

use cofferdam_wall::supervisor::ENDED;
use jiff::Timestamp;

use crate::fsx::{self, FileError};

/// That somebody is about to end it here. A supervisor does not look: it knows nothing but that the first process is dead.
const ASKED: &str = "ended.asked";
/// More than the number of any second.
const LONGEST: u64 = 32;

/// When the sandbox with this state directory ended, where nobody asked for it here. `None`: it runs, or it was stopped, or its
/// supervisor ended before it, as with the whole machine.
pub fn ended_unasked(state_directory: &Path) -> Option<Timestamp> {
    if state_directory.join(ASKED).symlink_metadata().is_ok() {
        return None;
    }
    let said = fsx::read_bounded(&state_directory.join(ENDED), LONGEST).ok()?;
    let seconds = str::from_utf8(&said).ok()?.trim_end().parse().ok()?;
    Timestamp::from_second(seconds).ok()
}

/// For who is about to end it. Where that cannot be written down it is ended all the same.
pub fn expect_end(state_directory: &Path) {
    let _ = fsx::write_private(&state_directory.join(ASKED), b"");
}

/// For who could not end it: it goes on.
pub fn expect_no_end(state_directory: &Path) {
    let _ = fsx::remove_file_if_exists(&state_directory.join(ASKED));
}

/// For who ended it: after [`super::Supervisor::end`], when nobody writes there any more.
pub fn forget_end(state_directory: &Path) -> Result<(), FileError> {
    fsx::remove_file_if_exists(&state_directory.join(ENDED))?;
    fsx::remove_file_if_exists(&state_directory.join(ASKED))
}
