//! What is kept on disk to make a sandbox anew from its files, in its state directory, for its user alone.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::fsx;
use crate::path_json::PathText;
use crate::registry::{Owned, RegistryError};
use crate::sandbox::{Access, Limits, Mount, MountSource, SandboxSpec};

const FILE: &str = "sandbox.json";
const LIMIT: u64 = 16 << 20;
/// The form that this version writes and reads.
const VERSION: u32 = 1;

/// A sandbox's making. Rules of its network are in its record; what a provider offers by itself is looked up anew.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Form {
    version: u32,
    /// Counts the starts of the sandbox, this one included.
    starts: u32,
    hostname: String,
    workdir: PathText,
    mounts: Vec<StoredMount>,
    /// Which of them are looked for anew at each start. Absent where the files are the sandbox's alone.
    #[serde(default)]
    passing: Option<Range<usize>>,
    processes: Option<u64>,
    memory: Option<u64>,
    cpus: Option<f64>,
    open_files: Option<u64>,
    /// What its programs were given by name: may be secrets, as all that is in this directory.
    environment: Vec<(PathText, PathText)>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct StoredMount {
    source: Source,
    target: PathText,
    writable: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Source {
    Path(PathText),
    Layers {
        lower: Vec<PathText>,
        upper: Option<PathText>,
    },
    Nothing,
    Target,
}

impl Form {
    pub(super) fn of(spec: &SandboxSpec, environment: &BTreeMap<OsString, OsString>) -> Self {
        let Limits {
            processes,
            memory,
            cpus,
            open_files,
        } = spec.limits;
        let mounts = spec.mounts.iter().map(|mount| StoredMount {
            source: match &mount.source {
                MountSource::Path(path) => Source::Path(PathText(path.clone())),
                MountSource::Layers { lower, upper } => Source::Layers {
                    lower: lower.iter().cloned().map(PathText).collect(),
                    upper: upper.clone().map(PathText),
                },
                MountSource::Nothing => Source::Nothing,
                MountSource::Target => Source::Target,
            },
            target: PathText(mount.target.clone()),
            writable: mount.access == Access::ReadWrite,
        });
        // Any bytes are a path, as any bytes are a variable.
        let text = |word: &OsString| PathText(word.into());
        Self {
            version: VERSION,
            starts: 1,
            hostname: spec.hostname.clone(),
            workdir: PathText(spec.workdir.clone()),
            mounts: mounts.collect(),
            passing: None,
            processes,
            memory,
            cpus,
            open_files,
            environment: environment
                .iter()
                .map(|(k, v)| (text(k), text(v)))
                .collect(),
        }
    }

    pub(super) fn looking_again(self, passing: Range<usize>) -> Self {
        let passing = Some(passing);
        Self { passing, ..self }
    }

    pub(super) fn write(&self, owned: &Owned) -> Result<(), RegistryError> {
        let path = owned.directory().join(FILE);
        let bytes = serde_json::to_vec_pretty(self).map_err(|error| RegistryError::Record {
            path: path.clone(),
            reason: error.to_string(),
        })?;
        Ok(fsx::write_private(&path, &bytes)?)
    }

    pub(super) fn read(directory: &Path) -> Result<Self, RegistryError> {
        /// Read before anything that only this version knows.
        #[derive(Deserialize)]
        struct Head {
            version: u32,
        }
        let path = directory.join(FILE);
        let bytes = fsx::read_bounded(&path, LIMIT)?;
        let refuse = |reason| RegistryError::Record {
            path: path.clone(),
            reason,
        };
        let malformed = |error: serde_json::Error| refuse(error.to_string());
        let Head { version } = serde_json::from_slice(&bytes).map_err(malformed)?;
        if version != VERSION {
            let why = format!("it has format {version} of another version of cofferdam");
            return Err(refuse(why));
        }
        serde_json::from_slice(&bytes).map_err(malformed)
    }

    pub(super) fn starts(&self) -> u32 {
        self.starts
    }

    /// Of the sandbox that is to be made from it now.
    pub(super) fn next(mut self) -> Self {
        self.starts = self.starts.saturating_add(1);
        self
    }

    pub(super) fn hostname(&self) -> String {
        self.hostname.clone()
    }

    pub(super) fn workdir(&self) -> PathBuf {
        self.workdir.0.clone()
    }

    /// Where the files are inside that it works on: they are mounted first.
    pub(super) fn workspace(&self) -> PathBuf {
        let first = self.mounts.first();
        first.map_or_else(|| self.workdir(), |mount| mount.target.0.clone())
    }

    pub(super) fn limits(&self) -> Limits {
        Limits {
            processes: self.processes,
            memory: self.memory,
            cpus: self.cpus,
            open_files: self.open_files,
        }
    }

    pub(super) fn environment(&self) -> BTreeMap<OsString, OsString> {
        let words = self.environment.iter();
        words
            .map(|(k, v)| (k.0.clone().into_os_string(), v.0.clone().into_os_string()))
            .collect()
    }

    /// Which of [`Self::mounts`] a start looks for anew.
    pub(super) fn passing(&self) -> Option<Range<usize>> {
        let passing = self.passing.clone()?;
        (passing.start <= passing.end && passing.end <= self.mounts.len()).then_some(passing)
    }

    pub(super) fn mounts(&self) -> Vec<Mount> {
        let mounts = self.mounts.iter().map(|mount| Mount {
            source: match &mount.source {
                Source::Path(path) => MountSource::Path(path.0.clone()),
                Source::Layers { lower, upper } => MountSource::Layers {
                    lower: lower.iter().map(|path| path.0.clone()).collect(),
                    upper: upper.as_ref().map(|path| path.0.clone()),
                },
                Source::Nothing => MountSource::Nothing,
                Source::Target => MountSource::Target,
            },
            target: mount.target.0.clone(),
            access: if mount.writable {
                Access::ReadWrite
            } else {
                Access::ReadOnly
            },
        });
        mounts.collect()
    }
}
