//! `cofferdam docker` and `cofferdam podman`: a repository's image in one engine.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use cofferdam::sandbox::engine::Kind;

use super::images::{self, For, OfRepository};
use crate::environment::Environment;
use crate::error::CliError;
use crate::interrupt::Interrupt;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Build the image of a repository, as `cofferdam build` does
    BuildImage(OfRepository),
    /// Remove the image of a repository
    RemoveImage {
        /// The repository; without it the one that you stand in
        #[arg(value_name = "PATH")]
        path: Option<PathBuf>,
    },
}

pub(crate) async fn run(
    kind: Kind,
    arguments: &Arguments,
    environment: &Environment,
    interrupt: &Interrupt,
) -> Result<ExitCode, CliError> {
    match &arguments.command {
        Command::BuildImage(of) => {
            let asked = Some(kind);
            images::build_repository(of, asked, For::Anybody, environment, interrupt).await?;
        }
        Command::RemoveImage { path } => {
            images::remove_repository(path.as_deref(), kind, environment, interrupt).await?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
