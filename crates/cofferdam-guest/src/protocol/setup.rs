//! What a sandbox is made of: the first frame of all.

use serde::{Deserialize, Serialize};

/// What a sandbox is made of. Paths are bytes: host paths need not be UTF-8.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setup {
    pub hostname: String,
    pub agent: Agent,
    /// Mounted in this order.
    pub mounts: Vec<SetupMount>,
    pub limits: ProcessLimits,
    /// Programs start here unless a request says otherwise.
    pub workdir: Vec<u8>,
    /// Of every program, unless a request adds to it.
    pub environment: Vec<(Vec<u8>, Vec<u8>)>,
    pub network: Network,
    pub lifetime: Lifetime,
    /// A control group of version 2 for the sandbox alone, with one below it ([`super::PROGRAMS_GROUP`]) by which its
    /// programs are stopped. One that cannot be used is as none: [`super::Status`] says so.
    pub group: Option<Vec<u8>>,
    /// What has to be seen where, in namespaces that something else made: looked at before anything else is done.
    pub seen: Vec<Seen>,
    /// What is there beside that, where anything more of the host's is refused.
    pub expected: Option<Expected>,
    /// In a container whose user is root: a child stays that, for the host alone. The listener at which that asks it comes with the
    /// set-up, after the sockets of a wall.
    pub root: bool,
}

/// What the host says to the root of a container after the greetings. [`super::Reply::Ready`] follows, and from then on it is as with
/// any guest that ends with its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AsRoot {
    /// A user's and a group's id: of the files that are delivered.
    pub files_of: (u32, u32),
}

/// One mount of a container, as whoever asked for it knows it: an engine that shows something else, because a name led elsewhere
/// by the time it looked or because it did not do what it was told, is found out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// An absolute path without symlinks, at which a mount begins.
    pub target: Vec<u8>,
    /// `st_dev` and `st_ino` of what is there; none where only the engine could know them.
    pub file: Option<(u64, u64)>,
    pub writable: bool,
    /// It is an ordinary user's overlay, in which the kernel renames no directory of the layers below: programs ask the guest.
    pub asks: bool,
}

/// Of a container, what it has beside what it was given; absolute paths, by which links of an image may lead elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expected {
    /// New file systems in memory.
    pub in_memory: Vec<Vec<u8>>,
    /// Directories that an engine makes for it because its image asks for them.
    pub volumes: Vec<Vec<u8>>,
    /// Major and minor numbers of file systems of the host's of which it has one of its own: `/dev`, and those below it.
    pub hosts: Vec<(u32, u32)>,
}

/// What the executable is asked to do on the host as `attach`: to mount what the agent of a container is to have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attach {
    /// [`Agent::Separate`]: directories and files of root's are to seem that one's, and what lies over one another as well.
    /// [`Agent::Caller`]: directories of an ordinary user's lie over one another in the namespaces of their engine. A descriptor of
    /// one of its processes comes with it, and with [`Reply::Ready`](super::Reply::Ready) one of each mount, in their order.
    pub owner: Agent,
    /// How long what is written through them is of use.
    pub lifetime: Lifetime,
    pub mounts: Vec<Attached>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attached {
    /// [`Source::Path`] or [`Source::Layers`].
    pub source: Source,
    /// Where it is mounted: something of its kind that is there.
    pub place: Vec<u8>,
    /// Where owners cannot be mapped, it is refused only if the agent is to write.
    pub writable: bool,
}

/// How long a sandbox lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Lifetime {
    /// As long as the connection over which it was set up.
    WithConnection,
    /// With its connection until [`super::Request::Stay`], and from then on until [`super::Request::End`]. A bound unix
    /// stream socket comes with the set-up, on which it listens for other processes of the host; after it, if at all, a
    /// descriptor of the socket's file, whose removal ends the sandbox too, and after that an inotify descriptor that tells
    /// when to look.
    UntilEnded,
}

/// What the sandbox's network namespace is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Network {
    /// Its own, with the loopback interface alone.
    None,
    /// Its own; connections and lookups are led to the sockets that come with [`Reply::Ready`].
    Wall,
    /// The host's.
    Open,
}

/// Whose host ids the sandbox's processes have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Agent {
    /// An ordinary caller's own.
    Caller,
    /// The caller is root: these, and what is mounted is mapped to them.
    Separate { uid: u32, gid: u32 },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetupMount {
    pub source: Source,
    pub target: Vec<u8>,
    pub writable: bool,
    /// Left out without a word where the source cannot be opened.
    pub optional: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Source {
    Path(Vec<u8>),
    /// An empty directory that nobody can write.
    Nothing,
    /// What an earlier mount shows at the target already. No symlink is followed.
    Target,
    /// No mount: a symlink of ours with this text.
    Link(Vec<u8>),
    /// An overlay of directories: what is in the first hides what is in those behind it.
    Layers {
        lower: Vec<Vec<u8>>,
        /// Where changes go: a directory with [`UPPER`] and [`WORK`] in it. Without it nothing can be changed, and there
        /// are at least two directories.
        upper: Option<Vec<u8>>,
    },
}

/// In the directory of an overlay's changes: the changes, and what the kernel needs beside them.
pub const UPPER: &str = "upper";
pub const WORK: &str = "work";
/// Begins the name of a directory that becomes another, which has been renamed in an ordinary user's overlay. A number
/// follows. Who was killed meanwhile leaves it, and its files are where they were as well.
pub const UNFINISHED_RENAME: &str = ".cofferdam-unfinished-rename-";

/// Limits that every program inherits. `None` leaves the caller's in force.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessLimits {
    /// Processes and threads of the whole sandbox (`RLIMIT_NPROC` counts inside a user namespace).
    pub processes: Option<u64>,
    /// Of one process.
    pub open_files: Option<u64>,
    /// Bytes of one file.
    pub file_size: Option<u64>,
}
