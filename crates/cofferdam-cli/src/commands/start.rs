//! `cofferdam start`.

use std::process::ExitCode;

use clap::Args;
use cofferdam::session::living::{self as lives, Condition};
use cofferdam::session::{Caller, Session, SessionError};

use super::keep_ready;
use super::living::{self, Sandboxes};
use crate::environment::Environment;
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::ui::output;

/// Start stopped sandboxes again from their files
///
/// Also after the machine was restarted. No program that ran before comes back.
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
    let caller = living::caller(environment, interrupt);
    for name in &arguments.sandboxes.names {
        if let Err(SessionError::Ended { .. }) = living::named(name, &caller, environment).await {
            living::revived(name, &caller, environment).await?;
        }
    }
    living::each(
        &arguments.sandboxes,
        environment,
        interrupt,
        async |caller, named| {
            let provider = named.provider(caller)?;
            let name = named.name().clone();
            match lives::condition(caller, &named, &provider).await? {
                Condition::Paused => {
                    let name = name.to_string();
                    return Err(SessionError::Paused { name }.into());
                }
                Condition::Stopped => {
                    let start =
                        async |caller: &Caller| lives::start(caller, named, &provider).await;
                    let session = living::shown(caller, environment, start).await??;
                    output::note(&format!(
                        "started {name}; use it with: cofferdam shell {name}\n"
                    ));
                    keep_ready::after_living(session.record());
                }
                _ => {
                    // Its place is kept again where nobody did.
                    Session::open(caller, named, &provider).await?;
                    output::note(&format!("{name} is running already\n"));
                }
            }
            Ok(())
        },
    )
    .await
}
