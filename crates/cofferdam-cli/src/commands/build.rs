//! `cofferdam build`.

use std::process::ExitCode;

use clap::Args;

use super::images::{self, Builder, For, OfRepository};
use crate::environment::Environment;
use crate::error::CliError;
use crate::interrupt::Interrupt;

/// Build the image of a repository from its `.cofferdam/Dockerfile`
///
/// The commands of a Dockerfile run, and it may have come with the repository. So the command shows it first, with all that
/// the build gets, and wants the digest of what you have read. The build sees nothing else of this machine, and of the
/// network what the rules name.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    of: OfRepository,

    #[command(flatten)]
    builder: Builder,
}

pub(crate) async fn run(
    arguments: &Arguments,
    environment: &Environment,
    interrupt: &Interrupt,
) -> Result<ExitCode, CliError> {
    let asked = arguments.builder.sandbox.map(Into::into);
    let of = &arguments.of;
    images::build_repository(of, asked, For::Anybody, environment, interrupt).await?;
    Ok(ExitCode::SUCCESS)
}
