//! The `git` of a dev sandbox: the guest's executable under that name, before the real one. It explains what the commit gate would refuse,
//! and what would only switch hooks off; it is no wall. What it refused is told to whoever leaves.

use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crate::embedded;
use crate::fsx::{self, Context, FileError};
use crate::home::Home;
use crate::sandbox::{Access, Mount, MountSource};
use crate::text::{fit, printable_line};

/// Where it is looked for before all others.
pub(super) const DIRECTORY: &str = "/.cofferdam/bin";
const GIT: &str = "/.cofferdam/bin/git";
/// Where it notes what it refused: in the sandbox, and in the state directory.
const LOG_INSIDE: &str = "/.cofferdam/guard.log";
const LOG: &str = "guard.log";
/// What somebody was told of it, in the state directory alone.
const TOLD: &str = "guard.told";
const MOST_KEPT: u64 = 256 << 10;
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
    let mut lines = lines(state);
    let rest = lines.len().saturating_sub(NAMED);
    lines.truncate(NAMED);
    if rest > 0 {
        lines.push(format!("and {rest} more"));
    }
    lines
}

/// Whoever writes there decides how long a line is.
const COLUMNS: usize = 300;

/// The last ones where it is longer than it should be; a log that is no log any more says nothing.
fn lines(state: &Path) -> Vec<String> {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = log(state, std::fs::File::options().read(true))?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(MOST_READ)))?;
        let mut text = Vec::new();
        file.take(MOST_READ).read_to_end(&mut text)?;
        Ok(text)
    };
    let text = read().unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    text.lines().map(with_its_time).collect()
}

/// The seconds that a line begins with as a person reads them.
fn with_its_time(line: &str) -> String {
    let time = line.split_once(' ').and_then(|(seconds, rest)| {
        let at = jiff::Timestamp::from_second(seconds.parse().ok()?).ok()?;
        Some(format!("{at} {rest}"))
    });
    let line = printable_line(time.as_deref().unwrap_or(line));
    fit(&line, COLUMNS).into_owned()
}

/// The file itself, where it is one.
fn log(state: &Path, options: &mut std::fs::OpenOptions) -> std::io::Result<std::fs::File> {
    use std::os::unix::fs::OpenOptionsExt;
    let file = options
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(state.join(LOG))?;
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(std::io::ErrorKind::InvalidInput.into())
}

/// What it refused is told: what comes now is new. The last ones of what was told are kept beside it.
pub(super) fn forget(state: &Path) {
    let told = lines(state);
    if !told.is_empty() {
        let path = state.join(TOLD);
        let mut text = fsx::read_bounded(&path, MOST_KEPT).unwrap_or_default();
        text.extend(
            told.iter()
                .flat_map(|line| [line.as_bytes(), b"\n"])
                .flatten(),
        );
        let most = usize::try_from(MOST_KEPT).unwrap_or(usize::MAX);
        let from = text.len().saturating_sub(most);
        // What cannot be kept was told.
        let _ = fsx::write_private(&path, &text[from..]);
    }
    // The file stays: it is mounted.
    if let Ok(file) = log(state, std::fs::File::options().write(true)) {
        let _ = file.set_len(0);
    }
}
