//! An agent's own program on this terminal, in a sandbox that stays.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Args;
use cofferdam::registry::{RegistryError, Setup};
use cofferdam::sandbox::{ProgramFault, SandboxError};
use cofferdam::session::living::{self as lives, Condition};
use cofferdam::session::{Caller, Session, SessionError, SessionExec, SyncMode};

use super::attach::{self, Attached};
use super::callback::Callback;
use super::dev::{self, Build, Up, Which, there};
use super::exec::give_terminal;
use super::here::is_path;
use super::making::{DevOptions, MadeIn};
use super::{create, delete, keep_ready, living, unstarted};
use crate::environment::Environment;
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::ui::output;
use crate::ui::shell::shell_word;

/// Whose program it is.
#[derive(Debug)]
pub(super) struct Program {
    /// What is started, and the sandbox where none is named.
    pub(super) name: &'static str,
    /// The agent, as people and as `run` call it.
    pub(super) shown: &'static str,
    pub(super) agent: &'static str,
}

/// Where it is to run, and with what.
#[derive(Debug, Args)]
pub(super) struct Opened {
    /// The sandbox, called as this command unless given; or a directory of the repository that is meant, such as ./there
    #[arg(value_name = "NAME|PATH")]
    meant: Option<OsString>,

    #[command(flatten)]
    which: Which,

    #[command(flatten)]
    build: Build,

    #[command(flatten)]
    made: MadeIn,

    /// Arguments for it
    #[arg(last = true, value_name = "ARGUMENT")]
    pub(super) words: Vec<OsString>,
}

/// Runs it to its end, in a sandbox that is made where there is none.
pub(super) async fn open(
    program: &Program,
    opened: Opened,
    callback: Option<Callback>,
    environment: &Environment,
) -> Result<ExitCode, CliError> {
    let mut exec = SessionExec::default();
    give_terminal(&mut exec, environment).map_err(|_| CliError::Misused {
        message: format!(
            "{} needs a terminal here, and standard input is none",
            program.shown
        ),
        hint: format!(
            "give it a prompt instead: `cofferdam run --agent {} --prompt TEXT`",
            program.agent
        ),
    })?;
    let mut in_dev = opened.which.branch.is_some() || opened.build.build;
    let names_one = matches!(&opened.meant, Some(name) if !is_path(name));
    let (name, elsewhere) = match &opened.meant {
        None => (program.name.to_owned(), None),
        Some(place) if is_path(place) => {
            (program.name.to_owned(), there(Some(place), environment)?)
        }
        Some(name) if in_dev => {
            return Err(CliError::Misused {
                message:
                    "these options are for the dev sandbox of a checkout, and a sandbox is named"
                        .to_owned(),
                hint: format!("leave out {}, or the options", name.to_string_lossy()),
            });
        }
        Some(name) => (name.to_string_lossy().into_owned(), None),
    };
    let environment = elsewhere.as_ref().unwrap_or(environment);
    if !in_dev && !names_one && !opened.made.is_given() {
        // Where a person lives in the checkout, that is where they mean.
        let interrupt = Interrupt::quiet().map_err(CliError::Runtime)?;
        let caller = living::caller(environment, &interrupt);
        in_dev = dev::has_one(&caller, environment, &interrupt).await?;
    }
    let made_in = opened.made.words();
    let (name, is_new) = if in_dev {
        (brought_up(&opened, environment).await?, false)
    } else {
        let is_new = ready(program, &name, opened.made, environment).await?;
        (name, is_new)
    };
    exec.arguments = vec![program.name.into()];
    exec.arguments.extend(opened.words);
    let attached = Attached {
        name: &name,
        exec,
        callback,
        environment,
    };
    match attach::run(attached).await {
        Err(CliError::NotStarted { error, code, hint }) if is_new && is_missing(&error) => {
            let instead = taken_back(program, &name, &made_in, environment).await;
            let hint = instead.unwrap_or(hint);
            Err(CliError::NotStarted { error, code, hint })
        }
        done => done,
    }
}

fn is_missing(error: &SessionError) -> bool {
    let SessionError::Sandbox { source, .. } = error else {
        return false;
    };
    let missing = ProgramFault::Missing;
    matches!(source, SandboxError::Program { fault, .. } if *fault == missing)
}

/// A sandbox that was made for a program which is not inside is in the way of the next try. What to do instead; `None`: it
/// stays.
async fn taken_back(
    program: &Program,
    name: &str,
    made_in: &str,
    environment: &Environment,
) -> Option<String> {
    let interrupt = Interrupt::quiet().ok()?;
    let caller = living::caller(environment, &interrupt);
    let named = living::named(name, &caller, environment).await.ok()?;
    let command = if name == program.name {
        format!("cofferdam {name}")
    } else {
        format!("cofferdam {} {}", program.name, shell_word(name))
    };
    let command = (command.as_str(), made_in);
    let hint = unstarted::hint_without_it(program.name, command, named.record(), environment)?;
    drop(named);
    delete::taken_back(name, environment, &interrupt)
        .await
        .ok()?;
    Some(hint)
}

/// The dev sandbox that is meant; its name.
async fn brought_up(opened: &Opened, environment: &Environment) -> Result<String, CliError> {
    let interrupt = Interrupt::quiet().map_err(CliError::Runtime)?;
    let up = Up {
        which: &opened.which,
        build: &opened.build,
        options: &DevOptions::made_in(opened.made.clone()),
        environment,
    };
    let (session, _) = Box::pin(dev::up(up, &interrupt)).await?;
    Ok(session.name().to_string())
}

/// The sandbox is there, runs, and has what the configuration says now. Whether it was made for that.
async fn ready(
    program: &Program,
    name: &str,
    place: MadeIn,
    environment: &Environment,
) -> Result<bool, CliError> {
    let interrupt = Interrupt::quiet().map_err(CliError::Runtime)?;
    let caller = living::caller(environment, &interrupt);
    let named = match living::named(name, &caller, environment).await {
        Err(SessionError::Registry(RegistryError::Unknown {
            on_branch: None, ..
        })) => {
            create::plain(name, place, environment, &interrupt).await?;
            return Ok(true);
        }
        found => found?,
    };
    let name = named.name().to_string();
    if place.is_given() {
        return Err(CliError::Misused {
            message: format!("`{name}` is there already, and stays where it is"),
            hint: format!(
                "leave out `--sandbox` and `--image`, or name another one: `cofferdam {} {name}-2`",
                program.name
            ),
        });
    }
    if named.record().setup == Setup::Failed {
        return Err(SessionError::FailedSetup { name }.into());
    }
    let provider = named.provider(&caller)?;
    let at = async |caller: &Caller| match lives::condition(caller, &named, &provider).await? {
        Condition::Paused => Err(SessionError::Paused { name: name.clone() }),
        Condition::Stopped => {
            let session = lives::start(caller, named, &provider).await?;
            output::note(&format!("started {name}\n"));
            keep_ready::after_living(session.record());
            Ok(())
        }
        _ => {
            let session = Session::open(caller, named, &provider).await?;
            session.sync(SyncMode::IfChanged).await.map(|_| ())
        }
    };
    let done = living::shown(&caller, environment, at).await?;
    match interrupt.code() {
        Some(code) => Err(CliError::Interrupted { code }),
        None => done.map(|()| false).map_err(CliError::from),
    }
}
