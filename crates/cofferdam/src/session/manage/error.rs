//! What goes wrong with commands on sandboxes.

use std::path::{Path, PathBuf};

use crate::fsx::FileError;
use crate::git::land::LandError;
use crate::git::refs::RefError;
use crate::git::worktree::WorktreeError;
use crate::git::{GitError, Oid, RepositoryError};
use crate::names::{BranchName, SandboxId};
use crate::registry::RegistryError;
use crate::sandbox::SandboxError;
use crate::session::collect::error::CollectError;
use crate::session::on_shelf::Unpushed;

/// Why a command on a sandbox did nothing, or not all of it.
#[derive(Debug, thiserror::Error)]
pub enum ManageError {
    /// The repository cannot be worked in.
    #[error(transparent)]
    Repository(#[from] RepositoryError),
    /// What is known of sandboxes cannot be read or written.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// Git failed on the host.
    #[error(transparent)]
    Git(#[from] GitError),
    /// Something could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// Its commits are not home.
    #[error(transparent)]
    Collect(#[from] CollectError),
    /// A run has it open, and nobody asked that run.
    #[error("sandbox `{name}` is running")]
    Running {
        /// Which sandbox.
        name: String,
    },
    /// Its run cannot be asked to end it: an older version, or one that had no room for the socket.
    #[error("sandbox `{name}` is at work in process {process}, which cannot be asked to end it")]
    Unasked {
        /// Which sandbox.
        name: String,
        /// Its process id.
        process: u32,
    },
    /// Its command died before it collected the commits.
    #[error("sandbox `{name}` was interrupted and its commits are not collected yet")]
    Interrupted {
        /// Which sandbox.
        name: String,
    },
    /// Collecting its commits was tried and failed; they stay where they are.
    #[error("the commits of sandbox `{name}` cannot be brought home: {source}")]
    Uncollectable {
        /// Which sandbox.
        name: String,
        /// What was in the way.
        source: CollectError,
    },
    /// A merge of it was cut short; nothing more is done with it until that is finished.
    #[error("the merge of sandbox `{name}` was cut short: {source}")]
    HalfMerged {
        /// Which sandbox.
        name: String,
        /// What is in the way of finishing it.
        source: LandError,
    },
    /// Nothing of it is on a branch that could be shown or merged.
    #[error("{}", no_branch(name, branch, *running, beside))]
    NoBranch {
        /// Which sandbox.
        name: String,
        /// What its branch was called.
        branch: String,
        /// There may be one at the end of its run.
        running: bool,
        /// Where its run left it, if that commit is still there.
        tip: Option<Oid>,
        /// References with commits of the sandbox that are on no branch.
        beside: Vec<String>,
    },
    /// What its run committed did not pass the gate, and is on no branch.
    #[error("the gate refused what sandbox `{name}` committed: {why}")]
    Refused {
        /// Which sandbox.
        name: String,
        /// What is wrong with it, as a sentence fragment.
        why: String,
        /// Where it is kept.
        pack: Option<PathBuf>,
        /// Its files are there too: somebody can go on in them.
        has_files: bool,
    },
    /// Nothing of it is here, and no git of this machine opens the shelf.
    #[error("what sandbox `{name}` has on {} is only on the shelf", unpushed.branch)]
    Unpushed {
        /// Which sandbox.
        name: String,
        /// What is on the shelf.
        unpushed: Unpushed,
    },
    /// HEAD is detached; nothing is merged into a commit that no branch names.
    #[error("HEAD is detached: there is no branch to merge into")]
    DetachedTarget,
    /// Deleting would lose uncommitted changes, and nobody said that it may.
    #[error("{}", uncommitted(name, path, files))]
    UncommittedWork {
        /// Which sandbox.
        name: String,
        /// Its worktree.
        path: PathBuf,
        /// Below `path`, printable; none where they were not looked up one by one.
        files: Vec<String>,
    },
    /// Deleting would lose what did not come home, and nobody said that it may.
    #[error("{} of sandbox `{name}` is only in {}", what_is_kept(path), path.display())]
    KeptWork {
        /// Which sandbox.
        name: String,
        /// Where that is, in the state directory.
        path: PathBuf,
    },
    /// Its commits are on no other branch, and nothing of the sandbox was to be kept.
    #[error("{}, and `--purge` keeps no way back", on_no_other_branch(name, *commits))]
    OnNoOtherBranch {
        /// Which sandbox.
        name: String,
        /// How many commits.
        commits: u64,
    },
    /// An `apply` was cut short; without the sandbox nobody could finish it or take it back.
    #[error("a `cofferdam apply {name}` into {} was cut short", checkout.display())]
    Applying {
        /// Which sandbox.
        name: String,
        /// The checkout's top.
        checkout: PathBuf,
    },
    /// A deletion went as far as this: its programs and its files are gone, and what was on the branch is there.
    #[error("sandbox `{name}` has ended, and its branch `{branch}` is left: {source}")]
    BranchLeft {
        /// Which sandbox.
        name: String,
        /// Its short name.
        branch: BranchName,
        /// Why it did not move.
        source: RefError,
    },
    /// Cancelled while waiting for it, or it took too long.
    #[error("another `cofferdam gc` is at work, and has to end first")]
    OtherCleansUp,
    /// Where its repository was is none, or another one.
    #[error("{} {lost}, and {work}", repository.display())]
    Orphaned {
        /// By which the sandbox is known.
        id: SandboxId,
        /// Where its repository was.
        repository: PathBuf,
        /// What is there now.
        lost: Lost,
        /// What it keeps and where, in words.
        work: String,
    },
    /// Several sandboxes, whose repositories are gone, have this name.
    #[error("{} sandboxes are called `{name}`", ids.len())]
    Ambiguous {
        /// Their name.
        name: String,
        /// By which each of them is known.
        ids: Vec<String>,
    },
    /// Its programs may go on: only its provider can end them, which is not one of this crate's. Nothing was done.
    #[error(
        "sandbox `{name}` is one of the provider `{provider}`, which is not at hand; what did not come home of it is \
         only in {}",
        .path.display()
    )]
    Others {
        /// Which sandbox.
        name: String,
        /// By which it is known.
        id: SandboxId,
        /// Who made it.
        provider: String,
        /// Its state directory.
        path: PathBuf,
    },
    /// Its programs go on, and nothing of it can be taken away.
    #[error("sandbox `{name}` cannot be ended: {source}")]
    Alive {
        /// Which sandbox.
        name: String,
        /// What the provider said.
        source: SandboxError,
    },
    /// Git has no `user.name` and `user.email` for a merge commit.
    #[error("no author is known for a merge commit")]
    NoIdentity,
    /// The worktree could not be made or removed.
    #[error(transparent)]
    Worktree(#[from] WorktreeError),
    /// A ref did not move.
    #[error(transparent)]
    Refs(#[from] RefError),
}

/// What is in no worktree its user knows as the sandbox.
fn uncommitted(name: &str, path: &Path, files: &[String]) -> String {
    if files.is_empty() {
        format!("sandbox `{name}` has uncommitted changes")
    } else {
        format!("{} has uncommitted changes{}", path.display(), named(files))
    }
}

fn on_no_other_branch(name: &str, commits: u64) -> String {
    match commits {
        1 => format!("1 commit of sandbox `{name}` is on no other branch"),
        count => format!("{count} commits of sandbox `{name}` are on no other branch"),
    }
}

fn and_more(count: usize) -> String {
    match count {
        0 => String::new(),
        count => format!(" and {count} more"),
    }
}

/// So many of them tell what it is about.
const NAMED: usize = 3;

fn named(files: &[String]) -> String {
    let mut text = match files {
        [] => return String::new(),
        [first, ..] => format!(": {first}"),
    };
    for file in files.iter().take(NAMED).skip(1) {
        text.push_str(", ");
        text.push_str(file);
    }
    text.push_str(&and_more(files.len().saturating_sub(NAMED)));
    text
}

fn what_is_kept(path: &Path) -> &'static str {
    match path.extension() {
        Some(end) if end == "pack" => "what did not pass the gate",
        _ => "what did not come home",
    }
}

fn no_branch(name: &str, branch: &str, running: bool, beside: &[String]) -> String {
    if let [first, ..] = beside {
        format!(
            "sandbox `{name}` has nothing on its branch; what it committed elsewhere is at {}{}",
            first,
            and_more(beside.len() - 1)
        )
    } else if running {
        format!("there is no branch `{branch}` of sandbox `{name}` yet")
    } else {
        format!("branch `{branch}` of sandbox `{name}` does not exist any more")
    }
}

/// What is where a sandbox's repository was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lost {
    /// Nothing is there.
    Gone,
    /// One without this commit, from which the agent started.
    Other(Oid),
}

impl std::fmt::Display for Lost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Gone => f.write_str("is no repository any more"),
            Self::Other(base) => write!(
                f,
                "is another repository now (it has no commit {})",
                base.short()
            ),
        }
    }
}
