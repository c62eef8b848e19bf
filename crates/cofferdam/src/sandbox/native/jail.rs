//! One program in a throw-away sandbox: no network, read-only mounts, bounded time, memory and
//! processes. What the commit gate reads a sandbox's git directory through.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_util::sync::CancellationToken;

use super::NativeOptions;
use super::cgroup;
use super::host::Host;
use super::make;
use crate::names::{SandboxId, Slug};
use crate::sandbox::guest::Output;
use crate::sandbox::{
    ExecRequest, Execution, Exit, Limits, Mount, Sandbox, SandboxError, SandboxSpec,
};

/// The last bytes of standard error that are kept.
const ERROR_TAIL: usize = 16 << 10;

/// Where the program's standard output goes.
#[derive(Debug)]
pub enum JailOutput {
    /// A file or the write end of a pipe. The program gets this descriptor itself.
    Fd(OwnedFd),
    /// Kept in memory; more than this many bytes end the program with an error.
    Capture(usize),
    /// It is thrown away.
    Nothing,
}

/// One program to run. The system directories are there, read-only; `caller_home` tools are not.
#[derive(Debug)]
pub struct JailRequest {
    /// What of the host it sees beside the system directories.
    pub mounts: Vec<Mount>,
    /// `argv[0]` is looked up in `PATH` of `environment`, else in the system directories.
    pub arguments: Vec<OsString>,
    /// Its variables, and no others.
    pub environment: BTreeMap<OsString, OsString>,
    /// Where it starts, an absolute path inside.
    pub directory: PathBuf,
    /// Written to its standard input, which is then closed.
    pub stdin: Vec<u8>,
    /// Where its standard output goes.
    pub stdout: JailOutput,
    /// As for every sandbox: a limit that is not the default and cannot be given is an error.
    pub limits: Limits,
    /// Bounds everything, start and end included.
    pub timeout: Duration,
}

/// Whether [`Limits::memory`] can be set for one here: an ordinary user has no control groups of their own on every machine.
pub fn limits_memory() -> bool {
    let some = Limits {
        memory: Some(1 << 30),
        ..Limits::default()
    };
    cgroup::check(&some).is_ok()
}

/// How it ended.
#[derive(Debug)]
pub struct JailOutcome {
    /// Its exit code, or the signal that killed it.
    pub exit: Exit,
    /// What [`JailOutput::Capture`] kept.
    pub stdout: Vec<u8>,
    /// The last 16 KiB of standard error.
    pub stderr_tail: Vec<u8>,
}

/// Runs the program to its end. When this returns, nothing of the jail is left; when it is cancelled
/// or times out, everything in it is being killed.
pub async fn run(
    request: JailRequest,
    cancel: &CancellationToken,
) -> Result<JailOutcome, SandboxError> {
    run_showing(request, &Host::default(), cancel).await
}

/// The same, with what `host` brings of the caller's programs.
pub async fn run_showing(
    request: JailRequest,
    host: &Host<'_>,
    cancel: &CancellationToken,
) -> Result<JailOutcome, SandboxError> {
    let limit = request.timeout;
    tokio::select! {
        () = cancel.cancelled() => Err(SandboxError::Cancelled),
        done = tokio::time::timeout(limit, run_unbounded(request, host, cancel)) => match done {
            Ok(done) => done,
            Err(_) => Err(SandboxError::TimedOut(limit.as_secs())),
        },
    }
}

async fn run_unbounded(
    request: JailRequest,
    host: &Host<'_>,
    cancel: &CancellationToken,
) -> Result<JailOutcome, SandboxError> {
    let start = |error: std::io::Error| SandboxError::Start(format!("cannot make an id: {error}"));
    let id = SandboxId::random().map_err(start)?;
    let slug = Slug::from_text("jail").map_err(|error| SandboxError::Start(error.to_string()))?;
    let mut spec = SandboxSpec::new(id, slug, "jail", request.directory);
    spec.mounts = request.mounts;
    spec.environment = request.environment;
    spec.search_path = host.search_path.map(ToOwned::to_owned);
    spec.caller_home = host.home.map(ToOwned::to_owned);
    spec.programs = host.programs.to_vec();
    spec.unseen = host.unseen.to_vec();
    spec.limits = request.limits;
    let sandbox = make::make(&spec, &NativeOptions::default(), cancel).await?;
    let (output, capture) = match request.stdout {
        JailOutput::Fd(fd) => (Output::Fd(fd), 0),
        JailOutput::Capture(limit) => (Output::Pipe, limit),
        JailOutput::Nothing => (Output::Nothing, 0),
    };
    let mut exec = ExecRequest::new(request.arguments);
    exec.stdin = true;
    let mut program = sandbox.start(exec, output).await?;
    let (stdin, stdout, stderr) = (
        program.take_stdin(),
        program.take_stdout(),
        program.take_stderr(),
    );
    let input = request.stdin;
    let feed = async move {
        if let Some(mut stdin) = stdin {
            // A program may end without reading its input.
            let _ = stdin.write_all(&input).await;
            let _ = stdin.shutdown().await;
        }
    };
    let keep = async move {
        let mut kept = Vec::new();
        if let Some(stdout) = stdout {
            let mut bounded = stdout.take(capture as u64 + 1);
            let _ = bounded.read_to_end(&mut kept).await;
        }
        kept
    };
    // The end of the sandbox ends the streams too, whatever the program left running.
    let end = async {
        let exit = program.wait().await;
        (exit, sandbox.close().await)
    };
    let ((), stdout, stderr_tail, (exit, closed)) = tokio::join!(feed, keep, tail(stderr), end);
    closed?;
    if stdout.len() > capture {
        return Err(SandboxError::Gone(format!(
            "its program printed more than {capture} bytes"
        )));
    }
    Ok(JailOutcome {
        exit: exit?,
        stdout,
        stderr_tail,
    })
}

async fn tail(stream: Option<super::super::BoxRead>) -> Vec<u8> {
    let mut kept = Vec::new();
    let Some(mut stream) = stream else {
        return kept;
    };
    let mut chunk = vec![0u8; 8 << 10];
    while let Ok(got @ 1..) = stream.read(&mut chunk).await {
        kept.extend_from_slice(&chunk[..got]);
        if kept.len() > 2 * ERROR_TAIL {
            kept.drain(..kept.len() - ERROR_TAIL);
        }
    }
    let excess = kept.len().saturating_sub(ERROR_TAIL);
    kept.drain(..excess);
    kept
}
