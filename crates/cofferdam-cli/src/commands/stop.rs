//! `cofferdam stop`.

use std::process::ExitCode;

use clap::Args;
use cofferdam::session::SessionError;
use cofferdam::session::living::{self as lives, Condition};

use super::living::{self, Sandboxes};
use crate::environment::Environment;
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::ui::output;

/// End every program in sandboxes; their files and the agent's home stay
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
            let provider = living::provider();
            let name = named.name().clone();
            // One that does not answer is stopped all the same.
            let before = lives::condition(caller, &named, &provider).await;
            if let Err(error @ SessionError::OtherProvider { .. }) = before {
                return Err(error.into());
            }
            // What one left that was killed is cleared away even so.
            lives::stop(caller, &named, &provider).await?;
            output::note(&match before {
                Ok(Condition::Stopped) => format!("{name} is stopped already\n"),
                _ => format!("stopped {name}; it comes back with: cofferdam start {name}\n"),
            });
            Ok(())
        },
    )
    .await
}
