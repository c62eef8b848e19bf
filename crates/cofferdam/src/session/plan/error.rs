//! What a plan refuses, before anything is made.

use std::path::PathBuf;

use crate::agent::AgentError;
use crate::names::{BranchName, NameError, Slug};
use crate::sandbox::NetworkKind;
use crate::session::envfile::NotTrusted;
use crate::session::extra::error::ExtraMountError;
use crate::session::holder::Holder;
use crate::session::ports::PortsError;
use crate::volumes::VolumeError;

/// A run that cannot be, found before anything was made.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    #[error(transparent)]
    Name(#[from] NameError),
    #[error(transparent)]
    Volume(#[from] VolumeError),
    #[error("HEAD is detached: there is no branch to merge into")]
    DetachedTarget,
    #[error("`--copy` needs a worktree, and the head strategy works in the checkout itself")]
    CopyWithHead,
    /// A path below the top: the sandbox would have none, or an older one.
    #[error("the {what} `{}` is in no commit as it is now, and the sandbox has committed files only", path.display())]
    Uncommitted { what: &'static str, path: PathBuf },
    #[error("a hook on the host needs the files in a directory, and with layers they are in none")]
    LayerHook,
    /// They were asked for by name.
    #[error("layers are not possible here: {why}")]
    NoLayers { why: String },
    #[error("{} cannot be hidden: {why}", path.display())]
    Hide { path: PathBuf, why: &'static str },
    #[error("{} cannot be protected: {why}", path.display())]
    Protect { path: PathBuf, why: &'static str },
    /// Of the user's file or the repository's.
    #[error("{problem}; it may say how sandboxes are bounded")]
    Unread { problem: String },
    #[error("branch `{branch}` is checked out in {}", at.display())]
    CheckedOut { branch: BranchName, at: PathBuf },
    #[error("`{0}` does not name a commit")]
    UnknownBase(String),
    /// Word for word as the requirements have it (S4-E1).
    #[error("Sandbox '{0}' already exists. Please choose a different name.")]
    NameTaken(Slug),
    /// Another sandbox works on that branch, or left work there that is in no commit.
    #[error("branch `{branch}` is {holder}")]
    BranchHeld { branch: BranchName, holder: Holder },
    #[error(
        "the prompt's template runs commands, and without a sandbox there is no place for them"
    )]
    ExpressionsOnHost,
    #[error("the prompt is empty")]
    EmptyPrompt,
    /// Its terminal interface does not take what it is to begin with.
    #[error(transparent)]
    Request(AgentError),
    #[error("branch `{0}` exists already, and it would be this sandbox's temporary branch")]
    BranchTaken(BranchName),
    #[error("branch `{0}` was made by someone else while this sandbox was")]
    BranchMade(BranchName),
    #[error("branch `{branch}` cannot be made: {detail}")]
    BranchBarred {
        branch: BranchName,
        /// What is in the way, and what to do about it. Printable.
        detail: String,
    },
    #[error("{} is a symlink: the head strategy cannot cover it", .0.display())]
    GitSymlink(PathBuf),
    #[error("Cofferdam's own directory {} is the one for settings in this repository", .0.display())]
    SharedHome(PathBuf),
    #[error("{} is not given to a sandbox: Cofferdam's own directory {} is in it", directory.display(), home.display())]
    ShowsHome { directory: PathBuf, home: PathBuf },
    #[error("{} is not given to a sandbox: it is in Cofferdam's own directory {}", directory.display(), home.display())]
    InHome { directory: PathBuf, home: PathBuf },
    #[error("{} is not given to a sandbox: {why}", directory.display())]
    RefusedWorkspace {
        directory: PathBuf,
        why: &'static str,
    },
    #[error("there are {count} sockets, pipes or devices of other programs in the workspace: {}{}", paths(some), if *count > some.len() { " …" } else { "" })]
    ManySockets { count: usize, some: Vec<PathBuf> },
    #[error("{count} files of the workspace have names outside of it, or run with rights of their owner's, and lie too far apart to be made read-only: {}{}", paths(some), if *count > some.len() { " …" } else { "" })]
    ManyLinks { count: usize, some: Vec<PathBuf> },
    #[error(transparent)]
    Mount(#[from] ExtraMountError),
    #[error(transparent)]
    Ports(#[from] PortsError),
    #[error("an empty completion signal would match everything")]
    EmptySignal,
    #[error("`{variable}` says that the agent's model is at {what}, which is refused: {reason}")]
    ModelRefused {
        variable: &'static str,
        /// Host and port.
        what: String,
        reason: String,
        /// The text of the rule that would open it, if one should.
        opens: Option<String>,
    },
    /// The loopback of a sandbox is its own, and nothing has been started there.
    #[error(
        "`{variable}` says that the agent's model is at {what}, and that is the sandbox itself there"
    )]
    ModelInside {
        variable: &'static str,
        what: String,
        /// Scheme, host and port of the same on this machine, as a sandbox reaches it.
        url: String,
        /// The address goes on after its port. That part may hold a key, and is not shown.
        has_more: bool,
        /// The rule that opens it.
        opens: String,
    },
    #[error("`{variable}` is no http or https address of a model")]
    ModelAddress { variable: &'static str },
    #[error("{agent} has neither a key nor a login: its model would not answer it")]
    NoAccess {
        agent: String,
        /// The variables each of which is enough.
        keys: &'static [&'static str],
        /// The file, relative to a home, in which its program keeps a login.
        login: Option<&'static str>,
        /// The program that makes the login.
        program: Option<String>,
    },
    /// The agent's key is in a file that may be the repository's.
    #[error(
        "{agent} has no key: `.cofferdam/.env` sets {variable}, and no key is taken from it, because {why}"
    )]
    KeyWithheld {
        agent: String,
        variable: String,
        why: NotTrusted,
        /// The repository's.
        top: PathBuf,
    },
    #[error("provider `{provider}` cannot give its sandboxes the network `{}`; it gives {}", asked.as_str(), listed(given))]
    NoSuchNetwork {
        provider: String,
        asked: NetworkKind,
        given: Vec<NetworkKind>,
    },
}

fn paths(paths: &[PathBuf]) -> String {
    let paths: Vec<_> = paths
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    paths.join(", ")
}

fn listed(kinds: &[NetworkKind]) -> String {
    if kinds.is_empty() {
        return "none at all".to_owned();
    }
    let words: Vec<_> = kinds
        .iter()
        .map(|kind| format!("`{}`", kind.as_str()))
        .collect();
    words.join(", ")
}
