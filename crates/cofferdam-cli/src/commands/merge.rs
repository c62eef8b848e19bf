//! `cofferdam merge`.

use std::process::ExitCode;

use clap::Args;
use cofferdam::session::{Landing, manage};

use super::target;
use crate::environment::Environment;
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::ui::{output, summary};

/// Merge a sandbox's branch into the branch that is checked out
///
/// Nothing moves where the merge conflicts, or where it would touch a file that you changed.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The sandbox, as `cofferdam list` names it
    #[arg(value_name = "SANDBOX")]
    name: String,
}

pub(crate) async fn run(
    arguments: Arguments,
    environment: &Environment,
    interrupt: &Interrupt,
) -> Result<ExitCode, CliError> {
    let target = target(arguments.name, environment, interrupt);
    let landing = manage::merge(&target, None).await?;
    let commits = manage::log(&target).await?;
    let colour = environment.colour.on_stdout();
    let text = match (&landing, commits.len()) {
        (Landing::Nothing, 1..) => summary::merged_already(&target.name, commits.len(), colour),
        _ => summary::landing(&landing, &commits, colour),
    };
    output::data(&text)?;
    if let Some(next) = summary::after_merge(&landing, &target.name) {
        output::data(&format!("next: {next}\n"))?;
    }
    Ok(match landing {
        Landing::Nothing | Landing::Landed { .. } => ExitCode::SUCCESS,
        Landing::Kept { .. } | Landing::Refused { .. } => ExitCode::FAILURE,
    })
}
