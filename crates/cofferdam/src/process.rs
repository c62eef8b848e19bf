//! The one spawner of host processes: cleared environment, own process group, bounded output, a
//! deadline, and a cancel that ends the whole group.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio_util::sync::CancellationToken;

/// How a process ended. A signal is never success.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// It called exit with this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
}

impl Exit {
    /// Whether it ended by itself, with code 0.
    pub fn success(self) -> bool {
        self == Self::Code(0)
    }

    /// The code a shell would report: the code itself, or 128 + signal.
    pub fn shell_code(self) -> i32 {
        match self {
            Self::Code(code) => code,
            Self::Signal(signal) => 128 + signal,
        }
    }
}

impl From<std::process::ExitStatus> for Exit {
    fn from(status: std::process::ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Code(code),
            (None, Some(signal)) => Self::Signal(signal),
            (None, None) => Self::Code(-1),
        }
    }
}

impl std::fmt::Display for Exit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
        }
    }
}

/// Why a host process gave no output.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// There is no such program, or it may not be executed.
    #[error("cannot start `{program}`: {source}")]
    Start {
        /// As it was called.
        program: String,
        /// What the system said.
        source: io::Error,
    },
    /// It was killed, with all that it had started.
    #[error("`{program}` did not finish within {} s", limit.as_secs_f32())]
    TimedOut {
        /// As it was called.
        program: String,
        /// How long it had.
        limit: Duration,
    },
    /// The caller cancelled it; it was killed.
    #[error("`{program}` was cancelled")]
    Cancelled {
        /// As it was called.
        program: String,
    },
    /// It printed more than is kept; it was killed.
    #[error("`{program}` printed more than {limit} bytes")]
    TooMuchOutput {
        /// As it was called.
        program: String,
        /// In bytes.
        limit: usize,
    },
    /// Reading or writing failed otherwise than by its end.
    #[error("lost contact with `{program}`: {source}")]
    Io {
        /// As it was called.
        program: String,
        /// What the system said.
        source: io::Error,
    },
}

/// What a process reads on standard input.
#[derive(Debug, Default)]
pub enum Input {
    /// It is at its end at once.
    #[default]
    Nothing,
    /// All of these, and then it is at its end.
    Bytes(Vec<u8>),
    /// A pipe's read end or a file.
    Fd(OwnedFd),
}

/// Where its standard output goes.
#[derive(Debug)]
pub enum Sink {
    /// Kept in memory; more than this many bytes is an error.
    Capture(usize),
    /// An open file, pipe or socket.
    Fd(OwnedFd),
    /// It is thrown away.
    Nothing,
}

/// One host process to run.
#[derive(Debug)]
pub struct Invocation {
    /// Looked for as `execvp(3)` does, unless it is a path.
    pub program: OsString,
    /// Without the program's name.
    pub arguments: Vec<OsString>,
    /// The whole environment; nothing is inherited.
    pub environment: BTreeMap<OsString, OsString>,
    /// Where it runs.
    pub directory: PathBuf,
    /// What it reads on standard input.
    pub input: Input,
    /// Where its standard output goes.
    pub output: Sink,
    /// Sees standard error as it comes; it must be quick.
    pub watch: Option<Watch>,
    /// It is killed after this long.
    pub limit: Duration,
    /// For what is over in milliseconds and would leave something behind if it were ended half-way: given up, it
    /// may take so long to end by itself.
    pub patience: Duration,
}

/// A function that sees bytes as they come.
#[derive(Clone)]
pub struct Watch(pub Arc<See>);

type See = dyn Fn(&[u8]) + Send + Sync;

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Watch")
    }
}

/// The default bound of a captured standard output: 64 MiB.
pub const CAPTURE: usize = 64 << 20;
/// How long a process may take to clean up after itself before it is killed.
const TERM_GRACE: Duration = Duration::from_secs(1);
/// Only this many last bytes of standard error are kept.
const ERROR_TAIL: usize = 16 << 10;

impl Invocation {
    /// Without arguments and variables, with an empty standard input.
    pub fn new(program: impl Into<OsString>, directory: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            arguments: Vec::new(),
            environment: BTreeMap::new(),
            directory: directory.into(),
            input: Input::Nothing,
            output: Sink::Capture(CAPTURE),
            watch: None,
            limit: Duration::from_secs(60),
            patience: Duration::ZERO,
        }
    }

    /// More arguments, after those that it has.
    #[must_use]
    pub fn args(mut self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.arguments
            .extend(arguments.into_iter().map(|a| a.as_ref().to_owned()));
        self
    }

    /// A variable of its environment.
    #[must_use]
    pub fn env(mut self, key: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.environment.insert(key.into(), value.into());
        self
    }

    /// Runs to the end. Cancelling or passing the limit kills the process group.
    pub async fn run(self, cancel: &CancellationToken) -> Result<Finished, ProcessError> {
        self.start()?.finish(cancel).await
    }

    /// Starts it; the returned value must be finished. Dropping it kills the process group.
    pub fn start(self) -> Result<Running, ProcessError> {
        let program = self.program.to_string_lossy().into_owned();
        #[expect(clippy::disallowed_methods, reason = "this is the one spawner")]
        let mut command = std::process::Command::new(&self.program);
        command
            .args(&self.arguments)
            .env_clear()
            .envs(&self.environment)
            .current_dir(&self.directory)
            .stderr(Stdio::piped());
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let bytes = match self.input {
            Input::Nothing => {
                command.stdin(Stdio::null());
                None
            }
            Input::Bytes(bytes) => {
                command.stdin(Stdio::piped());
                Some(bytes)
            }
            Input::Fd(fd) => {
                command.stdin(fd);
                None
            }
        };
        let capture = match self.output {
            Sink::Capture(limit) => {
                command.stdout(Stdio::piped());
                limit
            }
            Sink::Fd(fd) => {
                command.stdout(fd);
                0
            }
            Sink::Nothing => {
                command.stdout(Stdio::null());
                0
            }
        };
        let child = tokio::process::Command::from(command)
            .spawn()
            .map_err(|source| ProcessError::Start {
                program: program.clone(),
                source,
            })?;
        let group = child.id().and_then(|id| {
            i32::try_from(id)
                .ok()
                .and_then(rustix::process::Pid::from_raw)
        });
        Ok(Running {
            program,
            child,
            group,
            bytes,
            capture,
            watch: self.watch,
            limit: self.limit,
            patience: self.patience,
        })
    }
}

/// A started process.
#[derive(Debug)]
pub struct Running {
    program: String,
    child: tokio::process::Child,
    group: Option<rustix::process::Pid>,
    bytes: Option<Vec<u8>>,
    capture: usize,
    watch: Option<Watch>,
    limit: Duration,
    patience: Duration,
}

/// What a process that ended left behind.
#[derive(Debug)]
pub struct Finished {
    /// Its exit code, or the signal that killed it.
    pub exit: Exit,
    /// What it printed there, where it was to be kept.
    pub stdout: Vec<u8>,
    /// The last 16 KiB.
    pub stderr: Vec<u8>,
}

impl Running {
    /// Bounds what the process can allocate from now on (RLIMIT_DATA, bytes; mapped files do not
    /// count). Its children inherit it.
    pub fn limit_memory(&self, bytes: u64) {
        // Without an id `prlimit` would bound this very process.
        let Some(child) = self.group else { return };
        let limit = rustix::process::Rlimit {
            current: Some(bytes),
            maximum: Some(bytes),
        };
        // A process that has ended already needs no bound.
        let _ = rustix::process::prlimit(Some(child), rustix::process::Resource::Data, limit);
    }

    /// Whether it ends within so long. Blocks.
    fn ends_within(&mut self, limit: Duration) -> bool {
        let began = std::time::Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) {
            if began.elapsed() >= limit {
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        true
    }

    /// Waits for its end. Fails where it takes longer than its limit, prints too much or is cancelled: all of these kill it.
    pub async fn finish(mut self, cancel: &CancellationToken) -> Result<Finished, ProcessError> {
        let program = self.program.clone();
        let (limit, capture) = (self.limit, self.capture);
        let stdin = self.child.stdin.take();
        let stdout = self.child.stdout.take();
        let stderr = self.child.stderr.take();
        let bytes = self.bytes.take();
        let watch = self.watch.take();
        let feed = async {
            if let (Some(mut stdin), Some(bytes)) = (stdin, bytes) {
                // A process may end without reading its input: its exit status tells the story.
                let _ = stdin.write_all(&bytes).await;
                let _ = stdin.shutdown().await;
            }
        };
        let work = async {
            let ((), out, err, status) = tokio::join!(
                feed,
                read_up_to(stdout, capture),
                read_tail(stderr, watch.as_ref()),
                self.child.wait()
            );
            (out, err, status)
        };
        let (out, err, status) = tokio::select! {
            () = cancel.cancelled() => return Err(ProcessError::Cancelled { program }),
            done = tokio::time::timeout(limit, work) => match done {
                Ok(done) => done,
                Err(_) => return Err(ProcessError::TimedOut { program, limit }),
            },
        };
        let io = |source| ProcessError::Io {
            program: program.clone(),
            source,
        };
        let stdout = out.map_err(io)?;
        if stdout.len() > capture {
            return Err(ProcessError::TooMuchOutput {
                program,
                limit: capture,
            });
        }
        Ok(Finished {
            exit: status.map_err(io)?.into(),
            stdout,
            stderr: err,
        })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let Some(group) = self.group else { return };
        // Asked first: git takes its lock files with it, which would stand in everybody's way.
        if self.child.id().is_some()
            && !self.ends_within(self.patience)
            && rustix::process::kill_process_group(group, rustix::process::Signal::TERM).is_ok()
        {
            self.ends_within(TERM_GRACE);
        }
        // The leader may be gone while others of its group still run.
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
}

/// Starts a program on a new terminal, in a session of its own, and gives the terminal's other side, which does not block. Not bounded: a
/// person is there. The whole environment is given.
pub fn start_on_terminal(
    arguments: &[OsString],
    environment: &BTreeMap<OsString, OsString>,
    directory: &Path,
) -> io::Result<(tokio::process::Child, OwnedFd)> {
    let Some((program, arguments)) = arguments.split_first() else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let (terminal, program_side) = pty_process::open().map_err(of_terminal)?;
    let command = pty_process::Command::new(program)
        .args(arguments)
        .env_clear()
        .envs(environment)
        .current_dir(directory);
    let child = command.spawn(program_side).map_err(of_terminal)?;
    Ok((child, terminal.as_fd().try_clone_to_owned()?))
}

fn of_terminal(error: pty_process::Error) -> io::Error {
    match error {
        pty_process::Error::Io(error) => error,
        error => io::Error::other(error),
    }
}

/// Sends a signal to the process group of a program of [`start_on_terminal`].
pub fn signal_session(leader: &tokio::process::Child, signal: rustix::process::Signal) {
    let id = leader.id().and_then(|id| i32::try_from(id).ok());
    if let Some(group) = id.and_then(rustix::process::Pid::from_raw) {
        let _ = rustix::process::kill_process_group(group, signal);
    }
}

/// Reads to the end but keeps at most `limit + 1` bytes, so that the writer never blocks on us.
async fn read_up_to(stream: Option<impl AsyncRead + Unpin>, limit: usize) -> io::Result<Vec<u8>> {
    let mut kept = Vec::new();
    let Some(mut stream) = stream else {
        return Ok(kept);
    };
    let mut chunk = vec![0u8; 64 << 10];
    loop {
        let got = stream.read(&mut chunk).await?;
        if got == 0 {
            return Ok(kept);
        }
        let room = (limit + 1).saturating_sub(kept.len()).min(got);
        kept.extend_from_slice(&chunk[..room]);
    }
}

async fn read_tail(stream: Option<impl AsyncRead + Unpin>, watch: Option<&Watch>) -> Vec<u8> {
    let mut kept = Vec::new();
    let Some(mut stream) = stream else {
        return kept;
    };
    let mut chunk = vec![0u8; 8 << 10];
    while let Ok(got) = stream.read(&mut chunk).await {
        if got == 0 {
            break;
        }
        if let Some(Watch(watch)) = watch {
            watch(&chunk[..got]);
        }
        kept.extend_from_slice(&chunk[..got]);
        if kept.len() > 2 * ERROR_TAIL {
            kept.drain(..kept.len() - ERROR_TAIL);
        }
    }
    let excess = kept.len().saturating_sub(ERROR_TAIL);
    kept.drain(..excess);
    kept
}

/// Whether the process with this id and start time (field 22 of `/proc/<pid>/stat`) still runs.
pub fn is_alive(pid: u32, start_time: u64) -> bool {
    start_time_of(pid) == Some(start_time)
}

/// The start time of a process in clock ticks after boot, or `None` if there is none.
pub fn start_time_of(pid: u32) -> Option<u64> {
    let stat = std::fs::read(Path::new("/proc").join(pid.to_string()).join("stat")).ok()?;
    let after_name = stat.iter().rposition(|&b| b == b')')?;
    let fields = std::str::from_utf8(&stat[after_name + 1..]).ok()?;
    fields.split_ascii_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str) -> Invocation {
        Invocation::new("/bin/sh", "/").args(["-c", script])
    }

    #[tokio::test]
    async fn output_code_and_signal() {
        let cancel = CancellationToken::new();
        let done = sh("cat; echo err >&2; exit 3");
        let done = Invocation {
            input: Input::Bytes(b"in".to_vec()),
            ..done
        };
        let done = done.run(&cancel).await.unwrap();
        assert_eq!(
            (done.exit, &done.stdout[..], &done.stderr[..]),
            (Exit::Code(3), &b"in"[..], &b"err\n"[..])
        );
        let done = sh("kill -9 $$").run(&cancel).await.unwrap();
        assert_eq!(done.exit, Exit::Signal(9));
        assert!(!done.exit.success());
    }

    #[tokio::test]
    async fn unread_input_is_no_error() {
        let run = Invocation {
            input: Input::Bytes(vec![b'x'; 1 << 20]),
            ..sh("exit 0")
        };
        assert!(
            run.run(&CancellationToken::new())
                .await
                .unwrap()
                .exit
                .success()
        );
    }

    #[tokio::test]
    async fn what_is_given_up_may_end_by_itself_where_it_must() {
        let dir = tempfile::tempdir().unwrap();
        for (patience, ends) in [(Duration::ZERO, false), (Duration::from_secs(20), true)] {
            let mark = dir.path().join(patience.as_secs().to_string());
            let script = format!("trap 'exit 1' TERM; sleep 0.3; : > {}", mark.display());
            let run = Invocation {
                patience,
                ..sh(&script)
            };
            drop(run.start().unwrap());
            assert_eq!(mark.exists(), ends);
        }
    }

    #[tokio::test]
    async fn limits_end_the_whole_group() {
        let dir = tempfile::tempdir().unwrap();
        let mark = dir.path().join("mark");
        let script = format!("(sleep 1; echo late > '{}') & wait", mark.display());
        let run = Invocation {
            limit: Duration::from_millis(100),
            ..sh(&script)
        };
        let error = run.run(&CancellationToken::new()).await.unwrap_err();
        assert!(matches!(error, ProcessError::TimedOut { .. }), "{error}");
        tokio::time::sleep(Duration::from_millis(1300)).await;
        assert!(!mark.exists());
    }

    #[tokio::test]
    async fn a_process_may_clean_up_but_not_stay() {
        let dir = tempfile::tempdir().unwrap();
        let lock = dir.path().join("lock");
        for (trap, stays) in [("rm '$LOCK'; exit", false), ("", true)] {
            crate::fsx::write_private(&lock, b"").unwrap();
            let trap = trap.replace("$LOCK", &lock.display().to_string());
            let script =
                format!("exec 2>/dev/null; trap \"{trap}\" TERM; while :; do sleep 0.01; done");
            let run = Invocation {
                limit: Duration::from_millis(300),
                ..sh(&script)
            };
            let running = run.start().unwrap();
            let group = running.group.unwrap();
            running.finish(&CancellationToken::new()).await.unwrap_err();
            assert_eq!(lock.exists(), stays);
            // Dead, whether or not anybody has reaped it yet.
            tokio::time::sleep(Duration::from_millis(100)).await;
            let stat = format!("/proc/{}/stat", group.as_raw_nonzero());
            assert!(std::fs::read_to_string(stat).map_or(true, |stat| stat.contains(") Z ")));
        }
    }

    #[tokio::test]
    async fn too_much_output_is_an_error() {
        let run = Invocation {
            output: Sink::Capture(10),
            ..sh("head -c 100000 /dev/zero")
        };
        let error = run.run(&CancellationToken::new()).await.unwrap_err();
        assert!(
            matches!(error, ProcessError::TooMuchOutput { .. }),
            "{error}"
        );
    }

    #[test]
    fn start_times() {
        let me = std::process::id();
        let start = start_time_of(me).unwrap();
        assert!(is_alive(me, start));
        assert!(!is_alive(me, start + 1));
    }
}
