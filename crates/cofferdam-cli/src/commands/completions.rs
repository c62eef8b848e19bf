//! `cofferdam completions`.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use clap_complete::Shell;

use crate::error::CliError;
use crate::ui::output;

/// Print a completion script for a shell
///
/// For bash: `cofferdam completions bash > ~/.local/share/bash-completion/completions/cofferdam`
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The shell to complete in
    #[arg(value_enum)]
    shell: Choice,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Choice {
    Bash,
    Zsh,
    Fish,
}

/// `root` is the whole tree of commands.
pub(crate) fn run(arguments: &Arguments, mut root: clap::Command) -> Result<ExitCode, CliError> {
    let shell = match arguments.shell {
        Choice::Bash => Shell::Bash,
        Choice::Zsh => Shell::Zsh,
        Choice::Fish => Shell::Fish,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut root, "cofferdam", &mut script);
    output::data(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}
