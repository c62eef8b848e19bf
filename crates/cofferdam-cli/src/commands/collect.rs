//! `cofferdam collect`.

use std::cell::Cell;
use std::process::ExitCode;

use clap::Args;
use cofferdam::session::Landing;
use cofferdam::session::living as lives;
use cofferdam::session::manage;

use super::dev;
use super::here::target;
use super::living::{self, Sandboxes};
use crate::environment::Environment;
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::ui::from_here::from_here;
use crate::ui::style::{self, paint};
use crate::ui::{output, summary};

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
            let collection = lives::collect(caller, named, &provider).await?;
            let commits = &collection.commits;
            let before = match collection.landing {
                Landing::Nothing => still_kept(id, environment, interrupt).await,
                _ => None,
            };
            let landing = before.as_ref().unwrap_or(&collection.landing);
            output::data(&match landing {
                Landing::Nothing => format!(
                    "{} {name} has no new commit\n",
                    paint("nothing:", style::WARNING, colour)
                ),
                _ => summary::merged(landing, commits, colour),
            })?;
            living::beside(name.as_str(), &collection);
            let next = match landing {
                Landing::Kept { .. }
                    if landing.is_to_be_looked_at() || landing.has_failed_checks() =>
                {
                    summary::after_merge(landing, name.as_str(), false)
                }
                Landing::Landed { .. } | Landing::Kept { .. } => {
                    Some(format!("cofferdam merge {name}"))
                }
                Landing::Nothing | Landing::Refused { .. } => None,
            };
            if let Some(command) = next {
                let next = paint("next:", style::HINT, colour);
                output::data(&format!("{next} {}\n", from_here(&command)))?;
            }
            // With `--merge-to-head` they wait on its own branch for `merge`.
            stands.set(match landing {
                Landing::Kept { reference, .. } if *reference == own => stands.get(),
                Landing::Kept { .. } | Landing::Refused { .. } => true,
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
) -> Option<Landing> {
    let kept = manage::still_kept(&target(id, environment, interrupt)).await;
    kept.ok().flatten()
}
