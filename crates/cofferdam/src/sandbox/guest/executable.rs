//! Starting the guest's executable on the host.

use std::process::Stdio;

use rustix::net::{AddressFamily, SocketFlags, SocketType};
use tokio::net::UnixStream;
use tokio::process::Child;

use super::coming_up::start_error;
use crate::embedded;
use crate::sandbox::SandboxError;

/// With one end of a control socket as its standard input. `role`: what it is asked to be; without one the launcher of a native
/// sandbox.
pub(in crate::sandbox) fn spawn(role: Option<&str>) -> Result<(UnixStream, Child), SandboxError> {
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
        .args(role)
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
