//! `cofferdam pause`.

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

/// Stop every program in sandboxes for a while; their memory stays
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
        (State::Active, "no sandbox is active\n"),
        environment,
        interrupt,
        async |caller, named| {
            let provider = named.provider(caller)?;
            let session = Session::open(caller, named, &provider).await?;
            let name = session.name();
            if session.condition().await? == Condition::Paused {
                output::note(&format!("{name} is paused already\n"));
                return Ok(());
            }
            session.pause().await?;
            output::note(&format!(
                "paused {name}; it goes on with: cofferdam resume {name}\n"
            ));
            Ok(())
        },
    )
    .await
}
