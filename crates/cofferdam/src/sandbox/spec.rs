//! Plain data that describes a sandbox and a program in it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use cofferdam_guest::protocol::{self, GuestExit};

use super::TerminalSize;
use crate::names::{RepoPath, SandboxId, Slug};
use crate::network::NetworkKind;
use crate::process::Exit;
use crate::wall::WallSpec;

/// Everything a provider needs to make one sandbox.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SandboxSpec {
    /// By which it is known; never given twice.
    pub id: SandboxId,
    /// By which people call it.
    pub slug: Slug,
    /// What it calls itself inside.
    pub hostname: String,
    /// It is called so whatever that costs. Else a provider that has something ready under another name may use that.
    pub named: bool,
    /// Where programs start, an absolute path inside.
    pub workdir: PathBuf,
    /// Mounted in this order: later ones may lie over earlier ones.
    pub mounts: Vec<Mount>,
    /// The environment of every program inside; nothing is inherited from the host.
    pub environment: BTreeMap<OsString, OsString>,
    /// A directory inside in which programs are looked for before all others.
    pub search_first: Option<PathBuf>,
    /// The caller's `PATH`: entries outside the system directories are offered inside where the
    /// provider's built-in list knows them.
    pub search_path: Option<OsString>,
    /// The caller's home directory, which is never visible inside; tools below it may be.
    pub caller_home: Option<PathBuf>,
    /// Programs that the caller's `PATH` may find, to be made visible with what they need and with nothing
    /// else, where the provider shows the host's programs at all.
    pub programs: Vec<HostProgram>,
    /// Host directories that nothing of what the provider offers by itself may show or lie in: Cofferdam's own
    /// one, and the repository with whatever an agent put there.
    pub unseen: Vec<PathBuf>,
    /// Whose sandbox it is.
    pub repository: Option<RepoPath>,
    /// What [`super::BindMountProvider::check`] said that it is made from. Without it a provider with images chooses.
    pub image: Option<String>,
    /// How much it may use.
    pub limits: Limits,
    /// The host may run commands as root inside ([`super::BindMountProvider::open_as_root`]); nobody inside gets its rights. For
    /// providers with [`super::Ability::Root`].
    pub root: bool,
    /// What it may reach.
    pub network: Network,
    /// Whether it outlives its maker.
    pub lifetime: Lifetime,
    /// A directory of the host's for this sandbox alone, 0700, that no sandbox sees: what another process has to know to clear
    /// away what is left of it. Without one a provider whose sandboxes are not its own processes leaves nothing to go by.
    pub place: Option<PathBuf>,
}

impl SandboxSpec {
    /// With nothing mounted, an empty environment, the usual limits, no network, and the life of its maker.
    pub fn new(
        id: SandboxId,
        slug: Slug,
        hostname: impl Into<String>,
        workdir: impl Into<PathBuf>,
    ) -> Self {
        Self {
            id,
            slug,
            hostname: hostname.into(),
            named: false,
            workdir: workdir.into(),
            mounts: Vec::new(),
            environment: BTreeMap::new(),
            search_first: None,
            search_path: None,
            caller_home: None,
            programs: Vec::new(),
            unseen: Vec::new(),
            repository: None,
            image: None,
            limits: Limits::default(),
            root: false,
            network: Network::None,
            lifetime: Lifetime::WithMaker,
            place: None,
        }
    }
}

/// Puts [`SandboxSpec::search_first`] at the beginning of `PATH`.
pub(super) fn search_first(spec: &SandboxSpec, environment: &mut BTreeMap<OsString, OsString>) {
    let Some(first) = &spec.search_first else {
        return;
    };
    let mut path = first.clone().into_os_string();
    if let Some(rest) = environment.get(std::ffi::OsStr::new("PATH")) {
        path.push(":");
        path.push(rest);
    }
    environment.insert("PATH".into(), path);
}

/// How long a sandbox lives.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Lifetime {
    /// As long as the value that [`super::BindMountProvider::create`] gives, and the process that holds it.
    #[default]
    WithMaker,
    /// From [`super::Sandbox::stay`] until [`super::Sandbox::close`] or [`super::BindMountProvider::remove`], or as long as
    /// the machine runs. For providers with [`super::Ability::Outlive`].
    UntilRemoved {
        /// Where the way to it lies: a directory that is there, that its user alone can enter (0700), and that no
        /// sandbox sees.
        state: PathBuf,
    },
}

/// Where a sandbox is found that outlives its maker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handle {
    /// By which it is known.
    pub id: SandboxId,
    /// As in [`Lifetime::UntilRemoved`].
    pub state: PathBuf,
}

/// A program of the host's.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostProgram {
    /// Looked up in the caller's `PATH` where it has no `/`; taken as it is where it is absolute; else it is none
    /// of the host's.
    pub name: OsString,
    /// Directories, relative to the caller's home, which are shown whole where it lies in one of them.
    pub directories: Vec<PathBuf>,
}

/// One host path made visible inside.
#[derive(Debug, Clone)]
pub struct Mount {
    /// A host path. Opened without following a symlink in its last component.
    pub source: MountSource,
    /// An absolute path inside. Created where it does not exist, if its parent is the provider's.
    pub target: PathBuf,
    /// What may be done with it inside.
    pub access: Access,
}

/// What is mounted.
#[derive(Debug, Clone)]
pub enum MountSource {
    /// A host directory or file, with everything mounted below it left out.
    Path(PathBuf),
    /// An empty directory that nobody can write: hides what lies below it.
    Nothing,
    /// Directories that lie over one another: what is in the first hides what is in those behind it. None of them may
    /// change from elsewhere while the sandbox lives.
    Layers {
        /// The topmost first.
        lower: Vec<PathBuf>,
        /// Where changes go: a directory with `upper` and `work` in it, for this sandbox alone. Without it nothing can be
        /// changed, and there are at least two directories.
        upper: Option<PathBuf>,
    },
    /// What an earlier mount shows at the target already: to give it other rights, or to make it a
    /// mount point. Somebody may be writing there, so no symlink may be followed.
    Target,
}

impl MountSource {
    /// The host's files and directories that it shows.
    pub fn shows(&self) -> impl Iterator<Item = &Path> {
        let (one, others): (Option<&PathBuf>, &[PathBuf]) = match self {
            Self::Path(path) => (Some(path), &[]),
            Self::Layers { lower, upper } => (upper.as_ref(), lower),
            Self::Nothing | Self::Target => (None, &[]),
        };
        one.into_iter().chain(others).map(PathBuf::as_path)
    }
}

/// What a mount may be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// It can be looked at; nothing in it changes.
    ReadOnly,
    /// It can be changed, on the host too.
    ReadWrite,
}

/// Bounds of one sandbox. `None` means unlimited.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Limits {
    /// At the same time; threads count as well.
    pub processes: Option<u64>,
    /// Bytes, swap included.
    pub memory: Option<u64>,
    /// CPUs: 1.5 is one and a half.
    pub cpus: Option<f64>,
    /// Open files of one process.
    pub open_files: Option<u64>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            processes: Some(4096),
            memory: None,
            cpus: None,
            open_files: Some(65_536),
        }
    }
}

/// What a sandbox may reach.
#[derive(Debug, Clone, Default)]
pub enum Network {
    /// Its own loopback and nothing else.
    #[default]
    None,
    /// Its own loopback, and through the gateway what its rules name.
    Wall(Box<WallSpec>),
    /// The host's own network: no wall at all.
    Open,
}

impl Network {
    /// The choice, without its rules.
    pub fn kind(&self) -> NetworkKind {
        match self {
            Self::None => NetworkKind::None,
            Self::Wall(_) => NetworkKind::Allowlist,
            Self::Open => NetworkKind::Open,
        }
    }
}

/// One program to run in a sandbox.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ExecRequest {
    /// `argv[0]` is looked up in the sandbox's `PATH` unless it has a `/`.
    pub arguments: Vec<OsString>,
    /// Added to the sandbox's environment.
    pub environment: BTreeMap<OsString, OsString>,
    /// The sandbox's workdir unless given.
    pub directory: Option<PathBuf>,
    /// Whether the caller will write to its standard input; else it reads end of file.
    pub stdin: bool,
    /// It gets a terminal of this size instead of three streams. For providers with [`super::Ability::Terminal`]. What
    /// `TERM` says is the caller's choice.
    pub terminal: Option<TerminalSize>,
    /// It survives the connection over which it was started. For providers with [`super::Ability::Outlive`]; it has
    /// neither input nor a terminal.
    pub detached: Option<Detached>,
}

impl ExecRequest {
    /// In the sandbox's workdir and environment, without input.
    pub fn new(arguments: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        Self {
            arguments: arguments.into_iter().map(Into::into).collect(),
            ..Self::default()
        }
    }
}

/// Where a program that survives its starter leaves what becomes of it. Neither file may be there already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Detached {
    /// Gets its standard output and error as they come, 64 MiB at most.
    pub output: PathBuf,
    /// Gets a text at its end, which [`Detached::read_end`] reads. None comes where the sandbox ends first.
    pub end: PathBuf,
}

impl Detached {
    /// What the file of the end says; `None` as long as it does not.
    pub fn read_end(content: &[u8]) -> Option<Exit> {
        protocol::read_end_text(content).map(|(exit, _)| match exit {
            GuestExit::Code(code) => Exit::Code(code),
            GuestExit::Signal(signal) => Exit::Signal(signal),
        })
    }

    /// How many bytes at the end of the output could not be written, as the file of the end says. What is missing before
    /// that is told in the output.
    pub fn read_lost(content: &[u8]) -> u64 {
        protocol::read_end_text(content).map_or(0, |(_, lost)| lost)
    }
}
