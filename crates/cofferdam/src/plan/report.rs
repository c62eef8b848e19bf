//! What came of a plan and of each of its tasks.

use super::tasks::PlannedTask;
use crate::fsx::FileError;
use crate::git::GitError;
use crate::names::{BranchName, Slug};
use crate::registry::RegistryError;
use crate::session::manage::ManageError;
use crate::session::{RunError, RunReport};

/// What came of a plan.
#[derive(Debug)]
#[non_exhaustive]
pub struct PlanReport {
    /// In the plan's order.
    pub tasks: Vec<TaskReport>,
}

impl PlanReport {
    /// Whether every task has ended well, now or before.
    pub fn is_success(&self) -> bool {
        self.tasks.iter().all(|task| task.end.is_good())
    }
}

/// What came of one task.
#[derive(Debug)]
#[non_exhaustive]
pub struct TaskReport {
    /// Its name in the plan.
    pub name: Slug,
    /// Where its commits are.
    pub branch: BranchName,
    /// Its first agent, where that ended well now.
    pub work: Option<RunReport>,
    /// The one that reviewed, where that ended well now.
    pub review: Option<RunReport>,
    /// New on its branch, of both, also of earlier runs of the plan.
    pub commits: usize,
    /// By which `merge` knows what is on its branch. `None` too where that sandbox is gone.
    pub sandbox: Option<Slug>,
    /// Its commits are merged with `git merge`: no sandbox has its branch any more, and what is checked out lacks commits of it.
    pub merged_by_git: bool,
    /// What became of it.
    pub end: TaskEnd,
}

/// How a task ended.
#[derive(Debug)]
pub enum TaskEnd {
    /// It ended well, now or in an earlier run of the plan.
    Done,
    /// It ended well when the plan was run before; nothing was done now.
    Before,
    /// It did not end well.
    Failed(Failure),
    /// A task that it waits for did not end well.
    Skipped {
        /// The task that did not end well.
        after: Slug,
    },
    /// The plan was cancelled before its turn came.
    NotStarted,
}

impl TaskEnd {
    /// Whether tasks that wait for it may begin.
    pub fn is_good(&self) -> bool {
        matches!(self, Self::Done | Self::Before)
    }
}

/// Why a task did not end well. Its commits are where the error or the landing says.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// Its run did not succeed.
    #[error(transparent)]
    Run(Box<RunError>),
    /// The agent's part went well; its commits are not on the branch.
    #[error("its commits are not on its branch: {}", .0.landing)]
    Landing(Box<RunReport>),
    /// What an earlier run of it left could not be brought home first.
    #[error("what is left of an earlier run is not home: {0}")]
    Left(Box<ManageError>),
    /// What is known of its sandbox cannot be read.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// Its commits are on its branch, and how many they are is not known.
    #[error("git does not say what is on its branch: {0}")]
    Git(#[from] GitError),
    /// How it begins, or that it has ended well, could not be written down.
    #[error(transparent)]
    State(#[from] FileError),
    /// Commits are on its branch; which sandbox made them could not be written down.
    #[error("its commits are on branch `{branch}`, and that could not be written down: {source}")]
    Unwritten {
        /// Where its commits are.
        branch: BranchName,
        /// What was in the way.
        source: FileError,
    },
}

impl TaskReport {
    /// Of one of which nothing was done now.
    pub(super) fn of(task: &PlannedTask, end: TaskEnd) -> Self {
        Self {
            name: task.name.clone(),
            branch: task.branch.clone(),
            work: None,
            review: None,
            commits: 0,
            sandbox: None,
            merged_by_git: false,
            end,
        }
    }
}
