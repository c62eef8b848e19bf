//! `cofferdam man`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use clap_mangen::Man;
use cofferdam::fsx::Destination;

use crate::environment::Environment;
use crate::error::CliError;
use crate::ui::output;

/// Print the manual page, or write one for each command into a directory
///
/// To read it: `cofferdam man | man -l -`. To install all of them: `cofferdam man
/// ~/.local/share/man/man1`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Write `cofferdam.1`, `cofferdam-run.1` and so on there
    #[arg(value_name = "DIR")]
    to: Option<PathBuf>,
}

/// `root` is the whole tree of commands.
pub(crate) fn run(
    arguments: &Arguments,
    mut root: clap::Command,
    environment: &Environment,
) -> Result<ExitCode, CliError> {
    root.build();
    let Some(directory) = &arguments.to else {
        let page = page(root)?;
        output::data(&String::from_utf8_lossy(&page))?;
        return Ok(ExitCode::SUCCESS);
    };
    let directory = environment.directory.join(directory);
    let mut waiting = vec![root];
    while let Some(command) = waiting.pop() {
        let named = command.get_display_name().unwrap_or(command.get_name());
        let path = directory.join(format!("{named}.1"));
        let below = command.get_subcommands();
        waiting.extend(below.filter(|one| one.get_name() != "help").cloned());
        Destination::with_directories(&path)?.write(&page(command)?, 0o644)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn page(command: clap::Command) -> std::io::Result<Vec<u8>> {
    let mut page = Vec::new();
    Man::new(command).render(&mut page)?;
    Ok(page)
}
