//! Starting a program in a sandbox, or speaking to one. While its work is being collected everything in it stands still
//! for a moment; who wants something there waits for that. So it is until somebody watches it who is about to.

use std::time::{Duration, Instant};

use crate::sandbox::{ExecRequest, Execution, PortStream, Sandbox, SandboxError};

/// How long it waits while the sandbox's work is collected.
const COLLECTING: Duration = Duration::from_secs(60);
/// Between two attempts.
const PAUSE: Duration = Duration::from_millis(20);

/// As [`Sandbox::connect`].
pub(super) async fn connect(sandbox: &dyn Sandbox, port: u16) -> Result<PortStream, SandboxError> {
    once_collected(|| sandbox.connect(port)).await
}

/// As [`Sandbox::exec`].
pub(super) async fn start(
    sandbox: &dyn Sandbox,
    request: ExecRequest,
) -> Result<Box<dyn Execution>, SandboxError> {
    once_collected(|| sandbox.exec(request.clone())).await
}

async fn once_collected<T, Attempt: Future<Output = Result<T, SandboxError>>>(
    attempt: impl Fn() -> Attempt,
) -> Result<T, SandboxError> {
    let until = Instant::now() + COLLECTING;
    loop {
        match attempt().await {
            Err(SandboxError::Frozen | SandboxError::Unwatched) if Instant::now() < until => {
                tokio::time::sleep(PAUSE).await;
            }
            done => return done,
        }
    }
}
