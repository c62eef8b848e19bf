//! What of repositories' files their user has approved: `approvals.json` in Cofferdam's home.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{CWD, RenameFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::fsx::{self, Context, FileError, lock};
use crate::home::Home;
use crate::names::RepoPath;
use crate::text::hex;

/// The longest file in bytes.
const LIMIT: u64 = 16 << 20;
const VERSION: u32 = 1;
/// Nobody changes it for longer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The file cannot be used: then nothing is approved.
#[derive(Debug, thiserror::Error)]
pub enum ApprovalError {
    /// It could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// Another process holds its lock.
    #[error("another command is changing what is approved")]
    Busy,
    /// It was written by somebody else, or was cut short.
    #[error("{path} is not what cofferdam writes there: {reason}")]
    Content {
        /// The file, safe for a terminal.
        path: String,
        /// What is wrong there, as a sentence fragment.
        reason: String,
    },
}

/// What was approved for one repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    /// What was shown, line by line.
    pub lines: BTreeSet<String>,
    /// Of [`digest`] of these lines.
    pub sha256: String,
    /// Seconds since 1970.
    pub at: u64,
}

#[derive(Debug, Serialize, Deserialize)]
struct File {
    version: u32,
    repositories: BTreeMap<String, Approval>,
}

/// The SHA-256 of lines that are asked for, in hex digits; each with a line end.
pub fn digest<'a>(lines: impl IntoIterator<Item = &'a str>) -> String {
    let lines: BTreeSet<&str> = lines.into_iter().collect();
    let mut hash = Sha256::new();
    for line in lines {
        hash.update(line.as_bytes());
        hash.update(b"\n");
    }
    hex(&hash.finalize())
}

/// All that was approved, by the paths of repositories.
pub fn all(home: &Home) -> Result<BTreeMap<String, Approval>, ApprovalError> {
    let path = home.approvals();
    let bytes = match fsx::read_guarded(&path, LIMIT) {
        Err(error) if error.is_not_found() => return Ok(BTreeMap::new()),
        read => read?,
    };
    let refuse = |reason: String| ApprovalError::Content {
        path: path.display().to_string(),
        reason,
    };
    let file: File = serde_json::from_slice(&bytes).map_err(|error| refuse(error.to_string()))?;
    if file.version != VERSION {
        return Err(refuse(format!("it has version {}", file.version)));
    }
    let is_whole = |one: &Approval| digest(one.lines.iter().map(String::as_str)) == one.sha256;
    match file.repositories.iter().find(|(_, one)| !is_whole(one)) {
        Some((of, _)) => Err(refuse(format!(
            "the lines of {of} do not have their digest"
        ))),
        None => Ok(file.repositories),
    }
}

/// The lines that were approved for `repository`.
pub fn of(home: &Home, repository: &RepoPath) -> Result<BTreeSet<String>, ApprovalError> {
    let mut all = all(home)?;
    let found = all.remove(&key(repository));
    Ok(found.map(|one| one.lines).unwrap_or_default())
}

/// These lines, and no others, are approved from now on.
pub fn approve(
    home: &Home,
    repository: &RepoPath,
    lines: BTreeSet<String>,
) -> Result<(), ApprovalError> {
    let _held = hold(home)?;
    let mut all = all(home)?;
    let approval = {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        Approval {
            sha256: digest(lines.iter().map(String::as_str)),
            lines,
            at: since.map_or(0, |since| since.as_secs()),
        }
    };
    all.insert(key(repository), approval);
    write(home, all)
}

/// What there was to revoke.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Revoked {
    /// Lines were approved, and are not any more.
    Lines,
    /// Nothing was approved.
    Nothing,
    /// The file could not be used, so nothing was in force for any repository. It has this name now.
    Unreadable {
        /// Where the unusable file is now.
        kept: PathBuf,
    },
}

/// Nothing of it is approved any more.
pub fn revoke(home: &Home, repository: &RepoPath) -> Result<Revoked, ApprovalError> {
    let _held = hold(home)?;
    match all(home) {
        Ok(mut all) => Ok(if all.remove(&key(repository)).is_some() {
            write(home, all)?;
            Revoked::Lines
        } else {
            Revoked::Nothing
        }),
        Err(ApprovalError::Content { .. }) => {
            let kept = put_aside(&home.approvals())?;
            Ok(Revoked::Unreadable { kept })
        }
        Err(error) => Err(error),
    }
}

/// Gives the file a name that no other one has: what was put aside before stays too.
fn put_aside(path: &Path) -> Result<PathBuf, FileError> {
    let mut number = 1;
    loop {
        let kept = path.with_extension(match number {
            1 => "unread".to_owned(),
            _ => format!("unread.{number}"),
        });
        let only_new = RenameFlags::NOREPLACE;
        match rustix::fs::renameat_with(CWD, path, CWD, &kept, only_new) {
            Err(Errno::EXIST) => number += 1,
            moved => return moved.context("put aside", path).map(|()| kept),
        }
    }
}

fn key(repository: &RepoPath) -> String {
    repository.as_path().to_string_lossy().into_owned()
}

fn hold(home: &Home) -> Result<lock::Held, ApprovalError> {
    fsx::private_dir(home.path())?;
    let path = home.approvals().with_extension("lock");
    let lock = lock::open(&path)?;
    if !lock::hold_within(&lock, &path, PATIENCE)? {
        return Err(ApprovalError::Busy);
    }
    Ok(lock::Held::new(lock))
}

fn write(home: &Home, repositories: BTreeMap<String, Approval>) -> Result<(), ApprovalError> {
    let file = File {
        version: VERSION,
        repositories,
    };
    let refuse = |error: serde_json::Error| ApprovalError::Content {
        path: home.approvals().display().to_string(),
        reason: error.to_string(),
    };
    let mut bytes = serde_json::to_vec_pretty(&file).map_err(refuse)?;
    bytes.push(b'\n');
    Ok(fsx::write_private(&home.approvals(), &bytes)?)
}
