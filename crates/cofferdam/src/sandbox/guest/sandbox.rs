//! One sandbox with a guest, as one of its users has it, whoever made it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use async_trait::async_trait;
use cofferdam_guest::protocol::{
    self, Agent, ExecStep, GuestExit, ProgramEntry, Request, WALL_SOCKETS,
};

use super::connection::{Answer, Connection, NotStarted, refused, standing};
use super::execution::GuestExecution;
use super::port;
use super::streams::{self, Ends, Output};
use crate::sandbox::{
    ExecRequest, Execution, Exit, GroupMemory, Listed, PortStream, ProgramFault, Sandbox,
    SandboxError, Status, Stopping, TerminalSize,
};
use crate::wall::{Registration, Sockets};

#[derive(Debug)]
pub(in crate::sandbox) struct GuestSandbox {
    pub(in crate::sandbox) connection: Connection,
    /// What its guest greets with, which tells what can be asked of it.
    pub(in crate::sandbox) version: u32,
    pub(in crate::sandbox) agent: Agent,
    pub(in crate::sandbox) end: Box<dyn End>,
    /// Keeps it behind the wall.
    pub(in crate::sandbox) wall: Option<Registration>,
}

/// How a sandbox ends: that is its provider's.
#[async_trait]
pub(in crate::sandbox) trait End: Send + Sync + fmt::Debug {
    /// As [`Sandbox::close`]. The connection is to be ended in any case.
    async fn close(&self, connection: &Connection) -> Result<(), SandboxError>;

    /// As [`Sandbox::stay`].
    async fn stay(&self) -> Result<(), SandboxError>;

    /// As [`Sandbox::process`].
    fn process(&self) -> Option<BorrowedFd<'_>>;

    /// As [`Sandbox::group_memory`].
    fn group_memory(&self) -> Option<GroupMemory> {
        None
    }
}

/// An environment, as the guest gets it.
pub(in crate::sandbox) fn bytes(
    environment: BTreeMap<OsString, OsString>,
) -> Vec<(Vec<u8>, Vec<u8>)> {
    environment
        .into_iter()
        .map(|(name, value)| (name.into_vec(), value.into_vec()))
        .collect()
}

impl GuestSandbox {
    /// Whether it may be asked what older versions do not know.
    fn knows_more(&self) -> Result<(), SandboxError> {
        if self.version & protocol::BROWSES == 0 {
            return Err(SandboxError::OtherVersion {
                theirs: self.version,
                ours: protocol::SPOKEN,
            });
        }
        Ok(())
    }

    /// As [`Sandbox::exec`], with a choice for standard output.
    pub(in crate::sandbox) async fn start(
        &self,
        request: ExecRequest,
        output: Output,
    ) -> Result<GuestExecution, SandboxError> {
        let shown = program_name(&request);
        let fail = |fault, reason: String| SandboxError::Program {
            program: shown.clone(),
            fault,
            reason,
        };
        let refuse = |reason| fail(ProgramFault::Other, reason);
        let directory = request
            .directory
            .map(|path| path.into_os_string().into_vec());
        let shown_directory = directory.clone();
        let words = request.arguments.into_iter();
        let arguments: Vec<_> = words.map(OsString::into_vec).collect();
        let environment = bytes(request.environment);
        let ends = match (request.terminal, &request.detached) {
            (Some(_), Some(_)) => {
                return Err(refuse(
                    "what survives its starter has no terminal".to_owned(),
                ));
            }
            (Some(size), None) => self.terminal(size).await?,
            (None, Some(files)) => Ends::detached(files)
                .map_err(|error| refuse(format!("cannot make its files: {error}")))?,
            (None, None) => Ends::pipes(request.stdin, output, self.agent)
                .map_err(|error| refuse(format!("cannot make its pipes: {error}")))?,
        };
        let streams = ends.kind;
        let asked = self.connection.exec(
            |exec| Request::Exec {
                exec,
                arguments,
                environment,
                directory,
                streams,
            },
            ends.inside,
        );
        let error = match asked.await {
            Ok(Ok(program)) => {
                return Ok(GuestExecution {
                    program,
                    streams: ends.outside,
                });
            }
            Ok(Err(NotStarted::Failed { step, errno })) => {
                fail(fault(step, errno), reason(step, errno, shown_directory))
            }
            Ok(Err(NotStarted::Stopped(stop))) => standing(stop),
            Err(SandboxError::Program { reason, .. }) => refuse(reason),
            Err(error) => error,
        };
        if let Some(files) = &request.detached {
            streams::forget(files);
        }
        Err(error)
    }

    async fn terminal(&self, size: TerminalSize) -> Result<Ends, SandboxError> {
        let directory = self.descriptors(|request| Request::Terminals { request });
        let [directory] = directory.await?;
        let made = Ends::terminal(&directory, size, self.agent);
        made.map_err(|error| SandboxError::Gone(format!("it has no terminal to give: {error}")))
    }

    async fn descriptors<const N: usize>(
        &self,
        make: impl FnOnce(u64) -> Request,
    ) -> Result<[OwnedFd; N], SandboxError> {
        match self.connection.answer(make).await? {
            Answer::Descriptors(fds) => fds.try_into().map_err(|_| {
                SandboxError::Gone("it handed over something else than was asked for".to_owned())
            }),
            other => Err(refused(&other)),
        }
    }

    /// Files are carried for as long as it takes: whoever asked bounds it.
    async fn carry(
        &self,
        action: &'static str,
        make: impl FnOnce(u64) -> Request,
        streams: Vec<OwnedFd>,
    ) -> Result<(), SandboxError> {
        match self.connection.answer_whenever(make, streams).await? {
            Answer::Done => Ok(()),
            Answer::Failed(libc::EOWNERDEAD) => Err(SandboxError::CarrierEnded { action }),
            Answer::Failed(errno) => Err(SandboxError::Files {
                action,
                reason: io::Error::from_raw_os_error(errno).to_string(),
            }),
            other => Err(refused(&other)),
        }
    }

    async fn stop(&self, make: impl FnOnce(u64) -> Request) -> Result<(), SandboxError> {
        match self.connection.answer(make).await? {
            Answer::Done => Ok(()),
            Answer::Failed(libc::ETIMEDOUT) => Err(SandboxError::Restless),
            other => Err(refused(&other)),
        }
    }
}

impl Drop for GuestSandbox {
    fn drop(&mut self) {
        self.connection.end("closed");
    }
}

#[async_trait]
impl Sandbox for GuestSandbox {
    async fn exec(&self, request: ExecRequest) -> Result<Box<dyn Execution>, SandboxError> {
        Ok(Box::new(self.start(request, Output::Pipe).await?))
    }

    async fn close(&self) -> Result<(), SandboxError> {
        self.end.close(&self.connection).await
    }

    async fn stay(&self) -> Result<(), SandboxError> {
        self.end.stay().await
    }

    fn wall(&self) -> Option<&Registration> {
        self.wall.as_ref()
    }

    async fn freeze(&self) -> Result<(), SandboxError> {
        self.stop(|request| Request::Freeze { request }).await
    }

    async fn thaw(&self) -> Result<(), SandboxError> {
        self.stop(|request| Request::Thaw { request }).await
    }

    async fn pause(&self) -> Result<(), SandboxError> {
        self.stop(|request| Request::Pause { request }).await
    }

    async fn resume(&self) -> Result<(), SandboxError> {
        self.stop(|request| Request::Resume { request }).await
    }

    async fn watch(&self) -> Result<(), SandboxError> {
        self.stop(|request| Request::Watch { request }).await
    }

    async fn status(&self) -> Result<Status, SandboxError> {
        match self
            .connection
            .answer(|request| Request::Status { request })
            .await?
        {
            Answer::Status(status) => Ok(Status {
                paused: status.paused,
                frozen: status.frozen,
                programs: status.programs,
                stopping: match status.stopping {
                    protocol::Stopping::Freezer => Stopping::Freezer,
                    protocol::Stopping::Signals => Stopping::Signals,
                },
            }),
            other => Err(refused(&other)),
        }
    }

    async fn programs(&self) -> Result<Vec<Listed>, SandboxError> {
        match self
            .connection
            .answer(|request| Request::Programs { request })
            .await?
        {
            Answer::Programs(programs) => Ok(programs.into_iter().map(listed).collect()),
            other => Err(refused(&other)),
        }
    }

    async fn memory(&self) -> Result<u64, SandboxError> {
        self.knows_more()?;
        let asked = self
            .connection
            .answer(|request| Request::Memory { request });
        match asked.await? {
            Answer::Memory(bytes) => Ok(bytes),
            other => Err(refused(&other)),
        }
    }

    async fn signal(&self, program: u64, signal: i32) -> Result<(), SandboxError> {
        let asked = self.connection.answer(|request| Request::SignalProgram {
            request,
            program,
            signal,
        });
        match asked.await? {
            Answer::Done => Ok(()),
            Answer::Failed(libc::ESRCH) => Err(SandboxError::NoProgram(program)),
            other => Err(refused(&other)),
        }
    }

    async fn sockets(&self) -> Result<Sockets, SandboxError> {
        let sockets = self.descriptors::<WALL_SOCKETS>(|request| Request::Sockets { request });
        let [connections, proxy, lookups, packets] = sockets.await?;
        Ok(Sockets {
            connections,
            proxy,
            lookups,
            packets,
        })
    }

    async fn unpack(
        &self,
        directory: &Path,
        tracked: bool,
        entries: OwnedFd,
        known: OwnedFd,
    ) -> Result<(), SandboxError> {
        let directory = directory.as_os_str().as_bytes().to_vec();
        let make = |request| Request::Unpack {
            request,
            directory,
            tracked,
        };
        self.carry("put files into", make, vec![entries, known])
            .await
    }

    async fn snapshot(
        &self,
        directory: &Path,
        largest: u64,
        known: OwnedFd,
        changes: OwnedFd,
    ) -> Result<(), SandboxError> {
        let directory = directory.as_os_str().as_bytes().to_vec();
        let make = |request| Request::Snapshot {
            request,
            directory,
            largest,
        };
        self.carry("read what changed in", make, vec![known, changes])
            .await
    }

    async fn deliver(&self, parcels: OwnedFd, receipts: OwnedFd) -> Result<(), SandboxError> {
        let make = |request| Request::Deliver { request };
        self.carry("put files into", make, vec![parcels, receipts])
            .await
    }

    async fn browse(&self, question: OwnedFd, seen: OwnedFd) -> Result<(), SandboxError> {
        self.knows_more()?;
        let make = |request| Request::Browse { request };
        self.carry("look into", make, vec![question, seen]).await
    }

    async fn connect(&self, port: u16) -> Result<PortStream, SandboxError> {
        port::connect(&self.connection, port).await
    }

    fn group_memory(&self) -> Option<GroupMemory> {
        self.end.group_memory()
    }

    fn process(&self) -> Option<BorrowedFd<'_>> {
        self.end.process()
    }
}

fn listed(entry: ProgramEntry) -> Listed {
    Listed {
        number: entry.program,
        arguments: entry
            .arguments
            .into_iter()
            .map(OsString::from_vec)
            .collect(),
        detached: entry.detached,
        awaited: entry.awaited,
        terminal: entry.terminal,
        lost: entry.lost,
        exit: entry.exit.map(|exit| match exit {
            GuestExit::Code(code) => Exit::Code(code),
            GuestExit::Signal(signal) => Exit::Signal(signal),
        }),
    }
}

fn program_name(request: &ExecRequest) -> String {
    let name = request
        .arguments
        .first()
        .map_or(&b""[..], |name| name.as_bytes());
    name.escape_ascii().to_string()
}

fn fault(step: ExecStep, errno: i32) -> ProgramFault {
    match (step, errno) {
        (ExecStep::Directory, _) => ProgramFault::Directory,
        (ExecStep::Program, libc::ENOENT | libc::ENOTDIR) => ProgramFault::Missing,
        (ExecStep::Program, libc::EACCES | libc::EPERM) => ProgramFault::Forbidden,
        _ => ProgramFault::Other,
    }
}

fn reason(step: ExecStep, errno: i32, directory: Option<Vec<u8>>) -> String {
    let error = io::Error::from_raw_os_error(errno);
    match step {
        ExecStep::Program if errno == libc::ENOENT => "it does not exist there".to_owned(),
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
