//! Short commands in a sandbox, bounded in time and output: hooks, shell expressions, checkout.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio_util::sync::CancellationToken;

use super::starting::start;
use crate::process::Exit;
use crate::sandbox::{BoxRead, ExecRequest, Sandbox, SandboxError};

/// Where a sandbox has its agent's home.
pub(super) const AGENT_HOME: &str = "/home/agent";

const SIGKILL: i32 = 9;
/// For a provider that does not answer.
const KILL_LIMIT: Duration = Duration::from_secs(3);

/// What a command in the sandbox gave.
#[derive(Debug)]
pub(super) struct Captured {
    pub exit: Exit,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum InsideError {
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    #[error("it did not finish within {} s", .0.as_secs_f32())]
    TimedOut(Duration),
    #[error("it printed more than {0} bytes")]
    TooMuchOutput(usize),
    #[error("cancelled")]
    Cancelled,
}

/// One `sh -c` line or program in the sandbox.
#[derive(Debug)]
pub(super) struct Inside<'a> {
    pub sandbox: &'a dyn Sandbox,
    pub arguments: Vec<OsString>,
    /// The workspace unless given.
    pub directory: Option<&'a Path>,
    pub environment: &'a BTreeMap<OsString, OsString>,
    pub limit: Duration,
    /// Bytes of each stream.
    pub output_limit: usize,
}

impl Inside<'_> {
    pub(super) async fn run(self, cancel: &CancellationToken) -> Result<Captured, InsideError> {
        let mut request = ExecRequest::new(self.arguments);
        request.environment = self.environment.clone();
        request.directory = self.directory.map(Path::to_owned);
        let mut execution = tokio::select! {
            () = cancel.cancelled() => return Err(InsideError::Cancelled),
            started = tokio::time::timeout(self.limit, start(self.sandbox, request)) => {
                started.map_err(|_| InsideError::TimedOut(self.limit))??
            }
        };
        let (out, err) = (execution.take_stdout(), execution.take_stderr());
        let limit = self.output_limit;
        let work = async {
            // A background child may hold the pipes open: the program's own end counts, and what
            // was printed until shortly after it.
            let mut stdout = Vec::new();
            let mut stderr = Vec::new();
            let mut exit = None;
            {
                let streams = async {
                    tokio::join!(
                        read_up_to(out, limit, &mut stdout),
                        read_up_to(err, limit, &mut stderr)
                    )
                };
                tokio::pin!(streams);
                tokio::select! {
                    _ = &mut streams => {}
                    ended = execution.wait() => {
                        exit = Some(ended?);
                        let _ = tokio::time::timeout(Duration::from_millis(200), &mut streams).await;
                    }
                }
            }
            let exit = match exit {
                Some(exit) => exit,
                None => execution.wait().await?,
            };
            Ok::<_, SandboxError>(Captured {
                exit,
                stdout,
                stderr,
            })
        };
        let ended = tokio::select! {
            () = cancel.cancelled() => Err(InsideError::Cancelled),
            done = tokio::time::timeout(self.limit, work) => match done {
                Ok(captured) => captured.map_err(InsideError::from),
                Err(_) => Err(InsideError::TimedOut(self.limit)),
            },
        };
        match ended {
            Ok(captured) if captured.stdout.len() > limit || captured.stderr.len() > limit => {
                Err(InsideError::TooMuchOutput(limit))
            }
            Ok(captured) => Ok(captured),
            Err(error) => {
                let _ = tokio::time::timeout(KILL_LIMIT, execution.kill(SIGKILL)).await;
                Err(error)
            }
        }
    }
}

/// Reads to the end, keeping at most `limit + 1` bytes so that the writer never blocks on us.
async fn read_up_to(stream: Option<BoxRead>, limit: usize, kept: &mut Vec<u8>) {
    let Some(mut stream) = stream else { return };
    let mut chunk = vec![0u8; 16 << 10];
    while let Ok(got) = stream.read(&mut chunk).await {
        if got == 0 {
            return;
        }
        let room = (limit + 1).saturating_sub(kept.len()).min(got);
        kept.extend_from_slice(&chunk[..room]);
    }
}
