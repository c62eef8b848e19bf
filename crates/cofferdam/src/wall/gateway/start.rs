//! Starts a gateway: a process of its own, that outlives who starts it.

use std::os::unix::process::CommandExt;

use super::place::{Lock, Place};
use crate::embedded;
use crate::ids;
use crate::wall::WallError;

/// Starts one with a socket that listens already: who connects from now on is served, or hears that
/// it ended. Its standard input is that socket, its standard output the lock, whose open file it
/// holds for as long as it lives.
pub(super) fn start(place: &Place, lock: Lock) -> Result<(), WallError> {
    let failed = |what: &str, error: std::io::Error| WallError::Start(format!("{what}: {error}"));
    let owner = rustix::process::geteuid().as_raw();
    let run_as = ids::gateway().ok_or_else(|| {
        WallError::Start(
            "root has no unprivileged user id to give to it in this container; run as an ordinary \
             user, or map more ids into the container"
                .to_owned(),
        )
    })?;
    let executable = embedded::gateway()
        .map_err(|error| failed("cannot make an executable memory file", error))?;
    let listener = place.listen(&lock)?;
    let errors = place.errors(&lock)?;
    let shared = lock
        .share()
        .map_err(|error| failed("cannot share its lock", error))?;
    #[expect(
        clippy::disallowed_methods,
        reason = "the gateway outlives its starter and every bound: no Invocation"
    )]
    let mut command = std::process::Command::new(executable);
    command
        .arg0("cofferdam-gateway")
        .args([owner.to_string(), run_as.to_string()])
        .env_clear()
        .current_dir("/")
        .stdin(std::os::fd::OwnedFd::from(listener))
        .stdout(shared)
        .stderr(errors)
        // Keys pressed at the starter's terminal are not for it.
        .process_group(0);
    // Reaped by the runtime if it ends before its starter; never killed by it.
    let child = tokio::process::Command::from(command)
        .spawn()
        .map_err(|error| failed("its program does not start", error))?;
    if let Some(process) = child.id() {
        // Only an error message names it.
        let _ = lock.sign(process);
    }
    // From here on it is the gateway's alone.
    drop(lock);
    Ok(())
}
