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
    /// A name that nothing can have.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A volume cannot be given.
    #[error(transparent)]
    Volume(#[from] VolumeError),
    /// HEAD is detached; nothing is merged into a commit that no branch names.
    #[error("HEAD is detached: there is no branch to merge into")]
    DetachedTarget,
    /// With the head strategy there is no worktree to copy into.
    #[error("`--copy` needs a worktree, and the head strategy works in the checkout itself")]
    CopyWithHead,
    /// A path below the top: the sandbox would have none, or an older one.
    #[error("the {what} `{}` is in no commit as it is now, and the sandbox has committed files only", path.display())]
    Uncommitted {
        /// What it is for: "prompt file" and the like.
        what: &'static str,
        /// Below the top.
        path: PathBuf,
    },
    /// Such a hook runs before there is a sandbox.
    #[error("a hook on the host needs the files in a directory, and with layers they are in none")]
    LayerHook,
    /// Layers were asked for by name, and are not possible here.
    #[error("layers are not possible here: {why}")]
    NoLayers {
        /// What is lacking, as a sentence fragment.
        why: String,
    },
    /// A path of `hide` in the configuration cannot be hidden.
    #[error("{} cannot be hidden: {why}", path.display())]
    Hide {
        /// Below the top.
        path: PathBuf,
        /// Why, as a sentence fragment.
        why: &'static str,
    },
    /// A path of `protect` in the configuration cannot be protected.
    #[error("{} cannot be protected: {why}", path.display())]
    Protect {
        /// Below the top.
        path: PathBuf,
        /// Why, as a sentence fragment.
        why: &'static str,
    },
    /// The user's `config.yaml` or the repository's cannot be used.
    #[error("{problem}; it may say how sandboxes are bounded")]
    Unread {
        /// What is wrong with it, as a sentence.
        problem: String,
    },
    /// The branch is checked out, and git has a branch in one working tree only.
    #[error("branch `{branch}` is checked out in {}", at.display())]
    CheckedOut {
        /// Its short name.
        branch: BranchName,
        /// The working tree that has it.
        at: PathBuf,
    },
    /// What the branch was to begin at names no commit.
    #[error("`{0}` does not name a commit")]
    UnknownBase(String),
    /// Word for word as the requirements have it (S4-E1).
    #[error("Sandbox '{0}' already exists. Please choose a different name.")]
    NameTaken(Slug),
    /// Another sandbox works on that branch, or left work there that is in no commit.
    #[error("branch `{branch}` is {holder}")]
    BranchHeld {
        /// Its short name.
        branch: BranchName,
        /// Who has it.
        holder: Holder,
    },
    /// They are for a sandbox: their output is the agent's, and their text may be anybody's.
    #[error(
        "the prompt's template runs commands, and without a sandbox there is no place for them"
    )]
    ExpressionsOnHost,
    /// The prompt is blank.
    #[error("the prompt is empty")]
    EmptyPrompt,
    /// Its terminal interface does not take what it is to begin with.
    #[error(transparent)]
    Request(AgentError),
    /// The name of its temporary branch is taken; no branch is overwritten.
    #[error("branch `{0}` exists already, and it would be this sandbox's temporary branch")]
    BranchTaken(BranchName),
    /// Somebody else made the branch meanwhile; nothing is made over it.
    #[error("branch `{0}` was made by someone else while this sandbox was")]
    BranchMade(BranchName),
    /// Git would refuse it, for a branch that is there.
    #[error("branch `{branch}` cannot be made: {detail}")]
    BranchBarred {
        /// Its short name.
        branch: BranchName,
        /// What is in the way, and what to do about it. Printable.
        detail: String,
    },
    /// The `.git` of the checkout, which an agent could lead elsewhere.
    #[error("{} is a symlink: the head strategy cannot cover it", .0.display())]
    GitSymlink(PathBuf),
    /// Cofferdam's own directory is the repository's own place for settings, where whoever commits decides what is in it.
    #[error("Cofferdam's own directory {} is the one for settings in this repository", .0.display())]
    SharedHome(PathBuf),
    /// Cofferdam's own directory is in the workspace: a sandbox would see other sandboxes.
    #[error("{} is not given to a sandbox: Cofferdam's own directory {} is in it", directory.display(), home.display())]
    ShowsHome {
        /// What was to be the workspace.
        directory: PathBuf,
        /// Cofferdam's own directory.
        home: PathBuf,
    },
    /// The workspace is in Cofferdam's own directory: an agent would write where Cofferdam keeps its records.
    #[error("{} is not given to a sandbox: it is in Cofferdam's own directory {}", directory.display(), home.display())]
    InHome {
        /// What was to be the workspace.
        directory: PathBuf,
        /// Cofferdam's own directory.
        home: PathBuf,
    },
    /// The directory is too much of the machine.
    #[error("{} is not given to a sandbox: {why}", directory.display())]
    RefusedWorkspace {
        /// What was to be the workspace.
        directory: PathBuf,
        /// Why, as a sentence fragment.
        why: &'static str,
    },
    /// There are too many sockets, pipes or devices: each would need a mount over it.
    #[error("there are {count} sockets, pipes or devices of other programs in the workspace: {}{}", paths(some), if *count > some.len() { " …" } else { "" })]
    ManySockets {
        /// How many there are.
        count: usize,
        /// Paths of some of them.
        some: Vec<PathBuf>,
    },
    /// There are too many such files: each would need a mount over it.
    #[error("{count} files of the workspace have names outside of it, or run with rights of their owner's, and lie too far apart to be made read-only: {}{}", paths(some), if *count > some.len() { " …" } else { "" })]
    ManyLinks {
        /// How many there are.
        count: usize,
        /// Paths of some of them.
        some: Vec<PathBuf>,
    },
    /// A mount that was asked for cannot be given.
    #[error(transparent)]
    Mount(#[from] ExtraMountError),
    /// A port that was asked for cannot be published.
    #[error(transparent)]
    Ports(#[from] PortsError),
    /// It is empty.
    #[error("an empty completion signal would match everything")]
    EmptySignal,
    /// Without its model the agent does nothing.
    #[error("`{variable}` says that the agent's model is at {what}, which is refused: {reason}")]
    ModelRefused {
        /// The variable of the agent's.
        variable: &'static str,
        /// Host and port.
        what: String,
        /// Why the network refuses it, as a sentence fragment.
        reason: String,
        /// The text of the rule that would open it, if one should.
        opens: Option<String>,
    },
    /// The loopback of a sandbox is its own, and nothing has been started there.
    #[error(
        "`{variable}` says that the agent's model is at {what}, and that is the sandbox itself there"
    )]
    ModelInside {
        /// The variable of the agent's.
        variable: &'static str,
        /// Where it leads, as people write it.
        what: String,
        /// Scheme, host and port of the same on this machine, as a sandbox reaches it.
        url: String,
        /// The address goes on after its port. That part may hold a key, and is not shown.
        has_more: bool,
        /// The rule that opens it.
        opens: String,
    },
    /// Refused now; the agent would fail on it later.
    #[error("`{variable}` is no http or https address of a model")]
    ModelAddress {
        /// The variable of the agent's.
        variable: &'static str,
    },
    /// Neither a variable nor a login file lets it in.
    #[error("{agent} has neither a key nor a login: its model would not answer it")]
    NoAccess {
        /// The agent's name.
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
        /// The agent's name.
        agent: String,
        /// The variable of the key.
        variable: String,
        /// Why the file may be the repository's.
        why: NotTrusted,
        /// The repository's.
        top: PathBuf,
    },
    /// Its sandboxes would reach more, or less, than was asked for.
    #[error("provider `{provider}` cannot give its sandboxes the network `{}`; it gives {}", asked.as_str(), listed(given))]
    NoSuchNetwork {
        /// What it is called.
        provider: String,
        /// What was asked for.
        asked: NetworkKind,
        /// What there is.
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
