//! `cofferdam mcp`: sandboxes as tools of the Model Context Protocol. A frontend of sessions, as the command line is: no step of a
//! sandbox's life is written here (docs/decisions/0017-sandboxes-over-mcp.md).

mod changed;
mod create;
mod diff;
mod edit;
mod exec;
mod failure;
mod glob;
mod grep;
mod handler;
mod http;
mod inside;
mod install;
mod kill;
mod list;
mod ls;
mod output;
mod page;
mod ports;
mod read;
mod refused;
mod seats;
mod server;
mod serves;
mod too_long;
mod tool;
mod turns;
mod write;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use rmcp::ServiceExt;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::stdio_pipes;

use crate::environment::Environment;
use crate::error::CliError;
use crate::interrupt::Interrupt;
use handler::Handler;
use serves::Serves;
use too_long::Answered;

/// What a client may take to read the last answers.
const LAST: Duration = Duration::from_secs(2);

/// Let an agent have sandboxes of this repository as tools (Model Context Protocol)
///
/// A client starts it and speaks to it over its standard streams. What an agent does by the tools is in sandboxes, and their commits are
/// on branches of their own: `cofferdam list`, `diff`, `merge` and `delete` are yours.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,

    /// Speak over HTTP instead, at a port of this machine's loopback such as 127.0.0.1:7070; 0 for any that is free
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = address)]
    http: Option<SocketAddr>,

    /// The file with the word that clients have to know, which nobody else may read; one of Cofferdam's own unless given. It is made
    /// where it is missing
    #[arg(long, value_name = "FILE", requires = "http")]
    token_file: Option<PathBuf>,
}

/// An error says what was meant.
fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        let port = text.strip_prefix("localhost:").unwrap_or(text);
        let port: u16 = port.trim_start_matches(':').parse().unwrap_or(7070);
        format!("write an address of this machine's loopback and a port: 127.0.0.1:{port}")
    })
}

#[derive(Debug, Subcommand)]
enum Command {
    Install(install::Install),
}

pub(crate) async fn run(
    arguments: &Arguments,
    environment: &Environment,
    interrupt: &Interrupt,
) -> Result<ExitCode, CliError> {
    if let Some(Command::Install(install)) = &arguments.command {
        return install::run(install, environment, interrupt).await;
    }
    let handler = Handler::new(Serves::here(environment, interrupt).await?);
    if let Some(address) = arguments.http {
        let token = http::token(arguments.token_file.as_deref(), environment)?;
        return http::serve(handler, address, &token, interrupt).await;
    }
    let failed = |message: String| CliError::Failed {
        message,
        hint: "a client of the Model Context Protocol starts it and speaks first".to_owned(),
    };
    let (from, to) = stdio_pipes();
    let transport =
        AsyncRwTransport::new_server(Answered::new(from), to).with_max_line_length(too_long::MOST);
    let running = tokio::select! {
        served = handler.clone().serve(transport) => {
            served.map_err(|error| failed(format!("no client came: {error}")))?
        }
        () = interrupt.cancel.cancelled() => {
            return Ok(interrupt.code().map_or(ExitCode::SUCCESS, ExitCode::from));
        }
    };
    let stop = running.cancellation_token();
    let mut served = std::pin::pin!(running.waiting());
    let is_over = tokio::select! {
        // Its client has gone. What it left in the background goes on.
        _ = &mut served => true,
        () = interrupt.cancel.cancelled() => false,
    };
    handler.end().await;
    stop.cancel();
    if !is_over {
        // For the last answers: a client may read none.
        let _ = tokio::time::timeout(LAST, served).await;
    }
    Ok(interrupt.code().map_or(ExitCode::SUCCESS, ExitCode::from))
}
