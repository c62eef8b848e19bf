//! The network log of one sandbox, as a file: made and opened here, written by the gateway.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use cofferdam_wall::log::{Entry, Event};
use jiff::Timestamp;

use super::WallSpec;
use crate::fsx::{self, Context, FileError};
use crate::home::Home;
use crate::names::{RepoPath, SandboxId};
use crate::network::NetworkKind;
use crate::registry::{Reach, Record};

/// How long a log is kept after its last line.
pub(crate) const KEPT: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// How much room all logs together may take: 1 GiB.
const ROOM: u64 = 1 << 30;
const ENDING: &str = ".jsonl";

/// Whose log it is: its first line.
#[derive(Debug)]
struct Owner<'a> {
    sandbox: SandboxId,
    name: String,
    repository: Option<&'a Path>,
    /// As in [`Entry::network`].
    network: Option<&'static str>,
}

/// Opens the sandbox's log for appending; a new one begins with whose it is.
pub(super) fn open(spec: &WallSpec) -> Result<File, FileError> {
    let repository = spec.sources.repository.as_ref();
    let owner = Owner {
        sandbox: spec.sandbox,
        name: spec.name.to_string(),
        repository: repository.map(RepoPath::as_path),
        network: None,
    };
    begin(&spec.home, &owner)
}

/// Says of a sandbox without a wall that it has none, where others have their log: that of an older sandbox
/// must not pass for its.
pub(crate) fn say_unlogged(home: &Home, record: &Record) -> Result<(), FileError> {
    let network = match &record.network {
        Some(Reach::Open) => NetworkKind::Open,
        Some(Reach::None) => NetworkKind::None,
        Some(Reach::Allowlist { .. }) | None => return Ok(()),
    };
    let owner = Owner {
        sandbox: record.id,
        name: record.name.to_string(),
        repository: Some(&record.repository),
        network: Some(network.as_str()),
    };
    begin(home, &owner).map(drop)
}

fn begin(home: &Home, owner: &Owner<'_>) -> Result<File, FileError> {
    fsx::private_dir(home.path())?;
    fsx::private_dir(&home.network_logs())?;
    let path = home.network_log(owner.sandbox);
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
        entry.name = Some(owner.name.clone());
        entry.repository = owner.repository.map(|path| path.display().to_string());
        entry.network = owner.network.map(str::to_owned);
        let mut line = serde_json::to_vec(&entry)
            .map_err(|error| FileError::new("write", &path, error.into()))?;
        line.push(b'\n');
        file.write_all(&line).context("write", &path)?;
    }
    Ok(file)
}

/// Removes the logs that nobody has written to for [`KEPT`], and of more than [`ROOM`] the oldest; only names
/// them with `dry_run`. `alive` are sandboxes that are at work.
pub(crate) fn remove_old(
    home: &Home,
    alive: impl Fn(SandboxId) -> bool,
    now: Timestamp,
    dry_run: bool,
) -> Result<Vec<PathBuf>, FileError> {
    let directory = home.network_logs();
    let mut removed = Vec::new();
    let mut kept = Vec::new();
    let mut room = 0u64;
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
        let Ok(found) = entry.metadata() else {
            continue;
        };
        let written = found
            .modified()
            .ok()
            .and_then(|time| Timestamp::try_from(time).ok());
        let old = written.is_some_and(|written| {
            Duration::try_from(now.duration_since(written)).is_ok_and(|age| age > KEPT)
        });
        if alive(id) {
            room += found.len();
        } else if old {
            removed.push(entry.path());
        } else {
            room += found.len();
            kept.push((written, entry.path(), found.len()));
        }
    }
    kept.sort();
    for (_, path, length) in kept {
        if room <= ROOM {
            break;
        }
        room -= length;
        removed.push(path);
    }
    if !dry_run {
        for path in &removed {
            fsx::remove_file_if_exists(path)?;
        }
    }
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::FileTimes;

    #[test]
    fn old_logs_and_more_than_there_is_room_for_go() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::new(dir.path());
        fsx::private_dir(&home.network_logs()).unwrap();
        let now = Timestamp::now();
        let day = Duration::from_secs(24 * 60 * 60);
        let make = |days: u32, length: u64| {
            let id = SandboxId::random().unwrap();
            let path = home.network_log(id);
            fsx::write_private(&path, b"").unwrap();
            let file = OpenOptions::new().write(true).open(&path).unwrap();
            // It takes no room: nothing is in it.
            file.set_len(length).unwrap();
            let time = std::time::SystemTime::from(now - day * days);
            file.set_times(FileTimes::new().set_modified(time)).unwrap();
            (id, path)
        };
        let (living, _) = make(29, 200 << 20);
        let (_, expired) = make(31, 1);
        let (_, older) = make(20, 500 << 20);
        let (_, newer) = make(10, 500 << 20);
        let (_, newest) = make(1, 300 << 20);
        let remove = |dry_run| remove_old(&home, |id| id == living, now, dry_run).unwrap();
        let want = vec![expired, older];
        assert_eq!(remove(true), want);
        assert!(want.iter().all(|path| path.exists()));
        assert_eq!(remove(false), want);
        assert!(want.iter().all(|path| !path.exists()));
        assert!(newer.exists() && newest.exists() && home.network_log(living).exists());
        assert!(remove(false).is_empty());
    }
}
