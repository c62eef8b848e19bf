//! Starts a gateway: a process of its own, that outlives who starts it.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

use super::directory::{GatewayDirectory, Lock};
use super::error::SearchError;

/// What a gateway is started from.
#[derive(Debug)]
pub struct Program {
    pub executable: OsString,
    /// What the path names, where that has to be open until it is started.
    pub file: Option<OwnedFd>,
    /// Whom it becomes where its starter is root.
    pub run_as: u32,
}

/// Who starts gateways.
pub trait Starter: Sync {
    /// Asked only when one is started. Why there is none, in words.
    fn program(&self) -> Result<Program, String>;

    /// Starts it, with [what a terminal tells](crate::keys) withheld, and sees to it that it is reaped if it ends first. Its
    /// number, if it lives.
    fn spawn(&self, command: Command) -> io::Result<Option<u32>>;
}

/// Starts one with a socket that listens already: who connects from now on is served, or hears that
/// it ended. Its standard input is that socket, its standard output the lock, whose open file it
/// holds for as long as it lives.
pub(super) fn start(
    at: &GatewayDirectory,
    lock: Lock,
    starter: &dyn Starter,
) -> Result<(), SearchError> {
    let failed = |what: &str, error: io::Error| SearchError::Start(format!("{what}: {error}"));
    let owner = rustix::process::geteuid().as_raw();
    let program = starter.program().map_err(SearchError::Start)?;
    let listener = at.listen(&lock)?;
    let errors = at.errors(&lock)?;
    let shared = lock
        .share()
        .map_err(|error| failed("cannot share its lock", error))?;
    #[expect(
        clippy::disallowed_methods,
        reason = "the gateway outlives its starter and every bound: no Invocation"
    )]
    let mut command = Command::new(program.executable);
    command
        .arg0("cofferdam-gateway")
        .args([owner.to_string(), program.run_as.to_string()])
        .env_clear()
        .current_dir("/")
        .stdin(OwnedFd::from(listener))
        .stdout(shared)
        .stderr(errors);
    let process = starter
        .spawn(command)
        .map_err(|error| failed("its program does not start", error))?;
    if let Some(process) = process {
        // Only an error message names it.
        let _ = lock.sign(process);
    }
    // From here on it is the gateway's alone.
    drop(lock);
    Ok(())
}
