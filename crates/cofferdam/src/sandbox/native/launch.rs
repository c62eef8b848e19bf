//! Starting the guest: its launcher, and what was started with it.

use std::process::Stdio;
use std::time::Duration;

use rustix::net::{AddressFamily, SocketFlags, SocketType};
use tokio::net::UnixStream;
use tokio::process::Child;

use super::cgroup::Group;
use crate::embedded;
use crate::sandbox::SandboxError;
use crate::sandbox::guest::start_error;

/// How long the launcher may take to follow its sandbox into death before it is killed.
const LAUNCHER_LIMIT: Duration = Duration::from_secs(4);

/// The launcher with one end of the control socket as its standard input.
pub(super) fn spawn() -> Result<(UnixStream, Child), SandboxError> {
    let executable = embedded::guest().map_err(start_error)?;
    let flags = SocketFlags::CLOEXEC;
    let (ours, theirs) =
        rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)
            .map_err(|errno| start_error(errno.into()))?;
    let ours = std::os::unix::net::UnixStream::from(ours);
    ours.set_nonblocking(true).map_err(start_error)?;
    let ours = UnixStream::from_std(ours).map_err(start_error)?;
    #[expect(
        clippy::disallowed_methods,
        reason = "the guest outlives one bounded call: no Invocation"
    )]
    let mut command = std::process::Command::new(executable);
    command
        .env_clear()
        .current_dir("/")
        .stdin(theirs)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    std::os::unix::process::CommandExt::arg0(&mut command, "cofferdam-guest");
    // Keys pressed at the caller's terminal are not for it.
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let child = tokio::process::Command::from(command)
        .spawn()
        .map_err(start_error)?;
    Ok((ours, child))
}

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
