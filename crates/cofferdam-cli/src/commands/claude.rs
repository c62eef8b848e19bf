//! `cofferdam claude`.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Args;

use super::agent_program::{self, Opened, Program};
use super::dev::{Build, Which};
use super::making::MadeIn;
use crate::environment::Environment;
use crate::error::CliError;

const PROGRAM: Program = Program {
    name: "claude",
    shown: "Claude Code",
    agent: "claude-code",
};

/// Open Claude Code in a sandbox that stays
///
/// On this terminal, as often as wanted. The sandbox is made where there is none, as `cofferdam create` makes one, and started where
/// it was stopped. What your configuration says is in it; `cofferdam collect`, `diff` and `merge` bring home what is committed.
///
/// Unlike `cofferdam run` it gives Claude Code neither your keys nor a login that is kept. Log in there: that lasts as long as the
/// sandbox. Or `env` of your configuration gives a key to every program, such as `ANTHROPIC_API_KEY: $ANTHROPIC_API_KEY`. In a dev
/// sandbox (`--branch`, or `cofferdam shell` and `claude` there) a login stays for all others.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The sandbox, `claude` unless given; or a directory of the repository that is meant, such as ./there
    #[arg(value_name = "NAME|PATH")]
    meant: Option<OsString>,

    #[command(flatten)]
    which: Which,

    #[command(flatten)]
    build: Build,

    #[command(flatten)]
    made: MadeIn,

    /// Arguments for it
    #[arg(last = true, value_name = "ARGUMENT")]
    words: Vec<OsString>,
}

pub(crate) async fn run(
    arguments: Arguments,
    environment: &Environment,
) -> Result<ExitCode, CliError> {
    let opened = Opened {
        meant: arguments.meant,
        made: arguments.made,
        which: arguments.which,
        build: arguments.build,
        words: arguments.words,
    };
    agent_program::open(&PROGRAM, opened, None, environment).await
}
