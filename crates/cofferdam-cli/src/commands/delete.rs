//! `cofferdam delete`.

use std::process::ExitCode;

use clap::Args;
use cofferdam::session::manage::{self, DeleteOptions};
use cofferdam::text::printable_line;

use super::here::target;
use crate::environment::Environment;
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::ui::shell::shell_word;
use crate::ui::{output, recovered};

/// Delete sandboxes; what they committed can be brought back for 30 days
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The sandboxes to delete, as `cofferdam list` names them
    #[arg(required = true, value_name = "SANDBOX")]
    names: Vec<String>,

    /// Also where work of the agent would be lost: uncommitted, or refused by the gate
    #[arg(long)]
    force: bool,

    /// Keep nothing: no way back to commits that are on no other branch
    #[arg(long)]
    purge: bool,
}

pub(crate) async fn run(
    arguments: Arguments,
    environment: &Environment,
    interrupt: &Interrupt,
) -> Result<ExitCode, CliError> {
    let targets: Vec<_> = arguments
        .names
        .into_iter()
        .map(|name| target(name, environment, interrupt))
        .collect();
    // A mistyped name must not leave half of them deleted.
    for target in &targets {
        target.check().await?;
    }
    for target in targets {
        let options = DeleteOptions {
            force: arguments.force,
            purge: arguments.purge,
        };
        if let Some(one) = manage::bring_home(&target, options).await? {
            output::note(&format!("{}\n", recovered::line(&one)));
            if one.ended {
                output::note(&format!("deleted {}\n", printable_line(&one.name)));
                continue;
            }
        }
        let deleted = manage::delete(&target, options).await?;
        output::note(&format!("deleted {}\n", deleted.name));
        if let Some(kept) = &deleted.kept_branch {
            output::note(&format!(
                "branch {} stays: sandbox {} is on it too\n",
                printable_line(kept.branch.as_str()),
                kept.of
            ));
        }
        for reference in &deleted.trash {
            let word = shell_word(reference);
            output::note(&format!(
                "its commits stay at {} for 30 days: bring them back with `git branch NAME {word}`\n",
                printable_line(reference)
            ));
        }
        if let Some(path) = &deleted.kept_work {
            let path = shell_word(path);
            output::note(&format!(
                "files that are not the sandbox's alone are left in {path}\n"
            ));
        }
    }
    Ok(ExitCode::SUCCESS)
}
