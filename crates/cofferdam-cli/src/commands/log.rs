//! `cofferdam log`.

use std::process::ExitCode;

use clap::Args;
use cofferdam::session::manage;

use super::dev;
use super::here::target;
use super::living::{self, Purpose};
use crate::environment::Environment;
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::ui::{json, output, summary};

/// List the commits on a sandbox's branch since it started, newest last
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The sandbox, as `cofferdam list` names it, or the path of a checkout for its dev sandbox, such as `.`
    #[arg(value_name = "SANDBOX|PATH")]
    name: String,

    /// A list of objects with `id` and `subject`
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(
    mut arguments: Arguments,
    environment: &Environment,
    interrupt: &Interrupt,
) -> Result<ExitCode, CliError> {
    let (name, there) = dev::by_path(arguments.name, environment, interrupt).await?;
    let environment = there.as_ref().unwrap_or(environment);
    arguments.name = name;
    let refreshed = living::refresh(&arguments.name, Purpose::Look, environment, interrupt).await?;
    let target = target(arguments.name, environment, interrupt);
    let shown = manage::log(&target).await?;
    living::not_in_it(&target.name, &shown, refreshed.as_ref());
    living::tell_uncommitted(&target.name, environment, interrupt).await;
    let commits = shown.what;
    if arguments.json {
        output::data(&json::line(&commits)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let colour = environment.colour.on_stdout();
    let lines: Vec<String> = commits
        .iter()
        .map(|commit| summary::commit_line(commit, colour) + "\n")
        .collect();
    output::data(&lines.concat())?;
    Ok(ExitCode::SUCCESS)
}
