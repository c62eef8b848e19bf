//! `cofferdam diff`.

use std::process::ExitCode;

use clap::Args;
use cofferdam::session::manage::{self, DiffStyle};

use super::here::target;
use super::living;
use crate::environment::Environment;
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::ui::{output, patch};

/// Show what changed on a sandbox's branch since it started
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The sandbox, as `cofferdam list` names it
    #[arg(value_name = "SANDBOX")]
    name: String,

    /// Changed files with the number of changed lines
    #[arg(long)]
    stat: bool,

    /// Changed files with the kind of change
    #[arg(long, conflicts_with = "stat")]
    name_status: bool,
}

pub(crate) async fn run(
    arguments: Arguments,
    environment: &Environment,
    interrupt: &Interrupt,
) -> Result<ExitCode, CliError> {
    living::refresh(&arguments.name, environment, interrupt).await?;
    let style = if arguments.stat {
        DiffStyle::Stat
    } else if arguments.name_status {
        DiffStyle::NameStatus
    } else {
        DiffStyle::Patch
    };
    let target = target(arguments.name, environment, interrupt);
    let text = manage::diff(&target, style).await?;
    if style == DiffStyle::Patch && environment.colour.on_stdout() {
        output::data(&patch::paint(&text))?;
    } else {
        output::data(&text)?;
    }
    Ok(ExitCode::SUCCESS)
}
