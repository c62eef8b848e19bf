//! `cofferdam sync`.

use std::cell::Cell;
use std::process::ExitCode;

use clap::Args;
use cofferdam::registry::{self, Setup};
use cofferdam::session::living::Condition;
use cofferdam::session::manage::ManageError;
use cofferdam::session::{Caller, RulesNow, Session, SessionError, SyncMode, Synced};

use super::here::repository;
use super::living::{self, Sandboxes};
use crate::environment::Environment;
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::ui::steps::Verbosity;
use crate::ui::{human, output};

/// Bring what the configuration says into running sandboxes, changed or not
///
/// What it may reach first; files of `home/`, the rules of `sync`, the variables of `env`; then the commands of `on_sync`. A file that is
/// inside as it should be does not travel again. Other sandboxes stay as they are; without a name it is every one of this repository that
/// lives on and runs.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The sandboxes, as `cofferdam list` names them, or paths of checkouts for their dev sandboxes
    #[arg(value_name = "SANDBOX|PATH")]
    names: Vec<String>,

    /// Send every file again
    #[arg(long)]
    all: bool,
}

pub(crate) async fn run(
    arguments: Arguments,
    environment: &Environment,
    interrupt: &Interrupt,
) -> Result<ExitCode, CliError> {
    let mode = if arguments.all {
        SyncMode::All
    } else {
        SyncMode::Force
    };
    let mut names = arguments.names;
    let named = !names.is_empty();
    let top = repository(environment, interrupt).await?.top;
    if !named {
        let listing = registry::list(&environment.home, Some(&top)).map_err(ManageError::from)?;
        let living = listing.entries.iter().filter(|one| one.record.lives_on());
        names.extend(living.map(|one| one.record.id.to_string()));
        if names.is_empty() {
            output::note(
                "no sandbox of this repository lives on: `cofferdam create NAME` makes one\n",
            );
            return Ok(ExitCode::SUCCESS);
        }
    }
    let sandboxes = Sandboxes { names };
    let (runs, in_force) = (Cell::new(named), Cell::new(true));
    let code = living::each(&sandboxes, environment, interrupt, async |caller, one| {
        let provider = one.provider(caller)?;
        let name = one.name().clone();
        let condition = cofferdam::session::living::condition(caller, &one, &provider).await?;
        match condition {
            Condition::Running => runs.set(true),
            _ if !named => return Ok(()),
            Condition::Paused => {
                let name = name.to_string();
                return Err(SessionError::Paused { name }.into());
            }
            // Opening it says why it cannot be.
            _ => {}
        }
        let failed = one.record().setup == Setup::Failed;
        let sync = async |caller: &Caller| {
            let session = Session::open(caller, one, &provider).await?;
            session.sync(mode).await
        };
        let synced = living::narrated(caller, environment, Verbosity::Normal, sync).await??;
        if synced.rules == RulesNow::Kept {
            in_force.set(false);
        }
        output::note(&format!("{name}: {}\n", outcome(&synced)));
        if failed {
            output::note(&format!(
                "{name}: a command failed when it was made, so it is there for a look only: `cofferdam delete {name}`, and make it again\n"
            ));
        }
        Ok(())
    })
    .await?;
    if !runs.get() {
        output::note("no sandbox of this repository runs: `cofferdam start NAME` starts one\n");
    }
    Ok(if in_force.get() {
        code
    } else {
        ExitCode::FAILURE
    })
}

/// One line of what it did.
fn outcome(synced: &Synced) -> String {
    let mut text = if synced.skipped {
        "the configuration brings nothing into it".to_owned()
    } else {
        let files = human::plural(synced.files, "file");
        let hooks = human::plural(synced.hooks, "command");
        format!("{files} sent, {hooks} run")
    };
    match synced.rules {
        RulesNow::InForce { closed } => {
            text.push_str("; network rules in force");
            if closed > 0 {
                let closed =
                    human::plural(usize::try_from(closed).unwrap_or(usize::MAX), "connection");
                text.push_str(&format!(", {closed} ended by them"));
            }
        }
        RulesNow::Kept => text.push_str("; it keeps the network rules that it had"),
        _ => {}
    }
    text
}
