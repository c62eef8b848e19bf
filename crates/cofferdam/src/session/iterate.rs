//! Work: up to N invocations of the agent in one sandbox, until it signals completion.

use std::collections::BTreeMap;
use std::ffi::OsString;

use futures_util::future::try_join_all;

use super::emitter::Emitter;
use super::error::{ExpressionError, RunErrorKind};
use super::event::Event;
use super::inside::{Inside, InsideError, Output};
use super::options::RunOptions;
use super::plan::{Prompt, TaskPlan};
use super::report::Iteration;
use super::stream::{AgentFailure, Invocation};
use crate::agent::AgentRequest;
use crate::runs::{Recorder, RunIteration};
use crate::sandbox::Sandbox;

/// The most that one shell expression of a template may print: 1 MiB.
const EXPRESSION_OUTPUT: usize = 1 << 20;

/// What the iterations did so far; valid after an error too.
#[derive(Debug, Default)]
pub(super) struct Work {
    /// Everything was ready for the agent.
    pub prepared: bool,
    pub iterations: Vec<Iteration>,
    pub completion: Option<String>,
}

/// Runs the iterations. `work` grows as they end.
pub(super) async fn iterate(
    options: &RunOptions,
    plan: &TaskPlan,
    sandbox: &dyn Sandbox,
    events: &Emitter,
    (work, recorder): (&mut Work, &mut Recorder),
) -> Result<(), RunErrorKind> {
    let (prompt, environment) = (&plan.prompt, &plan.environment);
    let of = options.task.max_iterations.get();
    for iteration in 1..=of {
        if options.caller.cancel.is_cancelled() {
            return Err(RunErrorKind::Cancelled);
        }
        let text = expand(options, prompt, environment, sandbox).await?;
        events.emit(&Event::IterationStarted {
            iteration,
            of,
            prompt_bytes: text.len(),
        });
        let invocation = Invocation {
            sandbox,
            agent: options.task.agent.as_ref(),
            request: AgentRequest {
                prompt: text,
                skip_permissions: true,
                logged_in: plan.login.is_some(),
                environment: environment.clone(),
                ..AgentRequest::default()
            },
            environment,
            signals: &options.task.completion_signals,
            idle_timeout: options.task.idle_timeout,
            grace: options.task.completion_grace,
            iteration,
            events,
            cancel: &options.caller.cancel,
            abandon: &options.caller.abandon,
        };
        let (seen, result) = invocation.run().await;
        let completed = seen.completed.is_some();
        events.emit(&Event::IterationFinished {
            iteration,
            started: seen.started,
            exit: seen.exit,
            completed,
        });
        let known = RunIteration::new(iteration, seen.exit, seen.session.clone(), seen.usage);
        work.iterations.push(Iteration {
            number: iteration,
            exit: seen.exit,
            session: seen.session,
            usage: seen.usage,
            result: seen.result,
        });
        recorder.iteration(known)?;
        match result {
            Ok(()) => {}
            Err(AgentFailure::Cancelled) => return Err(RunErrorKind::Cancelled),
            Err(failure) => {
                let agent = options.task.agent.name().to_owned();
                return Err(RunErrorKind::Agent {
                    agent,
                    iteration,
                    failure,
                });
            }
        }
        if completed {
            work.completion = seen.completed;
            return Ok(());
        }
    }
    Ok(())
}

/// The prompt of one iteration: shell expressions are expanded in the sandbox every time (S2-26).
async fn expand(
    options: &RunOptions,
    prompt: &Prompt,
    environment: &BTreeMap<OsString, OsString>,
    sandbox: &dyn Sandbox,
) -> Result<String, RunErrorKind> {
    let template = match prompt {
        Prompt::Plain(text) => return Ok(text.clone()),
        Prompt::Template(template) => template,
    };
    let outputs = template.expressions().iter().map(|expression| async move {
        let command: &str = &expression.command;
        let inside = Inside {
            sandbox,
            arguments: vec!["/bin/sh".into(), "-c".into(), command.into()],
            directory: None,
            environment,
            limit: options.session.timeouts.expression,
            output: Output::Captured(EXPRESSION_OUTPUT),
        };
        let failed = |exit, reason: String| {
            let command = crate::text::printable(command);
            RunErrorKind::Expression(ExpressionError {
                command,
                exit,
                reason,
            })
        };
        let done = match inside.run(&options.caller.cancel).await {
            Ok(done) => done,
            Err(InsideError::Cancelled) => return Err(RunErrorKind::Cancelled),
            Err(error) => return Err(failed(None, error.to_string())),
        };
        if !done.exit.success() {
            let stderr = String::from_utf8_lossy(&done.stderr);
            let reason = format!(
                "{}\n{}",
                done.exit,
                crate::text::printable(stderr.trim_end())
            );
            return Err(failed(Some(done.exit), reason.trim_end().to_owned()));
        }
        Ok(String::from_utf8_lossy(&done.stdout).trim_end().to_owned())
    });
    let outputs = try_join_all(outputs).await?;
    Ok(template.render(&outputs))
}
