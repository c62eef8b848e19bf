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

    /// More columns, nothing cut: kind, provider, mode and working directory too
    #[arg(long, short, conflicts_with = "json")]
    wide: bool,

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
        let (all, now) = (arguments.all, Timestamp::now());
        output::data(&if arguments.wide {
            render_wide(&found, all, now)
        } else {
            render(&found, all, environment.columns, now)
        })?;
    }
    if !arguments.json && found.iter().any(|one| one.interrupted) {
        output::note("a run was interrupted: `cofferdam gc` brings its work home and cleans up\n");
    }
    let orphans = found.iter().filter(|one| one.orphaned);
    for one in orphans.filter(|_| !arguments.json) {
        let (name, id) = (&one.name, one.id);
        output::note(&format!(
            "the repository of {name} is gone: put it back, or end it with `cofferdam delete {id}`\n"
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// The narrow table: what tells one sandbox from another, in the columns that there are. A branch is cut
/// before a name, which is typed again.
fn render(found: &[Summary], all: bool, columns: usize, now: Timestamp) -> String {
    let mut head = vec!["NAME", "STATE", "BRANCH", "AHEAD", "CHANGES", "AGE"];
    if all {
        head.push("REPOSITORY");
    }
    let rows: Vec<Vec<String>> = found
        .iter()
        .map(|one| {
            let mut row = vec![
                one.name.to_string(),
                state(one),
                one.branch.clone(),
                ahead(one),
                changes(one),
                human::age(one.created, now),
            ];
            if all {
                row.push(shown(&one.repository));
            }
            row
        })
        .collect();
    table::render_within(&head, &rows, columns, BRANCH)
}

/// The column of [`render`] that gives way.
const BRANCH: usize = 2;

fn render_wide(found: &[Summary], all: bool, now: Timestamp) -> String {
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
    let mut row = vec![
        one.name.to_string(),
        one.kind.to_owned(),
        one.provider.clone(),
        one.mode.to_owned(),
        state(one),
        one.branch.clone(),
        ahead(one),
        changes(one),
        human::age(one.created, now),
        shown(&one.workdir),
    ];
    if all {
        row.push(shown(&one.repository));
    }
    row
}

fn state(one: &Summary) -> String {
    if one.orphaned {
        "orphaned".to_owned()
    } else if one.interrupted {
        "interrupted".to_owned()
    } else {
        one.state.to_string()
    }
}

fn ahead(one: &Summary) -> String {
    one.ahead.map_or_else(|| "-".to_owned(), human::count)
}

fn changes(one: &Summary) -> String {
    let word = one.changes.map(|yes| if yes { "yes" } else { "no" });
    word.unwrap_or("-").to_owned()
}

/// Bytes that are no text are escaped, not replaced.
fn shown(path: &Path) -> String {
    printable_bytes_line(path.as_os_str().as_bytes())
}
