//! `cofferdam list`.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use cofferdam::session::manage::{self, Summary};
use cofferdam::text::printable_bytes_line;
use jiff::Timestamp;

use crate::environment::Environment;
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::ui::{human, json, output, table};

/// List the sandboxes of this repository
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Those of all your repositories
    #[arg(long, short)]
    all: bool,

    /// A list of objects, one for each sandbox
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(
    arguments: &Arguments,
    environment: &Environment,
    interrupt: &Interrupt,
) -> Result<ExitCode, CliError> {
    let repository = (!arguments.all).then_some(environment.directory.as_path());
    let user_home = environment.user_home.as_deref();
    let found = manage::list(
        &environment.home,
        &environment.git,
        repository,
        user_home,
        &interrupt.cancel,
    )
    .await?;
    if arguments.json {
        output::data(&json::line(&found)?)?;
    } else if found.is_empty() {
        output::note("no sandboxes; `cofferdam run` makes one\n");
    } else {
        output::data(&render(&found, arguments.all, Timestamp::now()))?;
    }
    if !arguments.json && found.iter().any(|one| one.interrupted) {
        output::note("a run was interrupted: `cofferdam gc` brings its work home and cleans up\n");
    }
    Ok(ExitCode::SUCCESS)
}

fn render(found: &[Summary], all: bool, now: Timestamp) -> String {
    let mut head = vec![
        "NAME", "KIND", "PROVIDER", "MODE", "STATE", "BRANCH", "AHEAD", "CHANGES", "AGE", "WORKDIR",
    ];
    if all {
        head.push("REPOSITORY");
    }
    let rows: Vec<Vec<String>> = found.iter().map(|one| row(one, all, now)).collect();
    table::render(&head, &rows)
}

fn row(one: &Summary, all: bool, now: Timestamp) -> Vec<String> {
    let unknown = || "-".to_owned();
    let state = if one.interrupted {
        format!("{} (interrupted)", one.state)
    } else {
        one.state.to_string()
    };
    let changes = one
        .changes
        .map_or_else(unknown, |yes| if yes { "yes" } else { "no" }.to_owned());
    let mut row = vec![
        one.name.to_string(),
        one.kind.to_owned(),
        one.provider.clone(),
        one.mode.to_owned(),
        state,
        one.branch.clone(),
        one.ahead.map_or_else(unknown, human::count),
        changes,
        human::age(one.created, now),
        shown(&one.workdir),
    ];
    if all {
        row.push(shown(&one.repository));
    }
    row
}

/// Bytes that are no text are escaped, not replaced.
fn shown(path: &Path) -> String {
    printable_bytes_line(path.as_os_str().as_bytes())
}
