//! `cofferdam claude-logout`.

use std::process::ExitCode;

use clap::Args;
use cofferdam::agent::{self, AgentOptions};
use cofferdam::session::forget_login;

use super::claude::PROGRAM;
use super::codex_config::gives_again;
use crate::environment::Environment;
use crate::error::CliError;
use crate::ui::output;

/// Forget the login of Claude Code that dev sandboxes and runs are given
///
/// The copies in sandboxes go too. Its tokens stay good until they are revoked at claude.ai. No login that is made inside is kept from
/// then on, until one is given with `cofferdam run --login FILE`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {}

pub(crate) fn run(environment: &Environment) -> Result<ExitCode, CliError> {
    let claude = agent::by_name(PROGRAM.agent, AgentOptions::default())?;
    let (was_kept, copies) = forget_login(&environment.home, claude.as_ref())?;
    let good = "its tokens stay good until they are revoked at claude.ai";
    output::note(&match (was_kept, copies) {
        (false, 0) => "there is no login of Claude Code\n".to_owned(),
        (_, 0) => format!("forgot the login of Claude Code; {good}\n"),
        (_, copies) => {
            format!("forgot the login of Claude Code, and {copies} of it in sandboxes; {good}\n")
        }
    });
    output::note(&format!(
        "one that is made in a sandbox is not kept until you give one with {}\n",
        gives_again(PROGRAM.agent)
    ));
    Ok(ExitCode::SUCCESS)
}
