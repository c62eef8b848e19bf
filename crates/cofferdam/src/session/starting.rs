//! Starting a program in a sandbox. One whose work is being collected stands still for a moment; who wants to start
//! something there waits for that.

use std::time::{Duration, Instant};

use crate::sandbox::{ExecRequest, Execution, Sandbox, SandboxError};

/// How long a program waits for its start while the sandbox's work is collected.
const COLLECTING: Duration = Duration::from_secs(60);
/// Between two attempts.
const PAUSE: Duration = Duration::from_millis(20);

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
