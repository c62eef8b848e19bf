//! `cofferdam diff`.

use std::path::{Component, Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use cofferdam::session::manage::{self, DiffStyle};

use super::dev;
use super::here::target;
use super::living::{self, Purpose, Uncommitted};
use crate::environment::Environment;
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::ui::shell::shell_word;
use crate::ui::{output, patch};

/// Show what changed on a sandbox's branch since it started
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The sandbox, as `cofferdam list` names it, or the path of a checkout for its dev sandbox, such as `.`
    #[arg(value_name = "SANDBOX|PATH")]
    name: String,

    /// Only these files, and what is in these directories
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,

    /// What lies in its files and is in no commit, instead of its commits
    #[arg(long)]
    uncommitted: bool,

    /// Changed files with the number of changed lines
    #[arg(long)]
    stat: bool,

    /// Changed files with the kind of change
    #[arg(long, conflicts_with = "stat")]
    name_status: bool,
}

pub(crate) async fn run(
    mut arguments: Arguments,
    environment: &Environment,
    interrupt: &Interrupt,
) -> Result<ExitCode, CliError> {
    let (name, there) = dev::by_path(arguments.name, environment, interrupt).await?;
    let environment = there.as_ref().unwrap_or(environment);
    arguments.name = name;
    let paths = arguments
        .paths
        .iter()
        .map(|path| below_top(path, environment));
    let paths = paths.collect::<Result<Vec<PathBuf>, CliError>>()?;
    let mut refreshed = None;
    let rest = if arguments.uncommitted {
        match living::rest(&arguments.name, environment, interrupt).await? {
            Uncommitted::Nothing => return Ok(ExitCode::SUCCESS),
            Uncommitted::Commit { rest, .. } => Some(rest),
            Uncommitted::Worktree(path) => {
                return Err(CliError::Failed {
                    message: format!(
                        "{} has ended, and what it left uncommitted is in a worktree",
                        arguments.name
                    ),
                    hint: format!("see it with `git -C {} status`", shell_word(path)),
                });
            }
        }
    } else {
        refreshed = living::refresh(&arguments.name, Purpose::Look, environment, interrupt).await?;
        None
    };
    let style = if arguments.stat {
        DiffStyle::Stat
    } else if arguments.name_status {
        DiffStyle::NameStatus
    } else {
        DiffStyle::Patch
    };
    let target = target(arguments.name, environment, interrupt);
    let text = if let Some(rest) = &rest {
        manage::diff_rest(&target, rest, &paths, style).await?
    } else {
        let shown = manage::diff_of(&target, &paths, style).await?;
        living::not_in_it(&target.name, &shown, refreshed.as_ref());
        living::tell_uncommitted(&target.name, environment, interrupt).await;
        shown.what
    };
    if style == DiffStyle::Patch && environment.colour.on_stdout() {
        output::data(&patch::paint(&text))?;
    } else {
        output::data(&text)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// From the top of the repository, as it is named from here. It may be in the sandbox alone.
fn below_top(path: &Path, environment: &Environment) -> Result<PathBuf, CliError> {
    let mut plain = PathBuf::new();
    for part in environment.directory.join(path).components() {
        match part {
            Component::ParentDir => _ = plain.pop(),
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    match plain.strip_prefix(environment.top()) {
        Ok(below) if below.as_os_str().is_empty() => Ok(PathBuf::from(".")),
        Ok(below) => Ok(below.to_owned()),
        Err(_) => Err(CliError::Misused {
            message: format!("{} is not in this repository", path.display()),
            hint: "name files of the repository, from where you are".to_owned(),
        }),
    }
}
