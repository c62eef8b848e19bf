//! `cofferdam init`.

use std::process::ExitCode;

use clap::Args;
use cofferdam::{config, fsx};

use crate::environment::Environment;
use crate::error::CliError;
use crate::ui::output;
use crate::ui::shell::shell_word;

/// Write a configuration of your own: the built-in list of destinations, and a directory for your files
///
/// What is there already is left as it is.
#[derive(Debug, Args)]
pub(crate) struct Arguments {}

pub(crate) fn run(environment: &Environment) -> Result<ExitCode, CliError> {
    let home = &environment.home;
    let failed = |error: fsx::FileError| CliError::Failed {
        message: error.to_string(),
        hint: "COFFERDAM_HOME names another directory for it".to_owned(),
    };
    fsx::private_dir(home.path()).map_err(failed)?;
    fsx::private_dir(&home.files()).map_err(failed)?;
    let (file, files) = (shell_word(home.config()), shell_word(home.files()));
    let text = config::initial().map_err(|error| CliError::Failed {
        message: error.to_string(),
        hint: "this is a mistake of cofferdam itself".to_owned(),
    })?;
    if fsx::write_new(&home.config(), text.as_bytes()).map_err(failed)? {
        output::note(&format!(
            "wrote {file}: what sandboxes may reach, and how to say more\n"
        ));
    } else {
        output::note(&format!("{file} is there already, and stays as it is\n"));
    }
    output::note(&format!(
        "files in {files} go to the agent's home in every sandbox\n"
    ));
    Ok(ExitCode::SUCCESS)
}
