//! `cofferdam worktree`.

use std::process::ExitCode;

use clap::Args;
use cofferdam::session::manage;

use super::here::target;
use super::living::{self, Uncommitted};
use crate::environment::Environment;
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::ui::output;
use crate::ui::shell::shell_word;

/// Make a real worktree of what a sandbox left, committed and uncommitted, and print its path
///
/// For one that has ended. The worktree is on the sandbox's branch, and goes with the sandbox: `cofferdam delete` removes it.
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
    let caller = living::caller(environment, interrupt);
    let found = living::named_if_it_lives_on(&arguments.name, &caller, environment).await?;
    if let Some(named) = found {
        let name = named.name();
        return Err(CliError::Failed {
            message: format!(
                "sandbox `{name}` stays until you delete it, and goes on with its files"
            ),
            hint: format!(
                "bring its work here with `cofferdam apply {name}`, or its commits with `cofferdam merge {name}`"
            ),
        });
    }
    let (rest, whole) = match living::rest(&arguments.name, environment, interrupt).await? {
        Uncommitted::Commit { rest, whole } => (Some(rest), whole),
        Uncommitted::Nothing | Uncommitted::Worktree(_) => (None, false),
    };
    let target = target(arguments.name, environment, interrupt);
    let path = manage::worktree(&target, rest, whole).await?;
    output::data(&format!("{}\n", shell_word(path)))?;
    Ok(ExitCode::SUCCESS)
}
