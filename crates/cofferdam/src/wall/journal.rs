//! The network log of one sandbox, as a file: made and opened here, written by the gateway.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::PathBuf;
use std::time::Duration;

use cofferdam_wall::log::{Entry, Event};
use jiff::Timestamp;

use super::WallSpec;
use crate::fsx::{self, Context, FileError};
use crate::home::Home;
use crate::names::SandboxId;

/// How long a log is kept after its last line.
pub(crate) const KEPT: Duration = Duration::from_secs(30 * 24 * 60 * 60);
const ENDING: &str = ".jsonl";

/// Opens the sandbox's log for appending; a new one begins with whose it is.
pub(super) fn open(spec: &WallSpec) -> Result<File, FileError> {
    fsx::private_dir(spec.home.path())?;
    fsx::private_dir(&spec.home.network_logs())?;
    let path = spec.home.network_log(spec.sandbox);
    let mut file = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(&path)
        .context("open", &path)?;
    let found = file.metadata().context("look at", &path)?;
    if !found.is_file() || found.nlink() != 1 {
        let why = std::io::Error::other("it is not a file of its own");
        return Err(FileError::new("use", path, why));
    }
    if found.len() == 0 {
        let mut entry = Entry::new(Timestamp::now(), Event::Sandbox);
        entry.name = Some(spec.name.to_string());
        entry.repository = spec
            .sources
            .repository
            .as_ref()
            .map(|repository| repository.as_path().display().to_string());
        let mut line = serde_json::to_vec(&entry)
            .map_err(|error| FileError::new("write", &path, error.into()))?;
        line.push(b'\n');
        file.write_all(&line).context("write", &path)?;
    }
    Ok(file)
}

/// Removes the logs that nobody has written to for [`KEPT`]; only names them with `dry_run`.
/// `alive` are sandboxes that are at work.
pub(crate) fn remove_old(
    home: &Home,
    alive: impl Fn(SandboxId) -> bool,
    now: Timestamp,
    dry_run: bool,
) -> Result<Vec<PathBuf>, FileError> {
    let directory = home.network_logs();
    let mut removed = Vec::new();
    let entries = match std::fs::read_dir(&directory) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(removed),
        entries => entries.context("read", &directory)?,
    };
    for entry in entries {
        let entry = entry.context("read", &directory)?;
        let name = entry.file_name();
        let id = name
            .to_str()
            .and_then(|name| name.strip_suffix(ENDING))
            .and_then(|id| id.parse::<SandboxId>().ok());
        let Some(id) = id else { continue };
        let written = entry
            .metadata()
            .ok()
            .and_then(|found| found.modified().ok())
            .and_then(|time| Timestamp::try_from(time).ok());
        let old = written.is_some_and(|written| {
            Duration::try_from(now.duration_since(written)).is_ok_and(|age| age > KEPT)
        });
        if !old || alive(id) {
            continue;
        }
        if !dry_run {
            fsx::remove_file_if_exists(&entry.path())?;
        }
        removed.push(entry.path());
    }
    Ok(removed)
}
