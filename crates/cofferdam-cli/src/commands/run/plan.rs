//! From the command line to the library's options. Reads no file but standard input, and starts nothing.

use std::num::NonZeroU32;
use std::sync::Arc;

use cofferdam::RunOptions;
use cofferdam::agent::{self, AGENTS, AgentError, AgentOptions, AgentProvider};
use cofferdam::sandbox::BranchStrategy;
use cofferdam::session::{PromptSource, RunLog};

use super::arguments::Arguments;
use super::{prompt, wanted};
use crate::commands::attach::Person;
use crate::commands::making::{self, usage};
use crate::environment::Environment;
use crate::error::CliError;

/// The options of one run, without a place for its events.
pub(super) fn options(
    mut arguments: Arguments,
    environment: &Environment,
) -> Result<RunOptions, CliError> {
    let mut options = of_each(&arguments, environment)?;
    if arguments.attended {
        options.task.prompt = prompt::asked(&mut arguments, &environment.directory)?;
        options.task.max_iterations = NonZeroU32::MIN;
        options.task.attendant = Some(Arc::new(Person::new(environment)));
        return Ok(options);
    }
    // Last, because it may wait for another program.
    let (prompt, attached) = prompt::source(&mut arguments, &environment.directory)?;
    if matches!(prompt, PromptSource::None) && !arguments.runs_command() {
        // Known before anything is made; the agent itself would say so only in its sandbox.
        let agent = options.task.agent.name().to_owned();
        return Err(AgentError::NoPrompt { agent }.into());
    }
    options.task.prompt = prompt;
    options.task.attached = attached;
    Ok(options)
}

/// The same without a prompt: what each task of a plan has.
pub(super) fn of_each(
    arguments: &Arguments,
    environment: &Environment,
) -> Result<RunOptions, CliError> {
    let unnamed = if arguments.on_host {
        BranchStrategy::Head
    } else {
        BranchStrategy::MergeToHead
    };
    let sandbox = making::contained(
        &arguments.strategy,
        &arguments.sandbox,
        environment,
        unnamed,
    )?;
    let agent = agent(arguments)?;
    let making = making::session(arguments.sandbox.clone(), environment)?;
    let output = wanted::output(arguments, environment)?;
    let directory = &environment.directory;
    let mut options = RunOptions::new(environment.home.clone(), directory.clone(), agent, sandbox);
    options.caller = environment.caller();
    making.put_into(&mut options.session);
    options.task.login = (arguments.login.as_ref()).map(|path| directory.join(path));
    options.session.name.clone_from(&arguments.name);
    options.task.max_iterations = arguments.max_iterations.unwrap_or(NonZeroU32::MIN);
    options
        .task
        .completion_signals
        .clone_from(&arguments.completion_signals);
    options.task.idle_timeout = arguments.idle_timeout;
    options.task.completion_grace = arguments.grace;
    options.task.output = output;
    options.task.budget.time = arguments.max_time;
    options.task.budget.tokens = arguments.max_tokens;
    options.task.budget.cost_micro_usd = arguments.max_cost;
    options.task.wait_for_quota = arguments.wait_for_quota;
    options.task.log = match (&arguments.log, arguments.no_log) {
        (Some(path), _) => RunLog::File(directory.join(path)),
        (None, true) => RunLog::None,
        (None, false) => RunLog::Default,
    };
    Ok(options)
}

fn agent(arguments: &Arguments) -> Result<std::sync::Arc<dyn AgentProvider>, CliError> {
    if arguments.agent.is_none() && arguments.command.is_empty() {
        let agents: Vec<String> = AGENTS
            .iter()
            .map(|kind| format!("`--agent {}`", kind.name))
            .collect();
        return usage(format!(
            "there is no agent: give `-- COMMAND`, or one of {}",
            agents.join(", ")
        ));
    }
    let mut options = AgentOptions::with_arguments(&arguments.command);
    options.model.clone_from(&arguments.model);
    options.effort.clone_from(&arguments.effort);
    Ok(agent::by_name(
        arguments.agent.as_deref().unwrap_or("command"),
        options,
    )?)
}
