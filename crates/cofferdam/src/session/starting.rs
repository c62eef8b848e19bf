//! Starting a program in a sandbox, or speaking to one. While its work is being collected everything in it stands still
//! for a moment; who wants something there waits for that.

use std::time::{Duration, Instant};

use crate::sandbox::{ExecRequest, Execution, PortStream, Sandbox, SandboxError};

/// How long it waits while the sandbox's work is collected.
const COLLECTING: Duration = Duration::from_secs(60);
/// Between two attempts.
const PAUSE: Duration = Duration::from_millis(20);

/// As [`Sandbox::connect`].
pub(super) async fn connect(sandbox: &dyn Sandbox, port: u16) -> Result<PortStream, SandboxError> {
    let until = Instant::now() + COLLECTING;
    loop {
        match sandbox.connect(port).await {
            Err(SandboxError::Frozen) if Instant::now() < until => {
                tokio::time::sleep(PAUSE).await;
            }
            done => return done,
        }
    }
}

/// As [`Sandbox::exec`].
pub(super) async fn start(
    sandbox: &dyn Sandbox,
    request: ExecRequest,
) -> Result<Box<dyn Execution>, SandboxError> {
    let until = Instant::now() + COLLECTING;
    loop {
        match sandbox.exec(request.clone()).await {
            Err(SandboxError::Frozen) if Instant::now() < until => {
                tokio::time::sleep(PAUSE).await;
            }
            done => return done,
        }
    }
}
