//! What a supervisor wrote down of a sandbox's end.

use std::path::Path;

use cofferdam_wall::supervisor::ENDED;
use jiff::Timestamp;

use crate::fsx::{self, FileError};

/// More than the number of any second.
const LONGEST: u64 = 32;

/// When the sandbox with this state directory ended, where nobody asked for it here. `None`: it runs, or it was stopped, or its
/// supervisor ended before it, as with the whole machine.
pub fn ended_unasked(state_directory: &Path) -> Option<Timestamp> {
    let said = fsx::read_bounded(&state_directory.join(ENDED), LONGEST).ok()?;
    let seconds = str::from_utf8(&said).ok()?.trim_end().parse().ok()?;
    Timestamp::from_second(seconds).ok()
}

/// For who ended it: after [`super::Supervisor::end`], when nobody writes there any more.
pub fn forget_end(state_directory: &Path) -> Result<(), FileError> {
    fsx::remove_file_if_exists(&state_directory.join(ENDED))
}
