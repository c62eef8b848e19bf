//! What a landing in a checkout writes down before it begins, and what a killed one left.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::LandError;
use crate::fsx;
use crate::git::command::GitCommand;
use crate::git::{Oid, Repository};
use crate::names::SandboxId;

pub(super) const JOURNAL: &str = "landing.json";

/// What happens to the working files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Files {
    /// They have the new content already (`head`).
    AreThere,
    /// They are brought from the old commit to the new one (a merge into a checkout).
    Update,
}

/// One move of a checkout. This is also the journal's content.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Move {
    pub version: u32,
    pub id: SandboxId,
    pub files: Files,
    /// `refs/heads/…`, or `HEAD` where it is detached.
    pub reference: String,
    pub old: Oid,
    pub new: Oid,
    /// Base and tip of commits whose files may lie in the working tree already.
    #[serde(default)]
    pub lying: Option<(Oid, Oid)>,
    /// The working tree's own git directory, as bytes: paths need not be UTF-8.
    git_dir: Vec<u8>,
    top: Vec<u8>,
}

impl Move {
    pub(super) fn new(
        id: SandboxId,
        files: Files,
        reference: String,
        (old, new): (&Oid, &Oid),
        git_dir: &Path,
        top: &Path,
    ) -> Self {
        let bytes = |path: &Path| path.as_os_str().as_bytes().to_vec();
        let (old, new) = (old.clone(), new.clone());
        Self {
            version: 1,
            id,
            files,
            reference,
            old,
            new,
            lying: None,
            git_dir: bytes(git_dir),
            top: bytes(top),
        }
    }

    pub(super) fn git_dir(&self) -> PathBuf {
        PathBuf::from(OsString::from_vec(self.git_dir.clone()))
    }

    pub(super) fn top(&self) -> PathBuf {
        PathBuf::from(OsString::from_vec(self.top.clone()))
    }

    pub(super) fn command(&self, repo: &Repository) -> GitCommand {
        repo.git
            .at(&self.git_dir(), &repo.common_dir)
            .work_tree(&self.top())
    }
}

/// Whether a killed process left a landing in this state directory. Until [`finish`](super::finish) was there, nothing
/// may remove it: it alone knows what is still to be done to the user's checkout.
pub fn is_half_done(state: &Path) -> bool {
    state.join(JOURNAL).symlink_metadata().is_ok()
}

/// The checkout that a landing was cut short in, if one was.
pub fn half_done_in(state: &Path) -> Result<Option<PathBuf>, LandError> {
    Ok(read(state)?.map(|(_, step)| step.top()))
}

pub(super) fn read(state: &Path) -> Result<Option<(PathBuf, Move)>, LandError> {
    let journal = state.join(JOURNAL);
    let text = match fsx::read_bounded(&journal, 64 << 10) {
        Ok(text) => text,
        Err(error) if error.is_not_found() => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let step: Move = serde_json::from_slice(&text).map_err(|error| LandError::Journal {
        path: journal.clone(),
        why: error.to_string(),
    })?;
    if step.version != 1 {
        let why = format!("version {} is newer than this program", step.version);
        return Err(LandError::Journal { path: journal, why });
    }
    Ok(Some((journal, step)))
}
