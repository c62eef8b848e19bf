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
    #[error(transparent)]
    Repository(#[from] RepositoryError),
    #[error(transparent)]
    Registry(#[from] RegistryError),
    #[error(transparent)]
    Git(#[from] GitError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Collect(#[from] CollectError),
    #[error("sandbox `{name}` is running")]
    Running { name: String },
    /// One of an older version, or one whose machine had no room for the socket.
    #[error("sandbox `{name}` is at work in process {process}, which cannot be asked to end it")]
    Unasked { name: String, process: u32 },
    #[error("sandbox `{name}` was interrupted and its commits are not collected yet")]
    Interrupted { name: String },
    #[error("the commits of sandbox `{name}` cannot be brought home: {source}")]
    Uncollectable { name: String, source: CollectError },
    #[error("the merge of sandbox `{name}` was cut short: {source}")]
    HalfMerged { name: String, source: LandError },
    #[error("{}", no_branch(name, branch, *running, beside))]
    NoBranch {
        name: String,
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
        name: String,
        why: String,
        /// Where it is kept.
        pack: Option<PathBuf>,
        /// Its files are there too: somebody can go on in them.
        has_files: bool,
    },
    /// Nothing of it is here, and no git of this machine opens the shelf.
    #[error("what sandbox `{name}` has on {} is only on the shelf", unpushed.branch)]
    Unpushed { name: String, unpushed: Unpushed },
    #[error("HEAD is detached: there is no branch to merge into")]
    DetachedTarget,
    #[error("{}", uncommitted(name, path, files))]
    UncommittedWork {
        name: String,
        path: PathBuf,
        /// Below `path`, printable; none where they were not looked up one by one.
        files: Vec<String>,
    },
    #[error("{} of sandbox `{name}` is only in {}", what_is_kept(path), path.display())]
    KeptWork { name: String, path: PathBuf },
    /// And nothing of the sandbox was to be kept.
    #[error("{}, and `--purge` keeps no way back", on_no_other_branch(name, *commits))]
    OnNoOtherBranch { name: String, commits: u64 },
    /// Without the sandbox nobody could finish it or take it back.
    #[error("a `cofferdam apply {name}` into {} was cut short", checkout.display())]
    Applying { name: String, checkout: PathBuf },
    /// A deletion went as far as this: its programs and its files are gone, and what was on the branch is there.
    #[error("sandbox `{name}` has ended, and its branch `{branch}` is left: {source}")]
    BranchLeft {
        name: String,
        branch: BranchName,
        source: RefError,
    },
    /// Cancelled while waiting for it, or it took too long.
    #[error("another `cofferdam gc` is at work, and has to end first")]
    OtherCleansUp,
    #[error("{} {lost}, and {work}", repository.display())]
    Orphaned {
        id: SandboxId,
        repository: PathBuf,
        lost: Lost,
        /// What it keeps and where, in words.
        work: String,
    },
    /// Of sandboxes whose repositories are gone.
    #[error("{} sandboxes are called `{name}`", ids.len())]
    Ambiguous { name: String, ids: Vec<String> },
    /// Its programs may go on: only its provider can end them, which is not one of this crate's. Nothing was done.
    #[error(
        "sandbox `{name}` is one of the provider `{provider}`, which is not at hand; what did not come home of it is \
         only in {}",
        .path.display()
    )]
    Others {
        name: String,
        id: SandboxId,
        provider: String,
        path: PathBuf,
    },
    /// Its programs go on, and nothing of it can be taken away.
    #[error("sandbox `{name}` cannot be ended: {source}")]
    Alive { name: String, source: SandboxError },
    #[error("no author is known for a merge commit")]
    NoIdentity,
    #[error(transparent)]
    Worktree(#[from] WorktreeError),
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
