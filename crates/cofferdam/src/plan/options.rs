//! How a plan is run, and what each of its tasks becomes.

use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::sync::Arc;

use super::error::PlanRunError;
use super::event::PlanSink;
use super::tasks::{AgentChoice, Plan, PlannedTask, Prompt};
use crate::agent::{self, AgentError, AgentOptions, AgentProvider};
use crate::session::{PromptSource, RunOptions};

/// A plan and everything that is not in it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PlanOptions {
    /// What is to be done.
    pub plan: Plan,
    /// What each run has: sandbox, hooks, limits, network, bounds, and where a task names none the agent and its iterations. Name,
    /// branch and prompt are always the task's. Every task and every review is a run: each has the whole [`crate::session::Budget`].
    pub each: RunOptions,
    /// So many tasks are at work at once. Default 2.
    pub jobs: NonZeroUsize,
    /// The most iterations of any task, whatever the plan says.
    pub most_iterations: Option<NonZeroU32>,
    /// Runs tasks too that ended well before.
    pub again: bool,
    /// Who hears of it.
    pub events: PlanSink,
}

impl PlanOptions {
    /// `each`: what every run has where its task says nothing; name, branch and prompt are always the task's.
    pub fn new(plan: Plan, each: RunOptions) -> Self {
        Self {
            plan,
            each,
            jobs: NonZeroUsize::MIN.saturating_add(1),
            most_iterations: None,
            again: false,
            events: PlanSink::default(),
        }
    }
}

/// Who works on a task.
#[derive(Debug)]
pub(super) struct Agents {
    pub(super) work: Arc<dyn AgentProvider>,
    pub(super) review: Option<Arc<dyn AgentProvider>>,
}

impl Agents {
    /// Those that a task names, or the caller's.
    pub(super) fn of(task: &PlannedTask, each: &RunOptions) -> Result<Self, PlanRunError> {
        let refused = |source| PlanRunError::Agent {
            task: task.name.clone(),
            source,
        };
        let work = chosen(&task.agent, &each.task.agent).map_err(refused)?;
        let review = task.review.as_ref();
        let review = review.map(|review| chosen(&review.agent, &work));
        let review = review.transpose().map_err(refused)?;
        Ok(Self { work, review })
    }
}

/// `usual`, but for what is chosen otherwise. Models, efforts and arguments are an agent's own: another agent has none of them.
fn chosen(
    choice: &AgentChoice,
    usual: &Arc<dyn AgentProvider>,
) -> Result<Arc<dyn AgentProvider>, AgentError> {
    let name = choice.agent.as_deref().unwrap_or(usual.name());
    let mut options = if name == usual.name() {
        usual.options()
    } else {
        AgentOptions::default()
    };
    if name == usual.name() && choice.model.is_none() && choice.effort.is_none() {
        return Ok(Arc::clone(usual));
    }
    options.model = choice.model.clone().or(options.model);
    options.effort = choice.effort.clone().or(options.effort);
    agent::by_name(name, options)
}

/// As a run takes it.
pub(super) fn source(prompt: &Prompt) -> PromptSource {
    match prompt {
        Prompt::Text(text) => PromptSource::Inline(text.clone()),
        Prompt::Template {
            file,
            text,
            arguments,
        } => PromptSource::TemplateText {
            name: PathBuf::from(file),
            text: text.clone(),
            arguments: arguments.clone(),
        },
    }
}
