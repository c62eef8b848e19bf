//! What can be wrong with a plan, and why one is not run.

use std::path::PathBuf;

use super::bounds::{MAX_ITERATIONS, MAX_NAME, MAX_PROMPT, MAX_TASKS};
use crate::agent::AgentError;
use crate::config::Position;
use crate::fsx::FileError;
use crate::git::RepositoryError;
use crate::names::{BranchName, NameError, Slug};
use crate::registry::RegistryError;
use crate::text::printable_line;

/// A plan that cannot be used. Nothing of it was begun.
#[derive(Debug, thiserror::Error)]
pub enum PlanFileError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{}:{at}: {}{fault}", path.display(), before(field))]
    Content {
        /// The plan, as its user names it.
        path: PathBuf,
        at: Position,
        /// Such as `tasks[2].branch`; empty where the whole file is meant.
        field: String,
        fault: PlanFault,
    },
}

fn before(field: &str) -> String {
    if field.is_empty() {
        String::new()
    } else {
        format!("{}: ", printable_line(field))
    }
}

/// What is wrong at one place of a plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanFault {
    /// No YAML, or another shape than a plan's.
    #[error("{0}")]
    Yaml(String),
    /// Hooks, variables, network, mounts and limits too: an agent may have written the plan.
    #[error(
        "{0}; a plan has prompts, agents, branches, iterations and order alone, because it may be an agent's work: everything \
         else is an option of the command that runs it"
    )]
    UnknownKey(String),
    #[error("the file is not UTF-8 text")]
    NotUtf8,
    #[error("there is no task")]
    NoTask,
    #[error("more than {MAX_TASKS} tasks")]
    TooMany,
    #[error("it is no name of a task: at most {MAX_NAME} of [a-z0-9-], such as `{0}`")]
    Name(String),
    #[error("task `{0}` is there already")]
    Twice(Slug),
    #[error("give either `prompt` or `prompt_file`")]
    OnePrompt,
    #[error("the prompt is empty")]
    EmptyPrompt,
    #[error("the prompt is larger than {} MiB", MAX_PROMPT >> 20)]
    LongPrompt,
    #[error("`args` are for a `prompt_file`: nothing in a `prompt` is replaced")]
    ArgsWithout,
    #[error("a prompt file is below the plan's directory: write a relative path without `..`")]
    Outside,
    #[error("{0}")]
    PromptFile(String),
    #[error(transparent)]
    Branch(NameError),
    #[error("task `{other}` has branch `{branch}`, and git cannot have both, or not everywhere")]
    BranchTwice { other: Slug, branch: BranchName },
    #[error("there is no task `{0}`")]
    NoSuchTask(String),
    #[error("the tasks wait for one another: {0}")]
    Cycle(String),
    #[error("a task has at most {MAX_ITERATIONS} iterations")]
    Iterations,
    #[error("it is larger than {0} bytes")]
    TooLong(usize),
}

/// A plan was not run. No task of it was begun by this call.
#[derive(Debug, thiserror::Error)]
pub enum PlanRunError {
    /// Somebody else runs it.
    #[error("the same plan is being run by another process")]
    AtWork,
    #[error(
        "task `{task}` has branch `{branch}`, which is checked out: its commits would move what you see"
    )]
    CheckedOut { task: Slug, branch: BranchName },
    #[error("task `{task}`: {source}")]
    Agent { task: Slug, source: AgentError },
    #[error("{} cannot be read: {why}", path.display())]
    Unreadable { path: PathBuf, why: String },
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Repository(#[from] RepositoryError),
    #[error(transparent)]
    Registry(#[from] RegistryError),
    #[error("cancelled")]
    Cancelled,
}
