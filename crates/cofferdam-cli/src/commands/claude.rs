//! `cofferdam claude`.

use std::process::ExitCode;

use clap::Args;

use super::agent_program::{self, Opened, Program};
use crate::environment::Environment;
use crate::error::CliError;

pub(super) const PROGRAM: Program = Program {
    name: "claude",
    shown: "Claude Code",
    agent: "claude-code",
};

/// Open Claude Code in a sandbox that stays
///
/// On this terminal, as often as wanted. Without a name in the dev sandbox of the checkout, where there is one and no option says what another is like; else in a sandbox called
/// `claude`, which is made as `cofferdam create` makes one. One that was stopped is started. What your configuration says is in it; `cofferdam collect`, `diff` and `merge` bring home what is committed.
///
/// Unlike `cofferdam run` it gives Claude Code neither your keys nor a login that is kept. Log in there: that lasts as long as the
/// sandbox. Or `env` of your configuration gives a key to every program, such as `ANTHROPIC_API_KEY: $ANTHROPIC_API_KEY`. In a dev
/// sandbox (`--branch`, or `cofferdam shell` and `claude` there) a login stays for all others.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    opened: Opened,
}

pub(crate) async fn run(
    arguments: Arguments,
    environment: &Environment,
) -> Result<ExitCode, CliError> {
    agent_program::open(&PROGRAM, arguments.opened, None, environment).await
}
