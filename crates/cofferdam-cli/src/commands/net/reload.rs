//! `cofferdam net reload`.

use std::process::ExitCode;

use clap::Args;
use cofferdam::wall::allowed::Scope;

use crate::commands::allow::{begin, patiently};
use crate::commands::here::sources;
use crate::environment::Environment;
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::ui::rules::{tell, warn};

/// Put edited rules in force in the sandboxes that are at work
///
/// After an edit of `config.yaml` or of a file that `cofferdam net rules` names. Connections that no
/// rule allows any more are ended.
#[derive(Debug, Args)]
pub(crate) struct Arguments {}

pub(crate) async fn run(
    _: &Arguments,
    environment: &Environment,
    interrupt: &Interrupt,
) -> Result<ExitCode, CliError> {
    let change = begin(environment, interrupt).await?;
    let reached = patiently(change.apply(&Scope::Global)).await?;
    let colour = environment.colour.on_stderr();
    // Sandboxes that start next meet it.
    let problems = sources(None, environment, interrupt).await?.load().problems;
    if reached.sandboxes.is_empty() {
        warn(&problems, colour);
    }
    Ok(if tell(&reached, colour) && problems.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
