//! What a run gives back, and what is kept of one that fails.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::agent::Usage;
use crate::git::land::Landing;
use crate::git::{CommitLine, Oid};
use crate::names::{SandboxId, Slug};
use crate::process::Exit;
use crate::run_id::RunId;
use crate::wall::Refused;

/// One invocation of the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Iteration {
    /// From 1.
    pub number: u32,
    /// `None`: ended by us (completion grace, cancel).
    pub exit: Option<Exit>,
    /// By which the agent's program can resume it, if it said so.
    pub session: Option<String>,
    /// What it used, as far as its agent said so.
    pub usage: Option<Usage>,
    /// The last final message.
    pub result: Option<String>,
    /// So many files of its conversation were kept; with none, nobody can go on with it elsewhere.
    #[serde(skip)]
    pub kept: usize,
}

/// What a sandbox had beside what landed, and where it is now. Its sandbox stays in `list` until it is
/// deleted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Beside {
    /// How the sandbox's repository named it: branches, tags, stashes. Printable.
    pub names: Vec<String>,
    /// A reference of the repository, or a file or directory of the state directory. Printable.
    pub at: String,
    /// Why it is no reference.
    pub refused: Option<String>,
}

/// So many names tell enough.
const NAMED: usize = 5;

impl std::fmt::Display for Beside {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = format!(
            "commits that are not on the branch ({}",
            self.names[..self.names.len().min(NAMED)].join(", ")
        );
        if self.names.len() > NAMED {
            text.push_str(&format!(" and {} more", self.names.len() - NAMED));
        }
        text.push_str(") ");
        if let Some(why) = &self.refused {
            text.push_str(&format!("did not come home: {why}; they "));
        }
        text.push_str(&format!("are kept at {}", self.at));
        f.write_str(&crate::text::printable_line(&text))
    }
}

/// What all of them used together.
pub(super) fn usage(iterations: &[Iteration]) -> Usage {
    let mut usage = Usage::default();
    iterations
        .iter()
        .filter_map(|iteration| iteration.usage)
        .for_each(|one| usage += one);
    usage
}

/// What a run did.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct RunReport {
    /// By which [`crate::runs`] knows it.
    pub run: Option<RunId>,
    /// By which the sandbox is known; never given twice.
    pub id: SandboxId,
    /// By which people call it.
    pub name: Slug,
    /// The branch that the agent worked on.
    pub source_branch: String,
    /// The branch that was checked out at the start.
    pub target_branch: String,
    /// The source branch where it was made for the sandbox: `delete` removes it.
    pub made_branch: Option<String>,
    /// The commit that the work began at: where the source branch was, or where commits of a sandbox that lives on came home last.
    pub base: Oid,
    /// In their order.
    pub iterations: Vec<Iteration>,
    /// The completion signal that ended the run.
    pub completion: Option<String>,
    /// What the agent gave back, where it was to ([`super::Task::output`]).
    pub output: Option<serde_json::Value>,
    /// Where the commits are now.
    pub landing: Landing,
    /// Commits that are not on the branch.
    pub beside: Vec<Beside>,
    /// What the gate noticed in the commits and let pass, in words.
    pub notes: Vec<String>,
    /// Newest last.
    pub commits: Vec<CommitLine>,
    /// Files that were the user's uncommitted work, and that the agent committed (`head` alone).
    #[serde(serialize_with = "crate::path_json::lossy_list")]
    pub taken: Vec<PathBuf>,
    /// Lines of `git diff --stat` from base to tip, sanitised.
    pub diffstat: String,
    /// Of all iterations together.
    pub usage: Usage,
    /// From the call to its end.
    pub duration: Duration,
    /// Where its log is, if it has one.
    #[serde(serialize_with = "crate::path_json::optional")]
    pub log: Option<PathBuf>,
    /// A worktree with uncommitted work that was left where it is.
    #[serde(serialize_with = "crate::path_json::optional")]
    pub preserved_worktree: Option<PathBuf>,
    /// What the wall refused, most often refused first; bounded. In a sandbox that lives on it is counted since its
    /// gateway took it over.
    pub refused: Vec<Refused>,
    /// How long other programs of a sandbox that lives on stood still while commits came home.
    pub still: Duration,
    /// Such a sandbox could not be stopped for that moment, and was ended.
    pub ended: bool,
}

impl RunReport {
    /// What the agent gave back, as the type that it was to have ([`super::Output::of`]). `None`: it was to give nothing back.
    pub fn output_as<T: DeserializeOwned>(&self) -> Option<Result<T, serde_json::Error>> {
        self.output.clone().map(serde_json::from_value)
    }
}

/// What is kept when a run fails: everything that was made until then.
#[derive(Debug, Clone, Default, Serialize)]
#[non_exhaustive]
pub struct Kept {
    /// As in [`RunReport::run`].
    pub run: Option<RunId>,
    /// By which the sandbox is known, where there was one.
    pub id: Option<SandboxId>,
    /// By which people call it.
    pub name: Option<Slug>,
    /// The branch that the agent worked on.
    pub branch: Option<String>,
    /// What was checked out at the start.
    pub target_branch: Option<String>,
    /// As in [`RunReport::made_branch`].
    pub made_branch: Option<String>,
    /// The commit that the work began at: where the source branch was, or where commits of a sandbox that lives on came home last.
    pub base: Option<Oid>,
    /// `None` with an id: they are still in the sandbox, and `gc` brings them home, or a collecting where it goes on.
    pub landing: Option<Landing>,
    /// The sandbox goes on.
    #[serde(skip)]
    pub lives_on: bool,
    /// Commits that are not on the branch.
    pub beside: Vec<Beside>,
    /// As in [`RunReport::notes`].
    pub notes: Vec<String>,
    /// What came home, newest last.
    pub commits: Vec<CommitLine>,
    /// As in [`RunReport::taken`].
    #[serde(serialize_with = "crate::path_json::lossy_list")]
    pub taken: Vec<PathBuf>,
    /// In their order, the one that failed too.
    pub iterations: Vec<Iteration>,
    /// A worktree with uncommitted work that was left where it is.
    #[serde(serialize_with = "crate::path_json::optional")]
    pub preserved_worktree: Option<PathBuf>,
    /// Where its log is, if it has one.
    #[serde(serialize_with = "crate::path_json::optional")]
    pub log: Option<PathBuf>,
    /// As in [`RunReport::refused`].
    pub refused: Vec<Refused>,
    /// As in [`RunReport::still`].
    pub still: Duration,
    /// As in [`RunReport::ended`].
    pub ended: bool,
}
