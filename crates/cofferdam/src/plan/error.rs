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
    /// It could not be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// It could be read, and something in it is wrong.
    #[error("{}:{at}: {}{fault}", path.display(), before(field))]
    Content {
        /// The plan, as its user names it.
        path: PathBuf,
        /// Where in it.
        at: Position,
        /// Such as `tasks[2].branch`; empty where the whole file is meant.
        field: String,
        /// What is wrong there.
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
    /// The file is not UTF-8 text.
    #[error("the file is not UTF-8 text")]
    NotUtf8,
    /// `tasks` is empty or missing.
    #[error("there is no task")]
    NoTask,
    /// There are more tasks than a plan may have.
    #[error("more than {MAX_TASKS} tasks")]
    TooMany,
    /// It is no task's name, which becomes part of a sandbox's; the text is one that would do.
    #[error("it is no name of a task: at most {MAX_NAME} of [a-z0-9-], such as `{0}`")]
    Name(String),
    /// Another task of the plan has that name.
    #[error("task `{0}` is there already")]
    Twice(Slug),
    /// The task has both of them, or neither.
    #[error("give either `prompt` or `prompt_file`")]
    OnePrompt,
    /// The prompt is blank.
    #[error("the prompt is empty")]
    EmptyPrompt,
    /// The prompt is larger than any may be, wherever it comes from.
    #[error("the prompt is larger than {} MiB", MAX_PROMPT >> 20)]
    LongPrompt,
    /// Only a template has arguments.
    #[error("`args` are for a `prompt_file`: nothing in a `prompt` is replaced")]
    ArgsWithout,
    /// The prompt file is not below the plan's directory.
    #[error("a prompt file is below the plan's directory: write a relative path without `..`")]
    Outside,
    /// The prompt file cannot be read, or is no template.
    #[error("{0}")]
    PromptFile(String),
    /// The name of a branch that git would not take.
    #[error(transparent)]
    Branch(NameError),
    /// Two tasks cannot commit to one branch at once.
    #[error("task `{other}` has branch `{branch}`, and git cannot have both, or not everywhere")]
    BranchTwice {
        /// The one that stands before it.
        other: Slug,
        /// Its short name.
        branch: BranchName,
    },
    /// `after` names a task that is not in the plan.
    #[error("there is no task `{0}`")]
    NoSuchTask(String),
    /// Tasks wait for one another: their names, in their order.
    #[error("the tasks wait for one another: {0}")]
    Cycle(String),
    /// It has more iterations than a task may have.
    #[error("a task has at most {MAX_ITERATIONS} iterations")]
    Iterations,
    /// It is longer than this many bytes.
    #[error("it is larger than {0} bytes")]
    TooLong(usize),
}

/// A plan was not run. No task of it was begun by this call.
#[derive(Debug, thiserror::Error)]
pub enum PlanRunError {
    /// Somebody else runs it.
    #[error("the same plan is being run by another process")]
    AtWork,
    /// A task's branch is checked out; no task began.
    #[error(
        "task `{task}` has branch `{branch}`, which is checked out: its commits would move what you see"
    )]
    CheckedOut {
        /// Which task.
        task: Slug,
        /// Its short name.
        branch: BranchName,
    },
    /// A task's agent cannot be had as it was asked for.
    #[error("task `{task}`: {source}")]
    Agent {
        /// Which task.
        task: Slug,
        /// What is wrong with it.
        source: AgentError,
    },
    /// What is remembered of earlier runs of the plan cannot be read.
    #[error("{} cannot be read: {why}", path.display())]
    Unreadable {
        /// The state file.
        path: PathBuf,
        /// Why, as a sentence fragment.
        why: String,
    },
    /// Something could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// The repository cannot be worked in.
    #[error(transparent)]
    Repository(#[from] RepositoryError),
    /// Nobody can say which sandboxes there are.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The caller cancelled it before anything began.
    #[error("cancelled")]
    Cancelled,
}
