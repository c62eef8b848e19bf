//! `cofferdam resume`.

use std::process::ExitCode;

use clap::Args;
use cofferdam::session::Session;
use cofferdam::session::living::Condition;
use cofferdam::session::manage::State;

use super::living::{self, Many};
use crate::environment::Environment;
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::ui::output;

/// Let the programs of paused sandboxes go on
///
/// Rules that changed meanwhile are in force before their first step.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    which: Many,
}

pub(crate) async fn run(
    arguments: &Arguments,
    environment: &Environment,
    interrupt: &Interrupt,
) -> Result<ExitCode, CliError> {
    living::each_of(
        &arguments.which,
        (State::Paused, "no sandbox is paused\n"),
        environment,
        interrupt,
        async |caller, named| {
            let provider = named.provider(caller)?;
            let session = Session::open(caller, named, &provider).await?;
            let name = session.name();
            if session.condition().await? == Condition::Running {
                output::note(&format!("{name} is running already\n"));
                return Ok(());
            }
            session.resume().await?;
            output::note(&format!("resumed {name}\n"));
            Ok(())
        },
    )
    .await
}
