//! `cofferdam collect`.

use std::cell::Cell;
use std::process::ExitCode;

use clap::Args;
use cofferdam::registry::Strategy;
use cofferdam::session::living as lives;
use cofferdam::session::manage;
use cofferdam::session::{CommitLine, Landing};

use super::dev;
use super::here::target;
use super::living::{self, Sandboxes};
use crate::environment::Environment;
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::ui::again::{self, Again};
use crate::ui::from_here::from_here;
use crate::ui::style::{self, paint};
use crate::ui::{output, shelf, summary};

/// Bring home now what was committed in sandboxes that go on
///
/// Their own branch moves, and nothing else. `diff`, `log` and `merge` do it by themselves. Programs inside stand still
/// for the moment that it takes.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    sandboxes: Sandboxes,
}

pub(crate) async fn run(
    arguments: &Arguments,
    environment: &Environment,
    interrupt: &Interrupt,
) -> Result<ExitCode, CliError> {
    let colour = environment.colour.on_stdout();
    let stands = Cell::new(false);
    let code = living::each(
        &arguments.sandboxes,
        environment,
        interrupt,
        async |caller, named| {
            let name = named.name().clone();
            let own = named.record().branch_text();
            let provider = named.provider(caller)?;
            dev::take_logins(caller, &named, &provider).await;
            let id = named.id().to_string();
            let lies_there = named.record().strategy == Strategy::Head;
            let unpushed = lives::unpushed(caller, &named).await;
            let collection = lives::collect(caller, named, &provider).await?;
            let commits = &collection.commits;
            let before = match collection.landing {
                Landing::Nothing => still_kept(id.clone(), environment, interrupt).await,
                _ => None,
            };
            let (landing, commits) = match &before {
                Some((landing, commits)) => (landing, commits),
                None => (&collection.landing, commits),
            };
            output::data(&match (landing, &unpushed) {
                (Landing::Nothing, Some(one)) => {
                    let push = shelf::push(name.as_str(), one);
                    let line = shelf::unpushed(one, &push);
                    let kept = paint("kept:", style::WARNING, colour);
                    format!("{kept} {}\n", from_here(&line))
                }
                (Landing::Nothing, None) => format!(
                    "{} {name} has no new commit\n",
                    paint("nothing:", style::WARNING, colour)
                ),
                _ => summary::merged(landing, commits, colour),
            })?;
            if let (Some(one), false) = (&unpushed, matches!(landing, Landing::Nothing)) {
                living::only_on_the_shelf(name.as_str(), one);
            }
            living::beside(name.as_str(), &collection);
            let at_work = at_work(id, environment, interrupt).await;
            let is_unreadable = |one| living::is_unreadable(one, landing);
            let again = Again {
                at_work: &at_work,
                lies_there,
                unreadable: collection.beside.iter().any(is_unreadable),
                ..Again::of(name.as_str())
            };
            if let Some(command) = again::after_collect(landing, again) {
                let next = paint("next:", style::HINT, colour);
                output::data(&format!("{next} {}\n", from_here(&command)))?;
            }
            // With `--merge-to-head` they wait on its own branch for `merge`.
            stands.set(match landing {
                Landing::Kept { reference, .. } if *reference == own => stands.get(),
                Landing::Kept { .. } | Landing::Refused { .. } => true,
                Landing::Nothing if unpushed.is_some() => true,
                _ => stands.get(),
            });
            Ok(())
        },
    )
    .await?;
    Ok(if stands.get() {
        ExitCode::FAILURE
    } else {
        code
    })
}

/// What waits since it came home before. Whoever cannot be asked says nothing of it.
async fn still_kept(
    id: String,
    environment: &Environment,
    interrupt: &Interrupt,
) -> Option<(Landing, Vec<CommitLine>)> {
    let kept = manage::still_kept(&target(id, environment, interrupt)).await;
    kept.ok().flatten()
}

/// Who is in the way of a merge. Whoever cannot be asked says nothing of it: the merge does.
async fn at_work(id: String, environment: &Environment, interrupt: &Interrupt) -> String {
    let at_work = manage::at_work(&target(id, environment, interrupt)).await;
    again::words(&at_work.unwrap_or_default())
}
