//! `cofferdam shell`.

use std::process::ExitCode;

use clap::Args;
use cofferdam::session::SessionExec;

use super::attach::{self, Attached};
use super::exec::give_terminal;
use crate::environment::Environment;
use crate::error::CliError;

/// One question and its answer in one start: the first shell that is inside. Zsh would ask a person without a
/// configuration whether they want one.
const SHELL: &str = "SHELL=$(command -v zsh || command -v bash || command -v sh); export SHELL
case $SHELL in *zsh) [ -e \"$HOME/.zshrc\" ] || : > \"$HOME/.zshrc\";; esac
exec \"$SHELL\" -i";

/// Open a shell in a sandbox that stays: zsh, bash or sh, whichever is inside
///
/// As often as wanted, several at once. Leaving it leaves the sandbox as it is.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The sandbox, as `cofferdam list` names it
    #[arg(value_name = "SANDBOX")]
    name: String,
}

pub(crate) async fn run(
    arguments: Arguments,
    environment: &Environment,
) -> Result<ExitCode, CliError> {
    let mut exec = SessionExec::new(["sh", "-c", SHELL]);
    give_terminal(&mut exec, environment).map_err(|_| CliError::Misused {
        message: "a shell needs a terminal, and standard input is none".to_owned(),
        hint: format!(
            "run a script with `cofferdam exec -i {} -- sh`",
            crate::ui::shell::shell_word(&arguments.name)
        ),
    })?;
    attach::run(Attached {
        name: &arguments.name,
        exec,
        environment,
    })
    .await
}
