//! Short commands in a sandbox, bounded in time and output: hooks, shell expressions, checkout.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio_util::sync::CancellationToken;

use super::starting::start;
use crate::process::{Exit, Watch};
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
    pub output: Output,
}

/// What becomes of what a command prints.
#[derive(Debug)]
pub(super) enum Output {
    /// It is in [`Captured`]; more bytes of one stream than these are an error.
    Captured(usize),
    /// Both streams go there as they come.
    Seen(Watch),
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
        let seen = |bytes: &[u8]| {
            if let Output::Seen(Watch(see)) = &self.output {
                see(bytes);
            }
        };
        let limit = match &self.output {
            Output::Captured(limit) => Some(*limit),
            Output::Seen(_) => None,
        };
        let work = async {
            // A background child may hold the pipes open: the program's own end counts, and what
            // was printed until shortly after it.
            let mut stdout = Vec::new();
            let mut stderr = Vec::new();
            let mut exit = None;
            {
                let streams = async {
                    tokio::try_join!(
                        read(out, limit, &seen, &mut stdout),
                        read(err, limit, &seen, &mut stderr)
                    )
                };
                tokio::pin!(streams);
                tokio::select! {
                    read = &mut streams => { read?; }
                    ended = execution.wait() => {
                        exit = Some(ended?);
                        let rest = Duration::from_millis(200);
                        if let Ok(read) = tokio::time::timeout(rest, &mut streams).await {
                            read?;
                        }
                    }
                }
            }
            let exit = match exit {
                Some(exit) => exit,
                None => execution.wait().await?,
            };
            Ok::<_, InsideError>(Captured {
                exit,
                stdout,
                stderr,
            })
        };
        let ended = tokio::select! {
            () = cancel.cancelled() => Err(InsideError::Cancelled),
            done = tokio::time::timeout(self.limit, work) => match done {
                Ok(captured) => captured,
                Err(_) => Err(InsideError::TimedOut(self.limit)),
            },
        };
        if ended.is_err() {
            let _ = tokio::time::timeout(KILL_LIMIT, execution.kill(SIGKILL)).await;
        }
        ended
    }
}

/// Reads to the end, or until more than `limit` bytes have come; without a limit nothing is kept.
async fn read(
    stream: Option<BoxRead>,
    limit: Option<usize>,
    seen: &impl Fn(&[u8]),
    kept: &mut Vec<u8>,
) -> Result<(), InsideError> {
    let Some(mut stream) = stream else {
        return Ok(());
    };
    let mut chunk = vec![0u8; 16 << 10];
    while let Ok(got) = stream.read(&mut chunk).await {
        if got == 0 {
            break;
        }
        seen(&chunk[..got]);
        let Some(limit) = limit else { continue };
        if kept.len() + got > limit {
            return Err(InsideError::TooMuchOutput(limit));
        }
        kept.extend_from_slice(&chunk[..got]);
    }
    Ok(())
}
