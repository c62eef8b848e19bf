//! `cofferdam checkout`.

use std::process::ExitCode;

use clap::Args;
use cofferdam::names::BranchName;
use cofferdam::session::provision;
use cofferdam::text::printable_line;

use super::{dev, here, living};
use crate::environment::Environment;
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::ui::output;
use crate::ui::style::{self, paint};

/// Bring a branch to this repository's shelf, with a working tree of its own there; nothing is started
///
/// The shelf is a volume that all dev sandboxes of the checkout see at /repo-shelf. A branch that is there stays as it is. One that is
/// new starts at the branch of that name here, else at the origin's, else where this checkout is.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The branch
    #[arg(value_name = "BRANCH")]
    branch: BranchName,
}

pub(crate) async fn run(
    arguments: &Arguments,
    environment: &Environment,
    interrupt: &Interrupt,
) -> Result<ExitCode, CliError> {
    let caller = living::caller(environment, interrupt);
    let repository = here::repository(environment, interrupt).await?;
    let turn = dev::turn(&caller, &repository.top).await?;
    let branch = &arguments.branch;
    let shelved = Box::pin(provision(&caller, &repository, branch)).await?;
    drop(turn);
    if let Some(line) = shelved.newness(branch) {
        output::note(&format!("note: {}\n", printable_line(&line)));
    }
    output::data(&format!(
        "{}\n",
        printable_line(&shelved.directory.to_string_lossy())
    ))?;
    output::note(&format!(
        "{} {branch} is on the shelf; work on it with: cofferdam shell --branch {branch}\n",
        paint("ready:", style::GOOD, environment.colour.on_stderr())
    ));
    Ok(ExitCode::SUCCESS)
}
