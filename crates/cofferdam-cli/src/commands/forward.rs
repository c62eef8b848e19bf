//! `cofferdam forward`.

use std::process::ExitCode;

use clap::Args;
use cofferdam::published::{self, PublishedPort};

use super::living;
use crate::environment::Environment;
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::ui::output;

/// Have ports of this machine lead into a sandbox until Ctrl-C
///
/// On this machine's loopback alone: nobody comes in from another machine, and the sandbox gets nothing of this one by it. A dev sandbox
/// can have ports for as long as it runs: `cofferdam start --publish`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The sandbox, as `cofferdam list` names it, or the path of a checkout, such as `.` for the dev sandbox of this one
    #[arg(value_name = "SANDBOX|PATH")]
    name: String,

    /// A port inside, at the same port of this machine; or 8080:80 for port 80 inside at port 8080 here
    #[arg(required = true, value_name = "[PORT:]PORT")]
    ports: Vec<PublishedPort>,
}

pub(crate) async fn run(
    arguments: Arguments,
    environment: &Environment,
    interrupt: &Interrupt,
) -> Result<ExitCode, CliError> {
    let Arguments { name, ports } = arguments;
    let ports = published::together(ports).map_err(|error| CliError::Misused {
        message: error.to_string(),
        hint: "give each port of this machine one place: `8080:80`".to_owned(),
    })?;
    let caller = living::caller(environment, interrupt);
    let session = living::open(&name, &caller, environment).await?;
    let forwarded = session.forward(&ports).await?;
    let name = session.name();
    for PublishedPort { host, inside } in &ports {
        output::note(&format!(
            "http://127.0.0.1:{host} is port {inside} of {name}\n"
        ));
    }
    output::note("until Ctrl-C\n");
    tokio::select! {
        () = interrupt.cancel.cancelled() => {}
        () = forwarded.ended() => {
            return Err(session.stopped().await.into());
        }
    }
    Ok(interrupt.code().map_or(ExitCode::SUCCESS, ExitCode::from))
}
