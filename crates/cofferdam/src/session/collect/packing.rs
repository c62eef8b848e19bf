//! Getting a pack out of a sandbox's repository: in a throw-away jail over its dead files, or from a
//! running isolated sandbox. Host git never opens that repository.

use std::os::fd::OwnedFd;
use std::time::Duration;

use super::{CollectError, Collector, Source};
use crate::fsx::FileError;
use crate::git::Oid;
use crate::git::gate::{self, Accepted, Gate};
use crate::git::private_clone::INSIDE_GIT_DIR;
use crate::process::{Exit, Input};
use crate::sandbox::Limits;
use crate::sandbox::native::jail::{self, JailOutput, JailRequest};
use crate::sandbox::registry::Owned;
use crate::session::mounts::jail_mounts;
use crate::session::transfer;

impl Collector<'_> {
    /// A pack of `tip` without the base's history, through the gate.
    pub(super) async fn receive(
        &self,
        owned: &Owned,
        source: &Source<'_>,
        tip: &Oid,
    ) -> Result<Accepted, CollectError> {
        let gate = Gate {
            repo: self.repo.clone(),
            id: owned.record.id,
            base: owned.record.base.clone(),
            alternate: owned.directory().join("vault"),
            state: owned.directory().to_owned(),
            limits: gate::Limits {
                time: self.limit,
                ..gate::Limits::default()
            },
            rules: gate::Rules {
                hidden: (owned.record.hidden.iter())
                    .map(|path| path.0.to_string_lossy().into_owned())
                    .collect(),
                ..gate::Rules::default()
            },
        };
        let revisions = format!("{tip}\n^{}\n", owned.record.base);
        let pipe = std::io::pipe().map_err(|source| FileError::new("make", "a pipe", source))?;
        let (reader, writer) = (OwnedFd::from(pipe.0), OwnedFd::from(pipe.1));
        let pack = async {
            match source {
                Source::State => self.pack_in_jail(owned, revisions, writer).await,
                Source::Sandbox { sandbox, workdir } => {
                    transfer::pack(*sandbox, workdir, revisions, writer, self.cancel).await
                }
            }
        };
        let (packed, received) =
            tokio::join!(pack, gate.receive(Input::Fd(reader), tip, self.cancel));
        match (packed, received) {
            (_, Ok(accepted)) => Ok(accepted),
            // A pack that could not be made explains a refusal better than its remains do; one
            // that its reader let go of says nothing, and the reader knows why.
            (Err(error), Err(_)) if !cut_off(&error) => Err(error),
            (_, Err(error)) => Err(error.into()),
        }
    }

    async fn pack_in_jail(
        &self,
        owned: &Owned,
        revisions: String,
        to: OwnedFd,
    ) -> Result<(), CollectError> {
        let request = JailRequest {
            mounts: jail_mounts(owned.directory()),
            // A hostile repository must not decide how much memory is used.
            arguments: [
                "/bin/sh",
                "-c",
                "ulimit -v 16777216; exec \"$@\"",
                "sh",
                "git",
                "-c",
                "pack.threads=2",
                "-c",
                "pack.windowMemory=256m",
                "-c",
                "core.packedGitLimit=1g",
                "pack-objects",
                "--revs",
                "--thin",
                "--stdout",
                "--delta-base-offset",
                "-q",
            ]
            .map(Into::into)
            .to_vec(),
            environment: [
                ("GIT_DIR", INSIDE_GIT_DIR),
                ("GIT_CONFIG_NOSYSTEM", "1"),
                ("GIT_NO_LAZY_FETCH", "1"),
                ("GIT_NO_REPLACE_OBJECTS", "1"),
            ]
            .map(|(key, value)| (key.into(), value.into()))
            .into(),
            directory: "/".into(),
            stdin: revisions.into_bytes(),
            stdout: JailOutput::Fd(to),
            limits: Limits {
                processes: Some(256),
                ..Limits::default()
            },
            timeout: self.limit,
        };
        let done = jail::run(request, self.cancel).await?;
        if done.exit.success() {
            return Ok(());
        }
        let stderr = crate::text::printable(String::from_utf8_lossy(&done.stderr_tail).trim_end());
        Err(CollectError::Pack {
            exit: done.exit,
            stderr,
        })
    }

    /// Whether a private copy holds uncommitted work, asked of its own git in a jail. A copy that
    /// cannot be asked counts as dirty.
    pub(super) async fn copy_is_dirty(&self, owned: &Owned) -> bool {
        let mut mounts = jail_mounts(owned.directory());
        mounts.push(crate::sandbox::Mount {
            source: crate::sandbox::MountSource::Path(owned.directory().join("work")),
            target: "/workspace/copy".into(),
            access: crate::sandbox::Access::ReadOnly,
        });
        let request = JailRequest {
            mounts,
            arguments: ["git", "status", "--porcelain", "--ignore-submodules=all"]
                .map(Into::into)
                .to_vec(),
            environment: [
                ("GIT_DIR", INSIDE_GIT_DIR),
                ("GIT_WORK_TREE", "/workspace/copy"),
                ("GIT_OPTIONAL_LOCKS", "0"),
                ("GIT_CONFIG_NOSYSTEM", "1"),
            ]
            .map(|(key, value)| (key.into(), value.into()))
            .into(),
            directory: "/workspace/copy".into(),
            stdin: Vec::new(),
            stdout: JailOutput::Capture(1 << 20),
            limits: Limits {
                processes: Some(256),
                ..Limits::default()
            },
            timeout: Duration::from_secs(60),
        };
        match jail::run(request, self.cancel).await {
            Ok(done) => !done.exit.success() || !done.stdout.is_empty(),
            Err(_) => true,
        }
    }
}

fn cut_off(error: &CollectError) -> bool {
    let pipe = Exit::Signal(libc::SIGPIPE);
    matches!(error, CollectError::Pack { exit, .. } if *exit == pipe)
}
