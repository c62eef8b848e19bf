//! `cofferdam kill`.

use std::process::ExitCode;

use clap::Args;
use cofferdam::sandbox::{Listed, SandboxError};
use cofferdam::session::living::{self as lives, Condition, ProgramId};
use cofferdam::session::{Session, SessionError};

use super::living;
use super::logs::unknown;
use crate::environment::Environment;
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::ui::from_here::from_here;
use crate::ui::output;

const TERM: i32 = 15;
const KILL: i32 = 9;

/// End programs in a sandbox that goes on: those that were left running, or anybody's
///
/// They are asked to end, as by `kill`. What they started may go on.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The sandbox, as `cofferdam list` names it, or the path of a checkout for its dev sandbox, such as `.`
    #[arg(value_name = "SANDBOX|PATH")]
    name: String,

    /// The programs, as `cofferdam exec --detach` and `cofferdam status` name them
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,

    /// End them at once, with all that they started (SIGKILL)
    #[arg(long, short)]
    force: bool,
}

pub(crate) async fn run(
    arguments: &Arguments,
    environment: &Environment,
    interrupt: &Interrupt,
) -> Result<ExitCode, CliError> {
    let caller = living::caller(environment, interrupt);
    let named = living::named(&arguments.name, &caller, environment).await?;
    let name = named.name().to_string();
    let left = lives::left_running(&caller, &named)?;
    let provider = named.provider(&caller)?;
    let session = Session::open(&caller, named, &provider).await?;
    // It would hear of it when it goes on, whenever that is.
    if session.condition().await? == Condition::Paused {
        return Err(SessionError::Paused { name }.into());
    }
    let start = session.starts()?;
    let known = session.programs().await?;
    let mut ids = Vec::new();
    // A mistyped one must not leave half of them ended.
    for text in &arguments.ids {
        let id: ProgramId = text.parse().map_err(|()| unknown(&name, text))?;
        let of_now = |one: &&Listed| id.start == start && one.number == id.number;
        let listed = known.iter().find(of_now);
        if listed.is_none() && !left.iter().any(|program| program.id == id) {
            return Err(unknown(&name, text));
        }
        ids.push((id, listed.is_some_and(|one| one.exit.is_none())));
    }
    let (signal, told) = if arguments.force {
        (KILL, "killed")
    } else {
        (TERM, "asked to end")
    };
    for (id, runs) in ids {
        let sent = runs
            && match session.signal(id.number, signal).await {
                Ok(()) => true,
                Err(SessionError::Sandbox {
                    source: SandboxError::NoProgram(_),
                    ..
                }) => false,
                Err(error) => return Err(error.into()),
            };
        if sent {
            output::note(&format!("{told}: {id}\n"));
        } else {
            output::note(&format!("{id} had ended before\n"));
        }
    }
    if !arguments.force {
        let line = format!("what still runs: cofferdam status {name}");
        output::note(&format!("{}\n", from_here(&line)));
    }
    Ok(ExitCode::SUCCESS)
}
