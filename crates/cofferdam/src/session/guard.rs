//! The `git` of a dev sandbox: the guest's executable under that name, before the real one. It explains what the commit gate would refuse,
//! and what would only switch hooks off; it is no wall. What it refused is told to whoever leaves.

use std::path::{Path, PathBuf};

use crate::embedded;
use crate::fsx::{self, Context, FileError};
use crate::home::Home;
use crate::sandbox::{Access, Mount, MountSource};
use crate::text::printable_line;

/// Where it is looked for before all others.
pub(super) const DIRECTORY: &str = "/.cofferdam/bin";
const GIT: &str = "/.cofferdam/bin/git";
/// Where it notes what it refused: in the sandbox, and in the state directory.
const LOG_INSIDE: &str = "/.cofferdam/guard.log";
const LOG: &str = "guard.log";
/// Programs inside may write there as they like.
const MOST_READ: u64 = 64 << 10;
/// So many of what was refused are named.
const NAMED: usize = 5;

/// The program and its log.
pub(super) fn mounts(home: &Home, state: &Path) -> Result<Vec<Mount>, FileError> {
    let directory = home.engines();
    fsx::private_dir(&directory)?;
    let program = embedded::guest_file(&directory).context("write a program to", &directory)?;
    let log = state.join(LOG);
    // One that is there is kept until it was told of.
    fsx::write_new(&log, b"")?;
    let mount = |source: PathBuf, target: &str, access| Mount {
        source: MountSource::Path(source),
        target: target.into(),
        access,
    };
    Ok(vec![
        mount(program, GIT, Access::ReadOnly),
        mount(log, LOG_INSIDE, Access::ReadWrite),
    ])
}

/// Whether this is one of [`mounts`].
pub(super) fn is_ours(mount: &Mount) -> bool {
    mount.target == Path::new(GIT) || mount.target == Path::new(LOG_INSIDE)
}

/// What it refused since somebody was told last, each in a line, safe for a terminal.
pub(super) fn refused(state: &Path) -> Vec<String> {
    let path = state.join(LOG);
    let Ok(text) = fsx::read_bounded(&path, MOST_READ) else {
        // A log that is no log any more says nothing; neither does one that is longer than it should be.
        return Vec::new();
    };
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<String> = text.lines().map(printable_line).collect();
    let rest = lines.len().saturating_sub(NAMED);
    let mut told: Vec<String> = lines.into_iter().take(NAMED).collect();
    if rest > 0 {
        told.push(format!("and {rest} more"));
    }
    told
}

/// What it refused is told: what comes now is new.
pub(super) fn forget(state: &Path) {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = std::fs::File::options();
    options
        .write(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    // The file stays: it is mounted.
    if let Ok(file) = options.open(state.join(LOG)) {
        let _ = file.set_len(0);
    }
}
