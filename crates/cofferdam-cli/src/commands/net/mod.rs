//! `cofferdam net`: what sandboxes asked of the network, and what decides about it.

mod destination;
mod log;
mod reload;
mod rules;
mod test;

use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::environment::Environment;
use crate::error::CliError;
use crate::interrupt::Interrupt;

/// See what sandboxes asked of the network and what decides about it
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Log(log::Arguments),
    Rules(rules::Arguments),
    Test(test::Arguments),
    Reload(reload::Arguments),
}

pub(crate) async fn run(
    arguments: Arguments,
    environment: &Environment,
    interrupt: &Interrupt,
) -> Result<ExitCode, CliError> {
    match arguments.command {
        Command::Log(arguments) => log::run(&arguments, environment, interrupt).await,
        Command::Rules(arguments) => rules::run(&arguments, environment, interrupt).await,
        Command::Test(arguments) => test::run(&arguments, environment, interrupt).await,
        Command::Reload(arguments) => reload::run(&arguments, environment, interrupt).await,
    }
}
