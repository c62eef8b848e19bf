//! `cofferdam pause`.

use std::process::ExitCode;

use clap::Args;
use cofferdam::session::Session;
use cofferdam::session::living::Condition;

use super::living::{self, Sandboxes};
use crate::environment::Environment;
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::ui::output;

/// Stop every program in sandboxes for a while; their memory stays
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    sandboxes: Sandboxes,
}

pub(crate) async fn run(
    arguments: &Arguments,
    environment: &Environment,
    interrupt: &Interrupt,
) -> Result<ExitCode, CliError> {
    living::each(
        &arguments.sandboxes,
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
