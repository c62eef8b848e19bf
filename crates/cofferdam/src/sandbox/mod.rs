//! The boundary: what a sandbox provider is given, what it gives back, and which of the two kinds
//! it is. Providers are open traits; users write their own outside of this crate.
//!
//! A provider knows nothing of agents, prompts or branches. It gets plain data ([`SandboxSpec`]).

mod abilities;
mod ability;
pub mod browse;
pub mod change;
pub mod conformance;
pub mod engine;
mod error;
pub(crate) mod examined;
pub(crate) mod files;
mod group_memory;
mod guest;
pub mod host;
mod identity;
mod kinds;
mod limits;
pub mod native;
mod port;
mod spec;
mod terminal;
mod tried;

/// Sandboxes in Docker's containers.
pub mod docker {
    pub use super::engine::{Docker, EngineOptions, IMAGE, Surroundings};
}

/// Sandboxes in Podman's containers.
pub mod podman {
    pub use super::engine::{EngineOptions, IMAGE, Podman, Surroundings};
}

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

pub use crate::network::NetworkKind;
pub use crate::process::Exit;
pub use abilities::Abilities;
pub use ability::Ability;
pub use error::{ProgramFault, SandboxError};
pub use examined::{Examined, Held};
pub use group_memory::GroupMemory;
pub(crate) use group_memory::killed;
pub(crate) use guest::{is_up, number};
pub(crate) use kinds::Layers;
pub use kinds::{BindMount, BranchStrategy, Contained, CopyStrategy, Isolated, PrivateCopy};
pub use port::PortStream;
pub use spec::{
    Access, Detached, ExecRequest, Handle, HostProgram, Lifetime, Limits, Mount, MountSource,
    Network, SandboxSpec,
};
pub use terminal::{Resize, Terminal, TerminalSize};

use crate::names::RepoPath;
use crate::wall::{Registration, Sockets};

/// The provider of a sandbox that is there. `name`: as its record has it; `place`: its [`SandboxSpec::place`]. For those of
/// this crate: a provider of a user's own is theirs to find.
pub fn provider_of(name: &str, place: &Path) -> Result<Arc<dyn BindMountProvider>, SandboxError> {
    Ok(match engine::Kind::named(name) {
        Some(kind) => Arc::new(engine::Engine::recorded(kind, place)?),
        None => Arc::new(native::Native::default()),
    })
}

/// What a sandbox prints, or what is in it.
pub type BoxRead = Box<dyn AsyncRead + Send + Unpin>;
/// What a sandbox reads.
pub type BoxWrite = Box<dyn AsyncWrite + Send + Unpin>;

/// How a running sandbox is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// By [`Sandbox::pause`].
    pub paused: bool,
    /// By [`Sandbox::freeze`], of whomever.
    pub frozen: bool,
    /// How many programs run that the host has started.
    pub programs: u32,
    /// How [`Sandbox::pause`] and [`Sandbox::freeze`] stop them.
    pub stopping: Stopping,
}

impl Status {
    /// Of one in which nothing runs yet.
    pub fn new(stopping: Stopping) -> Self {
        Self {
            paused: false,
            frozen: false,
            programs: 0,
            stopping,
        }
    }
}

/// How a sandbox's programs are stopped for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stopping {
    /// By the kernel, which keeps them so.
    Freezer,
    /// By SIGSTOP, because no control group could be made for them: what has itself woken, or is woken by the kernel,
    /// runs for a moment until it is stopped again.
    Signals,
}

/// One program that the host has started in a sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Listed {
    /// The sandbox's own number for it, which no other program ever gets.
    pub number: u64,
    /// As far as the sandbox remembers them. What an agent may have chosen: to be made safe for a terminal.
    pub arguments: Vec<OsString>,
    /// It goes on without whoever started it.
    pub detached: bool,
    /// Whoever started it is there and waits for it. Else it goes on by itself, or is being ended.
    pub awaited: bool,
    /// It has a terminal of somebody's.
    pub terminal: bool,
    /// So many bytes that it printed last could not be written, where it is `detached`.
    pub lost: u64,
    /// None while it runs.
    pub exit: Option<Exit>,
}

impl Listed {
    /// One that runs and that somebody waits for, with neither a terminal nor its files.
    pub fn new(number: u64, arguments: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        Self {
            number,
            arguments: arguments.into_iter().map(Into::into).collect(),
            detached: false,
            awaited: true,
            terminal: false,
            lost: 0,
            exit: None,
        }
    }
}

/// A running sandbox, and one user's connection to it. Dropping it ends that user's programs; where the sandbox lives
/// as long as its maker ([`Lifetime::WithMaker`]) it ends every process in it.
#[async_trait]
pub trait Sandbox: Send + Sync + fmt::Debug {
    /// Starts a program as the sandbox's agent user. Returns when the program has been executed or
    /// could not be: a missing program is [`SandboxError::Program`] at once. In a sandbox that stands still it is
    /// [`SandboxError::Paused`] or [`SandboxError::Frozen`].
    async fn exec(&self, request: ExecRequest) -> Result<Box<dyn Execution>, SandboxError>;

    /// Ends every process and frees what the sandbox held, whatever its lifetime is. Idempotent. Bounded: 10 s.
    async fn close(&self) -> Result<(), SandboxError>;

    /// From now on it lives without whoever made it ([`Lifetime::UntilRemoved`]). Until then it ends with the value that
    /// [`BindMountProvider::create`] gave, and the process that holds it: nobody knows yet that it is to be found. Idempotent.
    /// Bounded: 20 s; on an error it has ended. One that lives by itself from the first has nothing to do.
    async fn stay(&self) -> Result<(), SandboxError> {
        Ok(())
    }

    /// What keeps it behind the wall, where [`SandboxSpec::network`] is [`Network::Wall`]. Its maker has it, and nobody
    /// who opens it later.
    fn wall(&self) -> Option<&Registration> {
        None
    }

    /// Stops every program inside until [`Sandbox::thaw`], or until this connection ends; nothing of the agent runs
    /// when this returns.
    async fn freeze(&self) -> Result<(), SandboxError> {
        Err(unable(Ability::Pause))
    }

    /// Lets what [`Sandbox::freeze`] stopped go on, unless it is paused or somebody else holds it.
    async fn thaw(&self) -> Result<(), SandboxError> {
        Err(unable(Ability::Pause))
    }

    /// Stops every program inside until somebody asks for [`Sandbox::resume`]. Idempotent. What is to hold before the
    /// first instruction after that (new rules) is to be put in force before it is asked for.
    async fn pause(&self) -> Result<(), SandboxError> {
        Err(unable(Ability::Pause))
    }

    /// Lets what [`Sandbox::pause`] stopped go on. Without effect where nothing is paused.
    async fn resume(&self) -> Result<(), SandboxError> {
        Err(unable(Ability::Pause))
    }

    /// Says that this process sees to what appears in files that the sandbox shares with its user, for as long as this value lives.
    /// From the first time on programs run only while somebody does: all others that are to start are refused with
    /// [`SandboxError::Unwatched`], and those that run stand still.
    async fn watch(&self) -> Result<(), SandboxError> {
        Err(unable(Ability::Pause))
    }

    /// Asks the sandbox how it is: whether it goes on or stands still, and what runs in it.
    async fn status(&self) -> Result<Status, SandboxError> {
        Err(unable(Ability::Outlive))
    }

    /// The programs that run, and those that ended lately, whoever started them.
    async fn programs(&self) -> Result<Vec<Listed>, SandboxError> {
        Err(unable(Ability::Outlive))
    }

    /// Bytes of memory that its programs have for themselves, not those of files that they share.
    async fn memory(&self) -> Result<u64, SandboxError> {
        Err(unable(Ability::Outlive))
    }

    /// All of its memory, files in memory too, as the kernel counts it. Nothing where nobody counts: natively, where it has no limit
    /// of memory.
    fn group_memory(&self) -> Option<GroupMemory> {
        None
    }

    /// As [`Execution::kill`], for a program of [`Sandbox::programs`].
    async fn signal(&self, _program: u64, _signal: i32) -> Result<(), SandboxError> {
        Err(unable(Ability::Outlive))
    }

    /// Duplicates of what it handed to the gateway, to keep its place behind the wall when nobody does any more.
    async fn sockets(&self) -> Result<Sockets, SandboxError> {
        Err(unable(Ability::Outlive))
    }

    /// Puts files into a directory inside, an absolute path, as the agent user: what `entries` brings, in the form of
    /// [`cofferdam_guest::protocol::files::Entry`]. To `known` it writes what it is to be told by
    /// [`Sandbox::snapshot`], a row of [`cofferdam_guest::protocol::files::Known`]. Both are ends of pipes, and closed
    /// at the end. Missing directories are made, and what is there is replaced. Whoever calls it bounds it: it may be
    /// dropped at any point.
    async fn unpack(
        &self,
        _directory: &Path,
        _tracked: bool,
        _entries: OwnedFd,
        _known: OwnedFd,
    ) -> Result<(), SandboxError> {
        Err(unable(Ability::Files))
    }

    /// Writes to `changes` what is in a directory inside and is not as `known` says, the entries of one stream. New files
    /// that the rules in `known` leave out stay inside. It costs a look at each name, and the bytes of what changed. What
    /// comes is hostile. Ends of pipes, and a bound, as in [`Sandbox::unpack`]. `largest`: bytes of one file.
    async fn snapshot(
        &self,
        _directory: &Path,
        _largest: u64,
        _known: OwnedFd,
        _changes: OwnedFd,
    ) -> Result<(), SandboxError> {
        Err(unable(Ability::Files))
    }

    /// Brings files to places anywhere inside, as the agent user: a row of [`cofferdam_guest::protocol::files::Parcel`]. For each file
    /// it writes one [`cofferdam_guest::protocol::files::Receipt`]. Each gets there whole or not at all. Ends of pipes, and a bound, as
    /// in [`Sandbox::unpack`].
    async fn deliver(&self, _parcels: OwnedFd, _receipts: OwnedFd) -> Result<(), SandboxError> {
        Err(unable(Ability::Files))
    }

    /// Tells what is at a place inside, as the agent user sees it: `question` brings one
    /// [`cofferdam_guest::protocol::browse::Question`], and to `seen` a row of [`cofferdam_guest::protocol::browse::Seen`] is written.
    /// What comes is hostile. Ends of pipes, and a bound, as in [`Sandbox::unpack`]. [`SandboxError::OtherVersion`] where it was made
    /// before there was such a question.
    async fn browse(&self, _question: OwnedFd, _seen: OwnedFd) -> Result<(), SandboxError> {
        Err(unable(Ability::Files))
    }

    /// Connects to a TCP server on the sandbox's own loopback: at 127.0.0.1, and at `::1` where nobody listens there.
    /// [`SandboxError::NotListening`] where nobody does at either. In a sandbox that stands still it is refused as
    /// [`Sandbox::exec`] is. Bounded: 10 s.
    async fn connect(&self, _port: u16) -> Result<PortStream, SandboxError> {
        Err(unable(Ability::Ports))
    }

    /// A descriptor that can be read once every process of the sandbox is dead (a pidfd), where there is one.
    fn process(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

fn unable(ability: Ability) -> SandboxError {
    SandboxError::Unable {
        who: "this sandbox".to_owned(),
        ability,
    }
}

/// A program that runs in a sandbox. Dropping it does not end the program; [`Execution::kill`],
/// [`Sandbox::close`] or dropping the sandbox does.
#[async_trait]
pub trait Execution: Send + fmt::Debug {
    /// Its number in [`Sandbox::programs`].
    fn number(&self) -> Option<u64> {
        None
    }
    /// Present once, and only where the request asked for [`ExecRequest::terminal`]: then there are no other streams.
    fn take_terminal(&mut self) -> Option<Terminal> {
        None
    }
    /// Present once, and only where the request asked for [`ExecRequest::stdin`].
    fn take_stdin(&mut self) -> Option<BoxWrite>;
    /// Present once.
    fn take_stdout(&mut self) -> Option<BoxRead>;
    /// Present once.
    fn take_stderr(&mut self) -> Option<BoxRead>;
    /// Waits for the program itself (not for what it left running). Cancel safe.
    async fn wait(&mut self) -> Result<Exit, SandboxError>;
    /// Sends a signal to the program's process group; `SIGKILL` reaches also what left the group
    /// where the provider can tell.
    async fn kill(&mut self, signal: i32) -> Result<(), SandboxError>;
}

/// A provider that can mount host directories into a sandbox.
#[async_trait]
pub trait BindMountProvider: Send + Sync + fmt::Debug {
    /// A short name for messages and `list`: "native", "docker" …
    fn name(&self) -> &str;

    /// Refuses limits that this machine cannot give, before anything is made. [`Self::create`] refuses
    /// them too.
    fn check_limits(&self, _limits: &Limits) -> Result<(), SandboxError> {
        Ok(())
    }

    /// Whether it can make a sandbox for a repository at all, before anything is planned or said: an error says what is missing.
    /// [`Self::create`] looks again. `repository`: its main checkout. The image that the sandbox is to be made from
    /// ([`SandboxSpec::image`]), where there are images.
    async fn check(&self, _repository: &RepoPath) -> Result<Option<String>, SandboxError> {
        Ok(None)
    }

    /// What is behind the name of an image now, as a name that will never mean another one. `None`: no such image, or no images.
    async fn pinned(&self, _image: &str) -> Result<Option<String>, SandboxError> {
        Ok(None)
    }

    /// Whether its sandboxes have no program of that name (a plain name or an absolute path), as far as a few looks
    /// at the caller's files tell. `search_path`: the caller's `PATH`.
    fn lacks(&self, _program: &OsStr, _search_path: Option<&OsStr>) -> bool {
        false
    }

    /// What its sandboxes can do. What is not here is refused with [`SandboxError::Unable`] before anything is made.
    fn abilities(&self) -> Abilities {
        Abilities::default()
    }

    /// Tries whether its sandboxes can have layers of directories below `place`, which is there: by a real mount that is
    /// written to. For providers with [`Ability::Layers`]; an error says what is missing. What is made is removed again.
    /// Bounded by the provider.
    async fn try_layers(
        &self,
        _place: &Path,
        _cancel: &CancellationToken,
    ) -> Result<(), SandboxError> {
        Ok(())
    }

    /// Makes one, and returns when it serves. What a failure or `cancel` leaves behind is taken away before this returns.
    async fn create(
        &self,
        spec: &SandboxSpec,
        cancel: &CancellationToken,
    ) -> Result<Arc<dyn Sandbox>, SandboxError>;

    /// A sandbox that outlives its maker, from any process of its user. [`SandboxError::NotRunning`] where it ended.
    async fn open(&self, _handle: &Handle) -> Result<Arc<dyn Sandbox>, SandboxError> {
        self.abilities().require(self.name(), Ability::Outlive)?;
        Err(unable(Ability::Outlive))
    }

    /// A running sandbox as its root has it ([`SandboxSpec::root`]). Its programs have the rights CHOWN, DAC_OVERRIDE, FOWNER, FSETID,
    /// SETUID and SETGID, and all that they started ends with the value that is returned. What is delivered is `files_of`'s: a user's and
    /// a group's id.
    async fn open_as_root(
        &self,
        _handle: &Handle,
        _files_of: (u32, u32),
    ) -> Result<Box<dyn Sandbox>, SandboxError> {
        Err(unable(Ability::Root))
    }

    /// How a running sandbox is kept apart from the host now, as far as that is not the kernel's alone to tell: by whoever
    /// was asked to keep it so.
    async fn examine(&self, _handle: &Handle) -> Result<Vec<Examined>, SandboxError> {
        Ok(Vec::new())
    }

    /// Ends a sandbox that outlives its maker, and frees what it held. Also one that does not answer, and what one
    /// left that ended in whatever way; so it is no error where there is nothing. Bounded: 10 s.
    async fn remove(&self, _handle: &Handle) -> Result<(), SandboxError> {
        self.abilities().require(self.name(), Ability::Outlive)?;
        Err(unable(Ability::Outlive))
    }

    /// For a sandbox that must go though whoever keeps it cannot be asked any more: ends of it what can be ended all the same, and
    /// forgets the rest, so that [`Self::remove`] has nothing to do. Says what may stay, as a sentence; `None`: nothing was done,
    /// because [`Self::remove`] is the way. Its files are left as they are. Bounded: 60 s, and what [`Self::remove`] takes.
    async fn let_go(&self, _handle: &Handle) -> Result<Option<String>, SandboxError> {
        Ok(None)
    }
}

#[async_trait]
impl<T: BindMountProvider + ?Sized> BindMountProvider for Arc<T> {
    async fn examine(&self, handle: &Handle) -> Result<Vec<Examined>, SandboxError> {
        (**self).examine(handle).await
    }

    fn name(&self) -> &str {
        (**self).name()
    }

    fn check_limits(&self, limits: &Limits) -> Result<(), SandboxError> {
        (**self).check_limits(limits)
    }

    async fn check(&self, repository: &RepoPath) -> Result<Option<String>, SandboxError> {
        (**self).check(repository).await
    }

    async fn pinned(&self, image: &str) -> Result<Option<String>, SandboxError> {
        (**self).pinned(image).await
    }

    fn lacks(&self, program: &OsStr, search_path: Option<&OsStr>) -> bool {
        (**self).lacks(program, search_path)
    }

    fn abilities(&self) -> Abilities {
        (**self).abilities()
    }

    async fn try_layers(
        &self,
        place: &Path,
        cancel: &CancellationToken,
    ) -> Result<(), SandboxError> {
        (**self).try_layers(place, cancel).await
    }

    async fn create(
        &self,
        spec: &SandboxSpec,
        cancel: &CancellationToken,
    ) -> Result<Arc<dyn Sandbox>, SandboxError> {
        (**self).create(spec, cancel).await
    }

    async fn open(&self, handle: &Handle) -> Result<Arc<dyn Sandbox>, SandboxError> {
        (**self).open(handle).await
    }

    async fn open_as_root(
        &self,
        handle: &Handle,
        files_of: (u32, u32),
    ) -> Result<Box<dyn Sandbox>, SandboxError> {
        (**self).open_as_root(handle, files_of).await
    }

    async fn remove(&self, handle: &Handle) -> Result<(), SandboxError> {
        (**self).remove(handle).await
    }

    async fn let_go(&self, handle: &Handle) -> Result<Option<String>, SandboxError> {
        (**self).let_go(handle).await
    }
}

/// A provider whose sandboxes have a file system of their own: files are streamed in, and packs out where they have
/// git ([`Ability::Git`]), else what changed ([`Ability::Files`]).
#[async_trait]
pub trait IsolatedProvider: Send + Sync + fmt::Debug {
    /// What it is called, in messages and in records.
    fn name(&self) -> &str;

    /// As [`BindMountProvider::abilities`].
    fn abilities(&self) -> Abilities {
        Abilities::default()
    }

    /// `spec.mounts` is empty.
    async fn create(
        &self,
        spec: &SandboxSpec,
        cancel: &CancellationToken,
    ) -> Result<Arc<dyn IsolatedSandbox>, SandboxError>;

    /// As [`BindMountProvider::open`].
    async fn open(&self, _handle: &Handle) -> Result<Arc<dyn IsolatedSandbox>, SandboxError> {
        self.abilities().require(self.name(), Ability::Outlive)?;
        Err(unable(Ability::Outlive))
    }

    /// As [`BindMountProvider::remove`].
    async fn remove(&self, _handle: &Handle) -> Result<(), SandboxError> {
        self.abilities().require(self.name(), Ability::Outlive)?;
        Err(unable(Ability::Outlive))
    }
}

/// A running sandbox with a file system of its own.
#[async_trait]
pub trait IsolatedSandbox: Sandbox {
    /// Copies the host directory `source` (regular files, directories and symlinks as they are) to
    /// the absolute path `target` inside, owned by the agent user.
    async fn copy_in(&self, source: &Path, target: &Path) -> Result<(), SandboxError> {
        files::copy_in(self, source, target).await
    }
}
