//! A template as an agent would get it, without an agent.

use std::collections::BTreeMap;
use std::ffi::OsString;

use super::announce;
use super::discard::discard;
use super::emitter::Emitter;
use super::error::{RunError, RunErrorKind};
use super::event::Notice;
use super::expand::Expanding;
use super::network;
use super::options::{Caller, PromptSource, SessionOptions};
use super::plan::{self, Plan, Prompt};
use super::prepare::{self, Making};
use super::refusals::Refusals;
use super::variables;
use crate::git::own_files;
use crate::names::BranchName;
use crate::prompt::{Position, Substituted};
use crate::registry::{Owned, Strategy};
use crate::sandbox::SandboxError;
use crate::wall;

/// What an agent would be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Preview {
    /// As a run with these options would have them. A branch that a run names itself has another name in each.
    pub source_branch: String,
    /// What the prompt's built-in argument would say: the branch that is checked out.
    pub target_branch: String,
    /// In the order of the template.
    pub parts: Vec<Previewed>,
    /// Arguments that the template does not use.
    pub unused: Vec<String>,
}

/// A part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Previewed {
    /// It stands there as it is.
    Text(String),
    /// A command, whose output would stand there.
    Expression {
        /// A line (or several) for `sh -c`, complete with its values.
        command: String,
        /// Where it begins.
        at: Position,
        /// What it printed. `None`: it was not run.
        output: Option<String>,
    },
}

/// Fills in a template as a run with these options would. Nothing is made, and no shell expression runs.
///
/// With `runs` they do, in a sandbox of these options that is made for them and of which nothing stays: no branch, no commit,
/// no file. It is never the user's checkout: with [`crate::sandbox::BranchStrategy::Head`] it has what is committed there.
pub async fn preview(
    caller: &Caller,
    options: &SessionOptions,
    source: &PromptSource,
    runs: bool,
) -> Result<Preview, RunError> {
    let done = Box::pin(previewed(caller, options, source, runs)).await;
    done.map_err(|kind| RunError {
        kind: if caller.cancel.is_cancelled() {
            RunErrorKind::Cancelled
        } else {
            kind
        },
        kept: Box::default(),
    })
}

async fn previewed(
    caller: &Caller,
    options: &SessionOptions,
    source: &PromptSource,
    runs: bool,
) -> Result<Preview, RunErrorKind> {
    let plan = plan::plan(caller, options).await?;
    let (source_branch, target_branch) = (&plan.source_branch, &plan.target_branch);
    let (prompt, unused) = plan::prompt(source, source_branch, target_branch)?;
    let mut preview = Preview {
        source_branch: source_branch.clone(),
        target_branch: target_branch.clone(),
        parts: Vec::new(),
        unused,
    };
    let template = match prompt {
        Prompt::Plain(text) => {
            preview.parts.push(Previewed::Text(text));
            return Ok(preview);
        }
        Prompt::Template(template) => template,
    };
    let outputs = if runs && !template.expressions().is_empty() {
        let options = match plan.record.strategy {
            Strategy::Head => &beside(options, &plan)?,
            _ => options,
        };
        Some(Box::pin(in_a_sandbox(caller, options, &template)).await?)
    } else {
        None
    };
    preview.parts = parts(&template, outputs);
    Ok(preview)
}

/// The same on a branch of its own, which begins where the checkout is.
fn beside(options: &SessionOptions, plan: &Plan) -> Result<SessionOptions, RunErrorKind> {
    let branch: Result<BranchName, _> = format!("cofferdam/{}", plan.record.name).parse();
    let branch = branch.map_err(plan::PlanError::from)?;
    let mut options = options.clone();
    let base = Some(plan.record.base.to_string());
    options.sandbox = options.sandbox.on_branch(branch, base);
    Ok(options)
}

/// What the expressions print in a sandbox of their own.
async fn in_a_sandbox(
    caller: &Caller,
    options: &SessionOptions,
    template: &Substituted,
) -> Result<Vec<String>, RunErrorKind> {
    let (mut plan, finished) = plan::settled(caller, options).await?;
    plan.record.is_check = true;
    let events = Emitter::sink(caller.events.clone());
    let (environment, withheld) = variables::of_a_session(
        caller,
        &options.environment,
        &plan.repository.clone().into(),
    )
    .await?;
    own_files::ignore(&plan.repository.config_dir())?;
    let mut owned = Owned::create(&caller.home, plan.record.clone())?;
    wall::say_unlogged(&caller.home, &plan.record)?;
    for event in announce::of_a_session(options, &plan, &withheld) {
        events.emit(&event);
    }
    for text in finished {
        events.notice(Notice::Other { text });
    }
    let making = Making {
        caller,
        options,
        plan: &plan,
        events: &events,
        announce: &|_| Vec::new(),
        agent: None,
        login: None,
        environment: &environment,
        lives_on: false,
        bare: None,
    };
    let mut ready = None;
    let made = prepare::or_cancel(&making, &mut owned, &mut ready).await;
    let outputs = match (made, &ready) {
        (Ok(_), Some(ready)) => expand(&making, ready.sandbox(), template, &environment).await,
        (Ok(_), None) => Err(SandboxError::Start("no sandbox".into()).into()),
        (Err(error), _) => Err(error),
    };
    discard(&making, owned, ready).await;
    outputs
}

/// And what the wall refuses them meanwhile is told.
async fn expand(
    making: &Making<'_>,
    sandbox: &dyn crate::sandbox::Sandbox,
    template: &Substituted,
    environment: &BTreeMap<OsString, OsString>,
) -> Result<Vec<String>, RunErrorKind> {
    let caller = making.caller;
    let expanding = Expanding {
        sandbox,
        environment,
        limit: making.options.timeouts.expression,
        cancel: &caller.cancel,
    };
    let mut refusals = Refusals::of(&caller.home, making.plan.record.id);
    let outputs = tokio::select! {
        outputs = expanding.outputs(template) => outputs,
        never = network::watch(sandbox, &mut refusals, making.events) => match never {},
    };
    refusals.tell(making.events);
    outputs
}

fn parts(template: &Substituted, outputs: Option<Vec<String>>) -> Vec<Previewed> {
    let mut outputs = outputs.map(Vec::into_iter);
    let mut expressions = template.expressions().iter();
    let mut parts = Vec::new();
    for text in template.texts() {
        if !text.is_empty() {
            parts.push(Previewed::Text(text.clone()));
        }
        if let Some(one) = expressions.next() {
            parts.push(Previewed::Expression {
                command: one.command.clone(),
                at: one.at,
                output: outputs
                    .as_mut()
                    .map(|outputs| outputs.next().unwrap_or_default()),
            });
        }
    }
    parts
}
