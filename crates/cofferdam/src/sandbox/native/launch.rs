//! The launcher, and what was started with it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::process::Child;

use super::cgroup::Group;
use crate::sandbox::SandboxError;
use crate::sandbox::guest::start_error;

/// How long the launcher may take to follow its sandbox into death before it is killed.
const LAUNCHER_LIMIT: Duration = Duration::from_secs(4);

/// What was started for a sandbox and must be cleared away after it.
#[derive(Debug)]
pub(super) struct Starting {
    pub(super) launcher: Option<Child>,
    pub(super) group: Option<Group>,
}

impl Starting {
    /// Before the launcher hears what to do: all it makes is then in the group.
    pub(super) fn join_group(&self) -> Result<(), SandboxError> {
        let id = self.launcher.as_ref().and_then(Child::id);
        match (&self.group, id) {
            (Some(group), Some(id)) => group.add(id).map_err(start_error),
            _ => Ok(()),
        }
    }

    /// As [`Group::memory`].
    pub(super) fn memory(&self) -> Option<PathBuf> {
        self.group.as_ref()?.memory().map(Path::to_owned)
    }

    /// The sandbox lives on alone, and its groups with it: the launcher has gone or is about to.
    pub(super) async fn leave(mut self) {
        if let Some(group) = self.group.take() {
            group.leave();
        }
        self.finish().await;
    }

    /// The control socket is closed: the launcher ends when all in the sandbox is dead.
    pub(super) async fn finish(mut self) {
        if let Some(mut launcher) = self.launcher.take()
            && tokio::time::timeout(LAUNCHER_LIMIT, launcher.wait())
                .await
                .is_err()
        {
            let _ = launcher.start_kill();
            let _ = tokio::time::timeout(LAUNCHER_LIMIT, launcher.wait()).await;
        }
        if let Some(group) = self.group.take() {
            group.remove().await;
        }
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        // Only where the future was dropped: `finish` has taken it.
        if let Some(launcher) = &mut self.launcher {
            let _ = launcher.start_kill();
        }
    }
}
