//! What the file can say, and what can be wrong at one place of it.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use cofferdam_wall::{Rule, RuleError};

use super::setting::Setting;
use crate::published::PortError;
use crate::size::{LEAST_MEMORY, written};

/// Where a repository's own file is, below its top.
pub const OF_REPOSITORY: &str = ".cofferdam/config.yaml";

/// The most checks of one file: each may take an hour.
pub(super) const MAX_CHECKS: usize = 16;
/// The most commands after a sync, and the most paths that are hidden or protected.
pub(super) const MAX_COMMANDS: usize = 100;
pub(super) const MAX_PATHS: usize = 1000;

/// The most entries of one file.
pub const MAX_RULES: usize = 200_000;

/// What the file says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// `firewall.allow`; none where the file does not have it.
    pub allow: Option<Vec<LocatedRule>>,
    /// In the file's order.
    pub sync: Vec<Located<SyncRule>>,
    /// Variables of sandboxes, by their names.
    pub env: BTreeMap<String, Located<Variable>>,
    /// In the file's order.
    pub on_sync: Vec<Located<SyncHook>>,
    /// Below a repository's top.
    pub hide: Vec<Located<PathBuf>>,
    /// Below a repository's top.
    pub protect: Vec<Located<PathBuf>>,
    /// For `sh -c`.
    pub setup: Option<Located<String>>,
    /// In the file's order.
    pub checks: Vec<Located<Check>>,
    /// `mcp.repositories`, as they are written: absolute, or below `~/`. The user's own file alone has them.
    pub mcp_repositories: Vec<Located<String>>,
    /// Each key once at most.
    pub settings: Vec<Located<Setting>>,
}

/// A value and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located<T> {
    /// What was said there.
    pub value: T,
    /// From 1.
    pub line: u64,
}

/// What is copied in, and to where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyncRule {
    /// As it is written: a path or a pattern.
    pub src: String,
    /// Where it goes, inside.
    pub dest: Destination,
    /// Bits of rights alone.
    pub mode: u32,
    /// Whose the copy is.
    pub owner: Owner,
}

/// Where something goes inside.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Destination {
    /// Below the agent's home, else below the root.
    pub below_home: bool,
    /// Without `.` and `..`.
    pub path: PathBuf,
    /// It ends with a slash: files keep their names below it.
    pub is_directory: bool,
}

/// The agent's home, below the root.
const AGENT_HOME: &str = "home/agent";

impl Destination {
    /// The one place that it means, without the first slash, however it is written.
    pub fn place(&self) -> PathBuf {
        let home = if self.below_home { AGENT_HOME } else { "" };
        PathBuf::from(home).join(&self.path)
    }

    /// Whether it means what `other` does.
    pub fn is_same(&self, other: &Self) -> bool {
        self.is_directory == other.is_directory && self.place() == other.place()
    }
}

/// Whose a copied file is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Owner {
    /// The user that the agent runs as.
    Agent,
    /// Somebody else inside, as it is written: only a sandbox with such a user takes it.
    Other(String),
}

/// The value of a variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Variable {
    /// This text itself.
    Text(String),
    /// The value that this variable has on this machine.
    OfHost(String),
}

/// A command that runs inside after a sync.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyncHook {
    /// For `sh -c`.
    pub command: String,
    /// What to call it in messages; without a name it is its command.
    pub name: Option<String>,
    /// Whether it runs as root inside, and not as the agent's user.
    pub root: bool,
}

/// A command that must succeed before commits are merged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// For `sh -c`.
    pub command: String,
    /// What to call it in messages; without a name it is its command.
    pub name: Option<String>,
}

impl Check {
    /// What it is called while it runs.
    pub fn label(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.command)
    }
}

impl SyncHook {
    /// What it is called while it runs.
    pub fn label(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.command)
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let begin = if self.below_home { "~/" } else { "/" };
        let end = if self.is_directory && !self.path.as_os_str().is_empty() {
            "/"
        } else {
            ""
        };
        write!(f, "{begin}{}{end}", self.path.display())
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Agent => "agent:agent",
            Self::Other(name) => name,
        })
    }
}

/// A rule and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocatedRule {
    /// What may be reached, or may not.
    pub rule: Rule,
    /// From 1.
    pub line: u64,
}

/// A place in a text file, both from 1, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// Lines from 1.
    pub line: u64,
    /// Characters from 1.
    pub column: u64,
}

/// Bytes of `NAME=value`: with the one that ends it, what the kernel takes (MAX_ARG_STRLEN, execve(2)).
pub(super) const LONGEST_VARIABLE: usize = (128 << 10) - 1;

/// What is wrong at one place of the file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ContentError {
    /// The file is not UTF-8 text.
    #[error("the file is not UTF-8 text")]
    NotUtf8,
    /// No YAML, or another shape than the schema's.
    #[error("{0}")]
    Yaml(String),
    /// The key is there, and null; the text is an example of a value.
    #[error("it has no value: leave it out, or write `{0}`")]
    NoValue(&'static str),
    /// The entry has two targets, and a network rule has one.
    #[error("`domain` and `cidr` in one entry: make two entries of it")]
    Both,
    /// The entry has no target, and a network rule has one.
    #[error("the entry names neither a `domain` nor a `cidr`")]
    Neither,
    /// A key that has to be there is not.
    #[error("`{0}` is missing")]
    Missing(&'static str),
    /// It is blank, or holds a NUL.
    #[error("it is empty, or has a NUL in it")]
    NoText,
    /// A command of more different words than one may have.
    #[error("it has more than {most} different words: put it into a file, and run that", most = super::named::MOST)]
    Words,
    /// It is empty, or holds a NUL.
    #[error("it is no path")]
    NoPath,
    /// `~user/` is not looked up.
    #[error(
        "of home directories only your own has a short name, `~/`: write the whole path, or `./~…` for a file whose name begins so"
    )]
    OtherHome,
    /// `*` and the like where one path is wanted.
    #[error("patterns mean nothing here: name each file, or the directory that they are in")]
    Pattern,
    /// A path inside has to be absolute, or below the home of the agent's user.
    #[error("it is a path in the sandbox: begin it with `/` or `~/`")]
    Destination,
    /// No path of the file has `..` in it.
    #[error("it leads upwards: write it without `..`")]
    Above,
    /// The path leads elsewhere.
    #[error("it is not below the repository's top")]
    NotBelow,
    /// A relative path where it could mean several directories.
    #[error("begin it with `/` or `~/`")]
    NotWhole,
    /// A repository's own file has no say in it.
    #[error("this counts in your own config.yaml alone: see `cofferdam config`")]
    OnlyOwn,
    /// It is not three octal digits, with or without a zero before them.
    #[error("it is no mode such as \"0644\"")]
    Mode,
    /// It has not the form `USER` or `USER:GROUP`.
    #[error("it is no owner such as `agent:agent`")]
    Owner,
    /// As POSIX has it: a shell could not use another one.
    #[error(
        "the name of a variable has letters, digits and `_`, and begins with none of the digits"
    )]
    VariableName,
    /// Name and value are one argument of `execve(2)`.
    #[error("no program can be given so much by a variable: {most} bytes with its name are the most", most = LONGEST_VARIABLE)]
    VariableLength,
    /// What follows `$` is no name of a variable.
    #[error(
        "`$` begins the name of a variable of this machine, such as $HOME: write `$$` for a dollar"
    )]
    HostVariable,
    /// It is none of the words that the key takes, which are listed here.
    #[error("it is none of {0}")]
    NoneOf(&'static str),
    /// No reference of an image has that form.
    #[error("it is no name of an image such as debian:bookworm-slim")]
    Image,
    /// It is no number of bytes, with a unit or without.
    #[error("it is no size such as 512m or 2g")]
    Size,
    /// Less than a sandbox can come up in.
    #[error("a sandbox has {} of memory at least", written(LEAST_MEMORY))]
    Memory,
    /// It is no finite number of at least 0.01.
    #[error("it is no number of CPUs such as 2 or 1.5")]
    Cpus,
    /// It is no whole number from 1.
    #[error("it is no number of at least 1")]
    NotOne,
    /// It is no word without spaces and control characters.
    #[error("it is no name")]
    Word,
    /// The list has more entries than any list of the file may have.
    #[error("more than {MAX_RULES} entries")]
    TooMany,
    /// The list has more entries than this one may have; here is how many that is.
    #[error("more than {0} entries")]
    MoreThan(usize),
    /// A port that cannot be published.
    #[error(transparent)]
    Port(#[from] PortError),
    /// A network rule that is none, or is too wide.
    #[error(transparent)]
    Rule(#[from] RuleError),
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// A problem before it is known which file it is in.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Misplaced {
    pub(crate) at: Position,
    pub(crate) field: String,
    pub(crate) problem: ContentError,
}
