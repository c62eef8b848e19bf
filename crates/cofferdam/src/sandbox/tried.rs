//! Directories that lie over one another in a sandbox that nobody uses, and a program in them that says whether they can be
//! worked in.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use cofferdam_guest::protocol;

use super::{Access, Mount, MountSource, SandboxError};
use crate::embedded;
use crate::fsx::{self, Context, FileError};
use crate::home::TRIED_LAYERS;
use crate::names::SandboxId;

/// Where they are inside.
pub(super) const TRIED: &str = "/workspace/tried";
/// What tries it.
const PROGRAM: &str = "program";

/// What is made below a directory of the host's for it.
#[derive(Debug)]
pub(super) struct Room(PathBuf);

impl Room {
    pub(super) fn make(place: &Path, id: SandboxId) -> Result<Self, SandboxError> {
        let room = Self(place.join(format!("{TRIED_LAYERS}{id}")));
        match room.fill() {
            Ok(()) => Ok(room),
            Err(error) => {
                // What was wrong is wrong here too.
                let _ = fsx::remove_tree(&room.0);
                Err(start_error(&error))
            }
        }
    }

    fn fill(&self) -> Result<(), FileError> {
        for name in ["lower", "lower/directory", "changes"] {
            fsx::private_dir(&self.0.join(name))?;
        }
        for name in [protocol::UPPER, protocol::WORK] {
            fsx::private_dir(&self.0.join("changes").join(name))?;
        }
        two_names(&self.0)?;
        let program = self.0.join("lower").join(PROGRAM);
        fsx::write_with_mode(&program, embedded::GUEST, 0o755)
    }

    pub(super) fn mount(&self) -> Mount {
        Mount {
            source: MountSource::Layers {
                lower: vec![self.0.join("lower")],
                upper: Some(self.0.join("changes")),
            },
            target: TRIED.into(),
            access: Access::ReadWrite,
        }
    }

    /// By the guest itself: mv(1) copies what cannot be renamed.
    pub(super) fn arguments() -> Vec<OsString> {
        [format!("{TRIED}/{PROGRAM}").into(), "try-renames".into()].into()
    }

    /// What was tried has come to this.
    pub(super) fn leave(self, tried: Result<(), SandboxError>) -> Result<(), SandboxError> {
        let removed = fsx::remove_tree(&self.0);
        tried?;
        removed.map_err(|error| start_error(&error))
    }
}

/// A commit may have both in one directory, and an overlay over a file system to which they are one shows neither rightly.
fn two_names(directory: &Path) -> Result<(), FileError> {
    for name in ["case", "CASE"] {
        let path = directory.join(name);
        match std::fs::create_dir(&path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                let why = "the file system takes names that differ in case for one";
                let why = std::io::Error::new(error.kind(), why);
                return Err(FileError::new("make", path, why));
            }
            made => made.context("make", &path)?,
        }
    }
    Ok(())
}

/// What the program said, where it failed.
pub(super) fn said(stderr: &[u8]) -> SandboxError {
    let said = String::from_utf8_lossy(stderr);
    SandboxError::Start(crate::text::printable_line(said.trim_end()))
}

fn start_error(error: &FileError) -> SandboxError {
    SandboxError::Start(error.to_string())
}
