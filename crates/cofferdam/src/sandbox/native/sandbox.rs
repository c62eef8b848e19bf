//! One native sandbox: started, spoken to, ended.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::process::Stdio;
use std::time::Duration;

use async_trait::async_trait;
use cofferdam_guest::protocol::{self, Agent, ExecStep, Request, Setup, SetupMount, Source};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::pipe::PipeFlags;
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::process::Child;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::cgroup::Group;
use super::connection::{self, Connection, NotStarted, Program};
use super::tools::{self, Host};
use super::{NativeOptions, identity, limits, wall};
use crate::embedded;
use crate::sandbox::{
    Access, BoxRead, BoxWrite, ExecRequest, Execution, Exit, Mount, MountSource, Network, Sandbox,
    SandboxError, SandboxSpec,
};
use crate::wall::Registration;

/// How long the launcher may take to follow its sandbox into death before it is killed.
const LAUNCHER_LIMIT: Duration = Duration::from_secs(4);
/// The bound of [`Sandbox::close`] in seconds.
const CLOSE_LIMIT: u64 = 10;

/// Where a program's standard output goes.
#[derive(Debug)]
pub(super) enum Output {
    Pipe,
    Fd(OwnedFd),
    Nothing,
}

#[derive(Debug)]
pub(super) struct NativeSandbox {
    connection: Connection,
    environment: BTreeMap<OsString, OsString>,
    agent: Agent,
    /// True when everything of the sandbox is gone.
    closed: watch::Receiver<bool>,
    /// Keeps it behind the wall.
    wall: Option<Registration>,
}

impl NativeSandbox {
    pub(super) async fn create(
        spec: &SandboxSpec,
        options: &NativeOptions,
        cancel: &CancellationToken,
    ) -> Result<Self, SandboxError> {
        if cancel.is_cancelled() {
            return Err(SandboxError::Cancelled);
        }
        let agent = identity::agent(spec.id)?;
        let offered = tools::offered(&Host {
            search_path: spec.search_path.as_deref(),
            home: spec.caller_home.as_deref(),
            programs: &spec.programs,
            unseen: &spec.unseen,
        });
        let environment = tools::environment(spec, &offered);
        let mut mounts = offered.mounts;
        mounts.extend(spec.mounts.iter().map(setup_mount));
        let setup = Setup {
            hostname: hostname(&spec.hostname),
            agent,
            mounts,
            limits: limits::of(&spec.limits, options.file_size, limits::file_table()),
            workdir: spec.workdir.as_os_str().as_bytes().to_vec(),
            network: match spec.network {
                Network::None => protocol::Network::None,
                Network::Wall(_) => protocol::Network::Wall,
                Network::Open => protocol::Network::Open,
            },
        };
        let frame = protocol::encode(&setup).map_err(|error| SandboxError::Unsupported {
            what: format!("cannot describe the sandbox to its init: {error}"),
            hint: "mount fewer or shorter paths".to_owned(),
        })?;
        let group = Group::create(spec.id, &spec.limits)?;
        let (mut stream, launcher) = spawn()?;
        // From here on the keeper's drop ends what was started.
        let starting = Starting {
            launcher: Some(launcher),
            group: Some(group),
        };
        let up = async {
            starting.join_group()?;
            connection::send(&stream, &frame)
                .await
                .map_err(start_error)?;
            let sockets = connection::greet(&mut stream).await?;
            match &spec.network {
                Network::Wall(spec) => Ok(Some(wall::raise(&mut stream, sockets, spec).await?)),
                Network::None | Network::Open if sockets.is_empty() => Ok(None),
                Network::None | Network::Open => Err(SandboxError::Start(
                    "its init handed over what nobody asked for".to_owned(),
                )),
            }
        };
        let came_up = tokio::select! {
            () = cancel.cancelled() => Err(SandboxError::Cancelled),
            up = tokio::time::timeout(options.ready_limit, up) => {
                up.unwrap_or(Err(SandboxError::TimedOut(options.ready_limit.as_secs())))
            }
        };
        let wall = match came_up {
            Ok(wall) => wall,
            Err(error) => {
                drop(stream);
                starting.finish().await;
                return Err(error);
            }
        };
        let connection = Connection::new(stream);
        let (gone, closed) = watch::channel(false);
        let keeper = connection.clone();
        tokio::spawn(async move {
            keeper.ended().await;
            starting.finish().await;
            gone.send_replace(true);
        });
        Ok(Self {
            connection,
            environment,
            agent,
            closed,
            wall,
        })
    }

    /// As [`Sandbox::exec`], with a choice for standard output.
    pub(super) async fn start(
        &self,
        request: ExecRequest,
        output: Output,
    ) -> Result<NativeExecution, SandboxError> {
        let shown = program_name(&request);
        let refuse = |reason: String| SandboxError::Program {
            program: shown.clone(),
            reason,
        };
        let pipes = Pipes::new(request.stdin, output, self.agent)
            .map_err(|error| refuse(format!("cannot make its pipes: {error}")))?;
        let mut environment = self.environment.clone();
        environment.extend(request.environment);
        let bytes = |word: OsString| word.into_vec();
        let arguments: Vec<_> = request.arguments.into_iter().map(bytes).collect();
        let environment: Vec<_> = environment
            .into_iter()
            .map(|(k, v)| (bytes(k), bytes(v)))
            .collect();
        let directory = request.directory.map(|path| bytes(path.into_os_string()));
        let shown_directory = directory.clone();
        let asked = self.connection.exec(
            |exec| Request::Exec {
                exec,
                arguments,
                environment,
                directory,
            },
            pipes.inside,
        );
        let program = match asked.await {
            Ok(Ok(program)) => program,
            Ok(Err(failure)) => return Err(refuse(reason(failure, shown_directory))),
            Err(SandboxError::Program { reason, .. }) => return Err(refuse(reason)),
            Err(error) => return Err(error),
        };
        let (stdin, stdout, stderr) = (pipes.stdin, pipes.stdout, pipes.stderr);
        Ok(NativeExecution {
            program,
            stdin,
            stdout,
            stderr,
        })
    }
}

impl Drop for NativeSandbox {
    fn drop(&mut self) {
        self.connection.end("closed");
    }
}

#[async_trait]
impl Sandbox for NativeSandbox {
    async fn exec(&self, request: ExecRequest) -> Result<Box<dyn Execution>, SandboxError> {
        Ok(Box::new(self.start(request, Output::Pipe).await?))
    }

    async fn close(&self) -> Result<(), SandboxError> {
        self.connection.end("closed");
        let mut closed = self.closed.clone();
        let limit = Duration::from_secs(CLOSE_LIMIT);
        match tokio::time::timeout(limit, closed.wait_for(|closed| *closed))
            .await
            .map(|r| r.is_ok())
        {
            Ok(true) => Ok(()),
            Ok(false) => Err(SandboxError::Gone("its keeper was stopped".to_owned())),
            Err(_) => Err(SandboxError::TimedOut(CLOSE_LIMIT)),
        }
    }

    fn wall(&self) -> Option<&Registration> {
        self.wall.as_ref()
    }

    async fn freeze(&self) -> Result<(), SandboxError> {
        self.connection
            .question(|request| Request::Freeze { request })
            .await
    }

    async fn thaw(&self) -> Result<(), SandboxError> {
        self.connection
            .question(|request| Request::Thaw { request })
            .await
    }
}

/// What is left of it fits sethostname(2) and a line of `/etc/hosts`.
fn hostname(wanted: &str) -> String {
    let usable = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    wanted.chars().filter(usable).take(63).collect()
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
pub(super) fn start_error(error: io::Error) -> SandboxError {
    SandboxError::Start(error.to_string())
}

fn setup_mount(mount: &Mount) -> SetupMount {
    SetupMount {
        source: match &mount.source {
            MountSource::Path(path) => Source::Path(path.as_os_str().as_bytes().to_vec()),
            MountSource::Nothing => Source::Nothing,
            MountSource::Target => Source::Target,
        },
        target: mount.target.as_os_str().as_bytes().to_vec(),
        writable: mount.access == Access::ReadWrite,
        optional: false,
    }
}

/// The launcher with one end of the control socket as its standard input.
pub(super) fn spawn() -> Result<(UnixStream, Child), SandboxError> {
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

/// What was started for a sandbox and must be cleared away after it.
#[derive(Debug)]
pub(super) struct Starting {
    pub(super) launcher: Option<Child>,
    pub(super) group: Option<Group>,
}

impl Starting {
    /// Before the launcher hears what to do: all it makes is then in the group.
    fn join_group(&self) -> Result<(), SandboxError> {
        let id = self.launcher.as_ref().and_then(Child::id);
        match (&self.group, id) {
            (Some(group), Some(id)) => group.add(id).map_err(start_error),
            _ => Ok(()),
        }
    }

    /// The control socket is closed: the launcher ends when all in the sandbox is dead.
    pub(super) async fn finish(mut self) {
        if let Some(mut launcher) = self.launcher.take()
            && tokio::time::timeout(LAUNCHER_LIMIT, launcher.wait())
                .await
                .is_err()
        {
            let _ = launcher.start_kill();
            let _ = tokio::time::timeout(LAUNCHER_LIMIT, launcher.wait()).await;
        }
        if let Some(group) = self.group.take() {
            group.remove().await;
        }
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        // Only where the future was dropped: `finish` has taken it.
        if let Some(launcher) = &mut self.launcher {
            let _ = launcher.start_kill();
        }
    }
}

fn program_name(request: &ExecRequest) -> String {
    let name = request
        .arguments
        .first()
        .map_or(&b""[..], |name| name.as_bytes());
    name.escape_ascii().to_string()
}

fn reason(failure: NotStarted, directory: Option<Vec<u8>>) -> String {
    let error = io::Error::from_raw_os_error(failure.errno);
    match failure.step {
        ExecStep::Program if failure.errno == libc::ENOENT => "it does not exist there".to_owned(),
        ExecStep::Program => error.to_string(),
        ExecStep::Directory => {
            let directory = directory.unwrap_or_default();
            let shown = if directory.is_empty() {
                "the workdir".to_owned()
            } else {
                format!("`{}`", directory.escape_ascii())
            };
            format!("cannot enter {shown}: {error}")
        }
        ExecStep::Limits => format!("cannot set its limits: {error}"),
        ExecStep::Filter => format!("cannot install its system call filter: {error}"),
        ExecStep::Process => format!("cannot make a process: {error}"),
    }
}

/// The standard streams of a program.
struct Pipes {
    inside: Vec<OwnedFd>,
    stdin: Option<pipe::Sender>,
    stdout: Option<pipe::Receiver>,
    stderr: Option<pipe::Receiver>,
}

impl Pipes {
    fn new(with_stdin: bool, output: Output, agent: Agent) -> io::Result<Self> {
        let make = || -> io::Result<(OwnedFd, OwnedFd)> {
            let (read, write) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
            if let Agent::Separate { uid, gid } = agent {
                // Programs open /dev/stdout anew: the pipe must be the agent's.
                let (uid, gid) = (
                    rustix::fs::Uid::from_raw(uid),
                    rustix::fs::Gid::from_raw(gid),
                );
                // Where root may not, they write to the descriptor and all is well.
                let _ = rustix::fs::fchown(&read, Some(uid), Some(gid));
            }
            Ok((read, write))
        };
        // Without a writer a pipe is at its end.
        let (stdin_inside, stdin) = make()?;
        let stdin = if with_stdin {
            Some(pipe::Sender::from_owned_fd(stdin)?)
        } else {
            None
        };
        let (stdout_inside, stdout) = match output {
            Output::Pipe => {
                let (read, write) = make()?;
                (write, Some(pipe::Receiver::from_owned_fd(read)?))
            }
            Output::Fd(fd) => (fd, None),
            Output::Nothing => {
                let null = rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::CLOEXEC;
                (
                    rustix::fs::open("/dev/null", null, rustix::fs::Mode::empty())?,
                    None,
                )
            }
        };
        let (read, stderr_inside) = make()?;
        let stderr = Some(pipe::Receiver::from_owned_fd(read)?);
        Ok(Self {
            inside: vec![stdin_inside, stdout_inside, stderr_inside],
            stdin,
            stdout,
            stderr,
        })
    }
}

/// A program in a native sandbox.
#[derive(Debug)]
pub(super) struct NativeExecution {
    program: Program,
    stdin: Option<pipe::Sender>,
    stdout: Option<pipe::Receiver>,
    stderr: Option<pipe::Receiver>,
}

#[async_trait]
impl Execution for NativeExecution {
    fn take_stdin(&mut self) -> Option<BoxWrite> {
        Some(Box::new(self.stdin.take()?))
    }

    fn take_stdout(&mut self) -> Option<BoxRead> {
        Some(Box::new(self.stdout.take()?))
    }

    fn take_stderr(&mut self) -> Option<BoxRead> {
        Some(Box::new(self.stderr.take()?))
    }

    async fn wait(&mut self) -> Result<Exit, SandboxError> {
        self.program.wait().await
    }

    async fn kill(&mut self, signal: i32) -> Result<(), SandboxError> {
        self.program.signal(signal).await
    }
}
