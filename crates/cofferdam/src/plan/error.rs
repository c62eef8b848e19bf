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
    /// It could be read, and says what cannot be.
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
    /// Some byte of it is not.
    #[error("the file is not UTF-8 text")]
    NotUtf8,
    /// `tasks` is empty or missing.
    #[error("there is no task")]
    NoTask,
    /// More than a plan has.
    #[error("more than {MAX_TASKS} tasks")]
    TooMany,
    /// It becomes part of a sandbox's name; the text is one that would do.
    #[error("it is no name of a task: at most {MAX_NAME} of [a-z0-9-], such as `{0}`")]
    Name(String),
    /// Names are unique in a plan.
    #[error("task `{0}` is there already")]
    Twice(Slug),
    /// A task has one of them.
    #[error("give either `prompt` or `prompt_file`")]
    OnePrompt,
    /// It is blank.
    #[error("the prompt is empty")]
    EmptyPrompt,
    /// A prompt has a bound, wherever it comes from.
    #[error("the prompt is larger than {} MiB", MAX_PROMPT >> 20)]
    LongPrompt,
    /// Only a template has arguments.
    #[error("`args` are for a `prompt_file`: nothing in a `prompt` is replaced")]
    ArgsWithout,
    /// Nothing is read that the plan does not have beside it.
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
    /// `after` names something else.
    #[error("there is no task `{0}`")]
    NoSuchTask(String),
    /// The names of the tasks, in their order.
    #[error("the tasks wait for one another: {0}")]
    Cycle(String),
    /// More than a task has.
    #[error("a task has at most {MAX_ITERATIONS} iterations")]
    Iterations,
    /// A text of so many bytes is the longest.
    #[error("it is larger than {0} bytes")]
    TooLong(usize),
}

/// A plan was not run. No task of it was begun by this call.
#[derive(Debug, thiserror::Error)]
pub enum PlanRunError {
    /// Somebody else runs it.
    #[error("the same plan is being run by another process")]
    AtWork,
    /// Before any task began.
    #[error(
        "task `{task}` has branch `{branch}`, which is checked out: its commits would move what you see"
    )]
    CheckedOut {
        /// Which task.
        task: Slug,
        /// Its short name.
        branch: BranchName,
    },
    /// Which agent a task has cannot be said.
    #[error("task `{task}`: {source}")]
    Agent {
        /// Which task.
        task: Slug,
        /// What is wrong with it.
        source: AgentError,
    },
    /// What is remembered of earlier runs of the plan.
    #[error("{} cannot be read: {why}", path.display())]
    Unreadable {
        /// The state file.
        path: PathBuf,
        /// A sentence fragment.
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
    /// Its caller had enough before anything began.
    #[error("cancelled")]
    Cancelled,
}
