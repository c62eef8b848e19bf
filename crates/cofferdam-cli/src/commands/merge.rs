//! `cofferdam merge`.

use std::process::ExitCode;

use clap::Args;
use cofferdam::session::Landing;
use cofferdam::session::manage::{self, Merge};
use cofferdam::text::printable_line;

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
    let said = |line: &str| output::note(&format!("{}\n", printable_line(line)));
    let Merge { landing, commits } = manage::merge(&target, None, &said).await?;
    let name = &target.name;
    let colour = environment.colour.on_stdout();
    output::data(&match (&landing, commits.len()) {
        (Landing::Nothing, 1..) => summary::merged_already(name, commits.len(), colour),
        _ => summary::merged(&landing, &commits, colour),
    })?;
    match &landing {
        Landing::Nothing if commits.is_empty() => {}
        Landing::Nothing | Landing::Landed { .. } => {
            // The merge is done, and this is advice: a worktree that cannot be read takes nothing of that back.
            if let Ok(stays) = manage::stays(&target).await {
                output::data(&summary::after_landing(stays.as_ref(), name, colour))?;
            }
        }
        Landing::Kept { .. } | Landing::Refused { .. } => {
            if let Some(next) = summary::after_merge(&landing, name) {
                output::data(&format!("next: {next}\n"))?;
            }
        }
    }
    Ok(match landing {
        Landing::Nothing | Landing::Landed { .. } => ExitCode::SUCCESS,
        Landing::Kept { .. } | Landing::Refused { .. } => ExitCode::FAILURE,
    })
}
