//! Git over the objects of a sandbox, in a jail. Of its repository nothing else is read: no setting and no reference in it can keep
//! honest commits inside, or let others out.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::mounts::jail_mounts;
use crate::git::private_clone::{INSIDE_GIT_DIR, INSIDE_VAULT};
use crate::sandbox::native::jail::{self, JailOutcome, JailOutput, JailRequest};
use crate::sandbox::{Access, Limits, Mount, MountSource, SandboxError};

/// Where the jail has a git directory of ours.
pub(super) const READER: &str = "/.cofferdam/reader";
/// What is set for each call of git there.
const SETTINGS: [(&str, &str); 5] = [
    ("pack.threads", "2"),
    ("pack.windowMemory", "256m"),
    ("core.packedGitLimit", "1g"),
    ("core.commitGraph", "false"),
    ("core.multiPackIndex", "false"),
];

/// Where objects are, as the jail sees them.
#[derive(Debug)]
pub(super) struct Objects {
    /// Read-only.
    pub(super) mounts: Vec<Mount>,
    pub(super) directory: String,
    /// What they go on from.
    pub(super) alternate: Option<&'static str>,
}

impl Objects {
    /// Those of the private clone in a state directory.
    pub(super) fn of(state: &Path) -> Self {
        Self {
            mounts: jail_mounts(state),
            directory: format!("{INSIDE_GIT_DIR}/objects"),
            alternate: Some(INSIDE_VAULT),
        }
    }

    /// Runs `script` with `words` as its arguments. `reader`: a git directory of ours ([`crate::git::bare::make`]).
    pub(super) fn request(
        self,
        reader: PathBuf,
        script: &str,
        words: Vec<OsString>,
        stdin: Vec<u8>,
        stdout: JailOutput,
        timeout: Duration,
    ) -> JailRequest {
        let mut mounts = self.mounts;
        mounts.push(Mount {
            source: MountSource::Path(reader),
            target: READER.into(),
            access: Access::ReadOnly,
        });
        // A hostile repository must not decide how much memory is used.
        let script = format!("ulimit -v 16777216; {script}");
        let shell = ["/bin/sh", "-c", &script, "sh"].map(OsString::from);
        let mut environment = vec![
            ("GIT_DIR".to_owned(), READER.to_owned()),
            ("GIT_OBJECT_DIRECTORY".to_owned(), self.directory),
            ("GIT_CONFIG_NOSYSTEM".to_owned(), "1".to_owned()),
            ("GIT_NO_LAZY_FETCH".to_owned(), "1".to_owned()),
            ("GIT_NO_REPLACE_OBJECTS".to_owned(), "1".to_owned()),
            ("GIT_CONFIG_COUNT".to_owned(), SETTINGS.len().to_string()),
        ];
        if let Some(alternate) = self.alternate {
            let name = "GIT_ALTERNATE_OBJECT_DIRECTORIES".to_owned();
            environment.push((name, alternate.to_owned()));
        }
        for (number, (key, value)) in SETTINGS.into_iter().enumerate() {
            environment.push((format!("GIT_CONFIG_KEY_{number}"), key.to_owned()));
            environment.push((format!("GIT_CONFIG_VALUE_{number}"), value.to_owned()));
        }
        JailRequest {
            mounts,
            arguments: shell.into_iter().chain(words).collect(),
            environment: environment
                .into_iter()
                .map(|(key, value)| (key.into(), value.into()))
                .collect(),
            directory: "/".into(),
            stdin,
            stdout,
            limits: Limits {
                processes: Some(256),
                ..Limits::default()
            },
            timeout,
        }
    }
}

/// Runs what `request` makes of so many bytes of memory; without that limit where nobody can set one here: an engine may have done so for
/// the sandbox itself, and an ordinary user has no control groups of their own on every machine.
pub(super) async fn run_limited(
    memory: Option<u64>,
    request: impl Fn(Option<u64>) -> JailRequest,
    cancel: &CancellationToken,
) -> Result<JailOutcome, SandboxError> {
    match jail::run(request(memory), cancel).await {
        Err(SandboxError::Unable { .. } | SandboxError::Unsupported { .. }) if memory.is_some() => {
            jail::run(request(None), cancel).await
        }
        done => done,
    }
}
