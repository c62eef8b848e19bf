//! `cofferdam exec`.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use cofferdam::names::BranchName;
use cofferdam::session::SessionExec;
use cofferdam::session::living::Named;

use super::attach::{self, Attached};
use super::dev::{self, Unsaid, Which};
use super::here::is_path;
use super::{living, making};
use crate::environment::Environment;
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::ui::{output, tty};

/// Run a program in a sandbox that stays
///
/// Its exit code is the program's own: 128 and the number of the signal that ended it, 127 where there is no such
/// program. Signals are passed on to it; a second Ctrl-C kills it, and so does SIGTERM 10 s later. What it prints comes
/// through as it is. Ctrl-Z stops this command alone, and the program goes on. Without `-i` or `-t` its standard input is at its
/// end, also where something is piped to this command.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The sandbox, as `cofferdam list` names it, or the path of a checkout, such as ./there, for its dev sandbox; without it that of the
    /// checkout that you stand in
    #[arg(value_name = "SANDBOX|PATH")]
    name: Option<String>,

    #[command(flatten)]
    which: Which,

    /// Give it this terminal: as large, every key its own
    #[arg(long = "tty", short = 't')]
    terminal: bool,

    /// Pass standard input on, and its end; `-t` does by itself
    #[arg(long, short)]
    interactive: bool,

    /// A variable for the program; without a value it is taken from your environment
    #[arg(long = "env", short, value_name = "KEY[=VALUE]")]
    env: Vec<OsString>,

    /// Where it starts: a directory inside; the top of the repository unless given
    #[arg(long, short, value_name = "DIR")]
    workdir: Option<PathBuf>,

    /// Leave it running, and print the id by which `cofferdam logs` knows it
    #[arg(long, conflicts_with_all = ["terminal", "interactive"])]
    detach: bool,

    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

pub(crate) async fn run(
    arguments: Arguments,
    environment: &Environment,
) -> Result<ExitCode, CliError> {
    let variables = making::variables(&arguments.env, environment)?;
    let mut exec = SessionExec::new(arguments.program);
    exec.directory = arguments.workdir;
    exec.stdin = arguments.interactive;
    if arguments.terminal {
        give_terminal(&mut exec, environment)?;
    }
    exec.environment.extend(variables);
    let (name, there) = meant(arguments.name, &arguments.which, environment).await?;
    let environment = there.as_ref().unwrap_or(environment);
    let attached = Attached {
        name: &name,
        exec,
        callback: None,
        environment,
    };
    if arguments.detach {
        return detach(attached).await;
    }
    attach::run(attached).await
}

/// The sandbox's name, and the surroundings in which that is its name, where they are others.
async fn meant(
    name: Option<String>,
    which: &Which,
    environment: &Environment,
) -> Result<(String, Option<Environment>), CliError> {
    let branch = match (&which.branch, name) {
        (Some(branch), name) => return on_branch(name, branch, environment).await,
        (None, Some(name)) => return Ok((name, None)),
        (None, None) => the_one(environment).await?.branch,
    };
    let caller = environment.caller();
    let named = Named::dev(&caller, &environment.directory, branch.as_ref()).await?;
    Ok((named.name().to_string(), None))
}

/// The one that is meant where nobody says which.
async fn the_one(environment: &Environment) -> Result<Which, CliError> {
    let interrupt = Interrupt::quiet().map_err(CliError::Runtime)?;
    match dev::unsaid(&environment.caller(), environment, &interrupt).await? {
        Unsaid::One(which) => Ok(which),
        Unsaid::Any(_) => Err(CliError::Misused {
            message: "no sandbox is named, and nothing says which dev sandbox of this checkout is meant".to_owned(),
            hint: "`cofferdam list` shows which are there: `cofferdam exec NAME -- PROGRAM`; `cofferdam start` makes that of what is checked out"
                .to_owned(),
        }),
    }
}

/// The dev sandbox of this branch, in the checkout that is named, or in this one.
async fn on_branch(
    name: Option<String>,
    branch: &BranchName,
    environment: &Environment,
) -> Result<(String, Option<Environment>), CliError> {
    if let Some(name) = name.as_deref().filter(|name| !is_path(name.as_ref())) {
        return Err(CliError::Misused {
            message: "`--branch` is for the dev sandboxes of a checkout, and a sandbox is named"
                .to_owned(),
            hint: format!("leave out {name}, or `--branch`"),
        });
    }
    let there = dev::there(name.as_deref().map(OsStr::new), environment)?;
    let caller = environment.caller();
    let directory = &there.as_ref().unwrap_or(environment).directory;
    let named = Named::dev(&caller, directory, Some(branch)).await?;
    Ok((named.name().to_string(), there))
}

/// The program gets the user's own terminal.
pub(super) fn give_terminal(
    exec: &mut SessionExec,
    environment: &Environment,
) -> Result<(), CliError> {
    if !tty::is_there() {
        return Err(CliError::Misused {
            message: "standard input is no terminal that the program could have".to_owned(),
            hint: "leave out `-t`; what is piped in is passed on with `-i`".to_owned(),
        });
    }
    exec.stdin = false;
    exec.terminal = Some(tty::size());
    exec.environment
        .extend(attach::terminal_variables(environment));
    Ok(())
}

async fn detach(attached: Attached<'_>) -> Result<ExitCode, CliError> {
    let caller = attached.environment.caller();
    let session = living::open(attached.name, &caller, attached.environment).await?;
    dev::follow(&session).await;
    let started = session.exec_detached(attached.exec).await;
    let program = started
        .map_err(|error| attach::not_started(error, session.record(), attached.environment))?;
    output::data(&format!("{}\n", program.id))?;
    let name = session.name();
    output::note(&format!(
        "see what it prints with: cofferdam logs {name} {} --follow\n",
        program.id
    ));
    Ok(ExitCode::SUCCESS)
}
