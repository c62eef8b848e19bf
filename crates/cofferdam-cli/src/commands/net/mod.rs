//! `cofferdam net`: what sandboxes asked of the network, and what decides about it.

mod destination;
mod log;
mod reload;
mod rules;
mod test;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use cofferdam::git::discovery::Start;
use cofferdam::git::{Repository, RepositoryError};
use cofferdam::registry;
use cofferdam::session::manage::ManageError;
use cofferdam::wall::change::{Applied, Outcome};
use cofferdam::wall::rules::{Place, Problem, Sources};
use cofferdam::wall::sources_of;

use crate::environment::Environment;
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::ui::steps::shell_word;
use crate::ui::{human, output};

/// See what sandboxes asked of the network and what decides about it
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Log(log::Arguments),
    Rules(rules::Arguments),
    Test(test::Arguments),
    Reload(reload::Arguments),
}

pub(crate) async fn run(
    arguments: Arguments,
    environment: &Environment,
    interrupt: &Interrupt,
) -> Result<ExitCode, CliError> {
    match arguments.command {
        Command::Log(arguments) => log::run(&arguments, environment, interrupt).await,
        Command::Rules(arguments) => rules::run(&arguments, environment, interrupt).await,
        Command::Test(arguments) => test::run(&arguments, environment, interrupt).await,
        Command::Reload(arguments) => reload::run(&arguments, environment, interrupt).await,
    }
}

/// The repository that the command works in.
pub(super) async fn repository(
    environment: &Environment,
    interrupt: &Interrupt,
) -> Result<Repository, ManageError> {
    let workspaces = registry::workspaces(&environment.home)?;
    let start = Start::find(&environment.directory, &workspaces)?;
    let found = Repository::discover(
        &environment.git,
        &start,
        environment.user_home.as_deref(),
        &interrupt.cancel,
    );
    Ok(found.await?)
}

/// Where the rules come from: of a sandbox, of this repository, or of no repository in particular.
async fn sources(
    sandbox: Option<&str>,
    environment: &Environment,
    interrupt: &Interrupt,
) -> Result<Sources, CliError> {
    let home = environment.home.clone();
    let found = match repository(environment, interrupt).await {
        Err(ManageError::Repository(RepositoryError::NotARepository { .. }))
            if sandbox.is_none() =>
        {
            None
        }
        found => Some(found?.top),
    };
    let (Some(name), Some(repository)) = (sandbox, &found) else {
        return Ok(Sources {
            home,
            repository: found,
            sandbox: None,
            flags: Vec::new(),
        });
    };
    let entry = registry::find(&home, repository, name).map_err(ManageError::from)?;
    sources_of(&home, &entry.record).ok_or_else(|| CliError::Failed {
        message: format!("sandbox `{}` has no rules", entry.record.name),
        hint: "it was started with `--network none` or `--network open`".to_owned(),
    })
}

/// What is wrong with the sources, on standard error.
pub(super) fn warn(problems: &[Problem], colour: bool) {
    use crate::ui::style;
    for problem in problems {
        // Without a whole source there may be no rule at all; without a line of it there is one less.
        let label = if problem.is_whole_source() {
            style::paint("error:", style::ERROR, colour)
        } else {
            style::paint("warning:", style::WARNING, colour)
        };
        output::note(&format!("{label} {}\n", problem.message()));
    }
}

/// What comes before any rule: a source that cannot be read is mended first.
fn spoiled(problems: &[Problem]) -> Option<String> {
    let spoiled = problems.iter().any(Problem::is_whole_source);
    spoiled.then(|| {
        "mend what is wrong first (see above): until then none of its rules is in force".to_owned()
    })
}

/// Where a rule stands, for a table.
pub(super) fn place(place: &Place) -> String {
    match (&place.file, place.line) {
        (Some(file), Some(line)) => format!("{}:{line}", shell_word(file.as_os_str())),
        (Some(file), None) => shell_word(file.as_os_str()),
        (None, _) => "-".to_owned(),
    }
}

/// For which sandboxes at work a change counts now. Gives whether it does for all of them.
pub(super) fn tell(applied: &[Applied], colour: bool) -> bool {
    let mut good = true;
    for one in applied {
        let name = &one.name;
        match &one.outcome {
            Outcome::InForce { closed: 0 } => {
                output::note(&format!("in force in sandbox {name}\n"));
            }
            Outcome::InForce { closed } => {
                let closed =
                    human::plural(usize::try_from(*closed).unwrap_or(usize::MAX), "connection");
                output::note(&format!(
                    "in force in sandbox {name}; {closed} ended by it\n"
                ));
            }
            Outcome::Starting => {
                output::note(&format!("sandbox {name} is starting, and starts with it\n"));
            }
            Outcome::Kept(problems) => {
                good = false;
                warn(problems, colour);
                output::note(&format!(
                    "sandbox {name} keeps the rules that it had; correct the file, then: cofferdam net reload\n"
                ));
            }
            Outcome::Unreachable => {
                good = false;
                output::note(&format!(
                    "sandbox {name} keeps the rules that it had: it was started by another version of \
                     cofferdam; change them with that one, or end the sandbox\n"
                ));
            }
            Outcome::Failed(error) => {
                good = false;
                let said = cofferdam::text::printable_line(&error.to_string());
                output::note(&format!(
                    "sandbox {name} keeps the rules that it had: {said}\n"
                ));
            }
        }
    }
    if applied.is_empty() {
        output::note("no sandbox that it concerns is running: it counts from the next start\n");
    }
    good
}
