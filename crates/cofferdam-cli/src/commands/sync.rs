//! `cofferdam sync`.

use std::cell::Cell;
use std::process::ExitCode;

use clap::Args;
use cofferdam::registry::{self, Setup};
use cofferdam::session::living::Condition;
use cofferdam::session::manage::ManageError;
use cofferdam::session::{Caller, Session, SessionError, SyncMode};
use cofferdam::wall::allowed::Scope;

use super::allow::{begin, patiently};
use super::here::repository;
use super::living::{self, Sandboxes};
use crate::environment::Environment;
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::ui::rules::tell;
use crate::ui::steps::Verbosity;
use crate::ui::{human, output};

/// Bring what the configuration says into running sandboxes, changed or not
///
/// Files of `home/`, the rules of `sync`, the variables of `env`; then the commands of `on_sync`. A file that is inside as it should be
/// does not travel again. Without a name: into every sandbox of this repository that runs.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The sandboxes, as `cofferdam list` names them
    #[arg(value_name = "SANDBOX")]
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
    // Destinations first: the commands may want to reach them.
    let change = begin(environment, interrupt).await?;
    let reached = patiently(change.apply(&Scope::Repository(top.clone()))).await?;
    let in_force = reached.sandboxes.is_empty() || tell(&reached, environment.colour.on_stderr());
    drop(change);
    let sandboxes = Sandboxes { names };
    let runs = Cell::new(named);
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
        let files = human::plural(synced.files, "file");
        let hooks = human::plural(synced.hooks, "command");
        output::note(&if synced.skipped {
            format!("{name}: the configuration brings nothing into it\n")
        } else {
            format!("{name}: {files} sent, {hooks} run\n")
        });
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
    Ok(if in_force { code } else { ExitCode::FAILURE })
}
