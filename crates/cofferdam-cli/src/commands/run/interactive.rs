//! `cofferdam interactive`: a run in which its user works with the agent at its own terminal interface.

use std::process::ExitCode;

use clap::Args;

use super::Arguments as Run;
use crate::environment::Environment;
use crate::error::CliError;
use crate::ui::tty;

/// What says something about a run without its user.
const UNFIT: [&str; 16] = [
    "plan",
    "jobs",
    "again",
    "max_iterations",
    "completion_signals",
    "idle_timeout",
    "grace",
    "max_time",
    "max_tokens",
    "max_cost",
    "wait_for_quota",
    "output_tag",
    "output_schema",
    "output_retries",
    "output_file",
    "json",
];

/// What says something about a sandbox.
const OF_SANDBOXES: [&str; 16] = [
    "mode",
    "place",
    "image",
    "runtime",
    "hide",
    "mounts",
    "memory",
    "cpus",
    "pids",
    "network",
    "allow",
    "on_host_ready",
    "on_sandbox_ready",
    "within",
    "keep",
    "login",
];

/// Work with an agent at its own terminal interface, in a sandbox, and bring the commits home
///
/// All is as with `cofferdam run`, but that you are there: the agent's program has your terminal, and the prompt is what it begins with, or
/// is left out. Values that the template needs are asked for. When you leave the program its commits come home, and its exit code is this
/// command's. `cofferdam continue --interactive` goes on with the conversation.
#[derive(Debug, Args)]
#[group(id = "Interactive")]
#[command(mut_args(|argument| {
    let unfit = UNFIT.contains(&argument.get_id().as_str());
    argument.hide(unfit)
}))]
pub(crate) struct Arguments {
    #[command(flatten)]
    run: Run,

    /// Let the agent work on this machine itself, as you do: it asks you before it does something. In this checkout unless a branch
    /// strategy is given
    #[arg(long, conflicts_with_all = OF_SANDBOXES, help_heading = "Sandbox")]
    no_sandbox: bool,
}

pub(crate) async fn run(
    arguments: Arguments,
    environment: &Environment,
) -> Result<ExitCode, CliError> {
    let mut run = arguments.run;
    attend(&mut run)?;
    run.on_host = arguments.no_sandbox;
    Box::pin(super::run_with(run, None, environment)).await
}

/// From now on its user is there.
pub(super) fn attend(run: &mut Run) -> Result<(), CliError> {
    if !tty::is_there() {
        return Err(CliError::Misused {
            message: "standard input is no terminal on which you could work with the agent"
                .to_owned(),
            hint: "without a person it is `cofferdam run`".to_owned(),
        });
    }
    let given = [
        ("--plan", run.plan.is_some()),
        ("--json", run.json),
        ("--max-iterations", run.max_iterations.is_some()),
        ("--max-time", run.max_time.is_some()),
        ("--max-tokens", run.max_tokens.is_some()),
        ("--max-cost", run.max_cost.is_some()),
        ("--wait-for-quota", run.wait_for_quota.is_some()),
        ("--output-tag", run.output_tag.is_some()),
    ];
    if let Some((name, _)) = given.iter().find(|(_, is_given)| *is_given) {
        return Err(CliError::Misused {
            message: format!("`{name}` is about an agent that works by itself"),
            hint: "leave it out, or use `cofferdam run`".to_owned(),
        });
    }
    run.attended = true;
    Ok(())
}
