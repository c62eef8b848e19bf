//! One file for each command: its options, and what it does with the library.

pub(crate) mod allow;
mod built_in;
pub(crate) mod completions;
pub(crate) mod delete;
pub(crate) mod demo;
pub(crate) mod diff;
pub(crate) mod doctor;
pub(crate) mod gc;
mod here;
pub(crate) mod list;
pub(crate) mod log;
pub(crate) mod man;
pub(crate) mod merge;
pub(crate) mod net;
pub(crate) mod revoke;
pub(crate) mod run;
mod several;

use std::process::ExitCode;

use clap::CommandFactory;

use crate::arguments::{Arguments, Command};
use crate::environment::Environment;
use crate::error::CliError;
use crate::interrupt::Interrupt;

/// Runs one command.
pub(crate) async fn dispatch(
    command: Command,
    environment: &Environment,
) -> Result<ExitCode, CliError> {
    match command {
        Command::Run(arguments) => run::run(*arguments, environment).await,
        Command::Demo(arguments) => demo::run(&arguments, environment).await,
        Command::Completions(arguments) => completions::run(&arguments, Arguments::command()),
        Command::Man(arguments) => man::run(&arguments, Arguments::command(), environment),
        command => {
            let interrupt = Interrupt::quiet().map_err(CliError::Runtime)?;
            let done = match command {
                Command::List(arguments) => list::run(&arguments, environment, &interrupt).await,
                Command::Diff(arguments) => diff::run(arguments, environment, &interrupt).await,
                Command::Log(arguments) => log::run(arguments, environment, &interrupt).await,
                Command::Merge(arguments) => merge::run(arguments, environment, &interrupt).await,
                Command::Delete(arguments) => delete::run(arguments, environment, &interrupt).await,
                Command::Allow(arguments) => allow::run(&arguments, environment, &interrupt).await,
                Command::Revoke(arguments) => {
                    revoke::run(&arguments, environment, &interrupt).await
                }
                Command::Net(arguments) => net::run(arguments, environment, &interrupt).await,
                Command::Gc(arguments) => gc::run(&arguments, environment, &interrupt).await,
                Command::Doctor(arguments) => {
                    doctor::run(&arguments, environment, &interrupt).await
                }
                Command::Run(_) | Command::Demo(_) | Command::Completions(_) | Command::Man(_) => {
                    return Ok(ExitCode::SUCCESS);
                }
            };
            match (interrupt.code(), done) {
                (Some(code), Err(_)) => Err(CliError::Interrupted { code }),
                (_, done) => done,
            }
        }
    }
}
