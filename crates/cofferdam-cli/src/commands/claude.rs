//! `cofferdam claude`.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Args;
use cofferdam::registry::{RegistryError, Setup};
use cofferdam::session::living::{self as lives, Condition};
use cofferdam::session::{Caller, Session, SessionError, SessionExec, SyncMode};

use super::attach::{self, Attached};
use super::dev::there;
use super::exec::give_terminal;
use super::here::is_path;
use super::making::Place;
use super::{create, keep_ready, living};
use crate::environment::Environment;
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::ui::output;

/// Where none is named.
const NAME: &str = "claude";
const PROGRAM: &str = "claude";

/// Open Claude Code in a sandbox that stays
///
/// On this terminal, as often as wanted. The sandbox is made where there is none, as `cofferdam create` makes one, and started where
/// it was stopped. What your configuration says is in it; `cofferdam collect`, `diff` and `merge` bring home what is committed.
///
/// Unlike `cofferdam run` it gives Claude Code neither your keys nor a login that is kept. Log in there: that lasts as long as the
/// sandbox. Or `env` of your configuration gives a key to every program, such as `ANTHROPIC_API_KEY: $ANTHROPIC_API_KEY`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The sandbox, `claude` unless given; or a directory of the repository that is meant, such as ./there
    #[arg(value_name = "NAME|PATH")]
    meant: Option<OsString>,

    #[command(flatten)]
    made: Place,

    /// Arguments for it
    #[arg(last = true, value_name = "ARGUMENT")]
    words: Vec<OsString>,
}

pub(crate) async fn run(
    arguments: Arguments,
    environment: &Environment,
) -> Result<ExitCode, CliError> {
    let mut exec = SessionExec::default();
    give_terminal(&mut exec, environment).map_err(|_| CliError::Misused {
        message: "Claude Code needs a terminal here, and standard input is none".to_owned(),
        hint: "give it a prompt instead: `cofferdam run --agent claude-code --prompt TEXT`"
            .to_owned(),
    })?;
    let (name, elsewhere) = match arguments.meant {
        None => (NAME.to_owned(), None),
        Some(place) if is_path(&place) => (NAME.to_owned(), there(Some(&place), environment)?),
        Some(name) => (name.to_string_lossy().into_owned(), None),
    };
    let environment = elsewhere.as_ref().unwrap_or(environment);
    ready(&name, arguments.made, environment).await?;
    exec.arguments = vec![PROGRAM.into()];
    exec.arguments.extend(arguments.words);
    attach::run(Attached {
        name: &name,
        exec,
        environment,
    })
    .await
}

/// The sandbox is there, runs, and has what the configuration says now.
async fn ready(name: &str, place: Place, environment: &Environment) -> Result<(), CliError> {
    let interrupt = Interrupt::quiet().map_err(CliError::Runtime)?;
    let caller = living::caller(environment, &interrupt);
    let named = match living::named(name, &caller, environment).await {
        Err(SessionError::Registry(RegistryError::Unknown {
            on_branch: None, ..
        })) => {
            return create::plain(name, place, environment, &interrupt).await;
        }
        found => found?,
    };
    let name = named.name().to_string();
    if place.is_given() {
        return Err(CliError::Misused {
            message: format!("`{name}` is there already, and stays where it is"),
            hint: format!(
                "leave out `--sandbox` and `--image`, or name another one: `cofferdam claude {name}-2`"
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
        None => Ok(done?),
    }
}
