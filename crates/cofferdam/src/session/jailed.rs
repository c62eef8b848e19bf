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
/// What a script there begins with: a hostile repository must not decide how much memory is used. 16 GiB of addresses for each process, for
/// git maps what it reads.
pub(super) const ADDRESSES: &str = "ulimit -v 16777216";
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
        let script = format!("{ADDRESSES}; {script}");
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

/// Runs what `request` makes of a limit of memory and of a line that its script begins with: together they let no program have more than
/// so many bytes. Where nobody can set that limit here, the line gives twice as many bytes of addresses to each process: an engine may have
/// limited the sandbox itself all the same.
pub(super) async fn run_limited(
    memory: Option<u64>,
    request: impl FnOnce(Option<u64>, String) -> JailRequest,
    cancel: &CancellationToken,
) -> Result<JailOutcome, SandboxError> {
    let request = match memory {
        Some(bytes) if !jail::limits_memory() => {
            request(None, format!("ulimit -v {}", bytes.saturating_mul(2) >> 10))
        }
        memory => request(memory, ADDRESSES.to_owned()),
    };
    jail::run(request, cancel).await
}
