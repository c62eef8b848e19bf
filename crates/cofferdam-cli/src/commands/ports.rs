//! `cofferdam ports`.

use std::process::ExitCode;

use clap::Args;
use serde::Serialize;

use super::living;
use crate::environment::Environment;
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::ui::{json, output, table};

/// Tell on which TCP ports servers in a sandbox listen
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The sandbox, as `cofferdam list` names it, or the path of a checkout, such as . for the dev sandbox of this one
    #[arg(value_name = "SANDBOX|PATH")]
    name: String,

    /// A list of objects, one for each port
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Port {
    inside: u16,
    /// Of this machine, where one leads there as long as it runs.
    host: Option<u16>,
}

pub(crate) async fn run(
    arguments: &Arguments,
    environment: &Environment,
    interrupt: &Interrupt,
) -> Result<ExitCode, CliError> {
    let caller = living::caller(environment, interrupt);
    let session = living::open(&arguments.name, &caller, environment).await?;
    let (published, unpublished) = (&session.record().ports, session.unpublished()?);
    let listening = session.listening().await?;
    let ports: Vec<Port> = listening
        .into_iter()
        .map(|inside| Port {
            inside,
            host: (published.iter())
                // Where somebody else listens there, it leads to them.
                .filter(|port| !unpublished.iter().any(|one| one.port == port.host))
                .find(|port| port.inside.get() == inside)
                .map(|port| port.host.get()),
        })
        .collect();
    if arguments.json {
        output::data(&json::line(&ports)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let name = session.name();
    if ports.is_empty() {
        output::note(&format!("nothing in {name} listens on a TCP port\n"));
        return Ok(ExitCode::SUCCESS);
    }
    let rows: Vec<Vec<String>> = ports
        .iter()
        .map(|port| {
            let here = match port.host {
                Some(host) => format!("http://127.0.0.1:{host}"),
                None => format!("cofferdam forward {name} {}", port.inside),
            };
            vec![port.inside.to_string(), here]
        })
        .collect();
    output::data(&table::render(&["PORT", "FROM HERE"], &rows))?;
    Ok(ExitCode::SUCCESS)
}
