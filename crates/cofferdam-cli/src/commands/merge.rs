//! `cofferdam merge`.

use std::process::ExitCode;

use clap::Args;
use cofferdam::session::manage::{self, Merge, MergeOptions};
use cofferdam::session::{Caller, Checks, Landing};
use cofferdam::text::printable_line;

use super::dev;
use super::here::target;
use super::living::{self, Purpose};
use crate::environment::Environment;
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::ui::again::{self, Again};
use crate::ui::from_here::from_here;
use crate::ui::steps::Verbosity;
use crate::ui::{output, summary};

/// Merge what a sandbox committed into the branch that is checked out
///
/// That is its branch, and then what is kept beside it because the branch had moved. Nothing moves where such a merge
/// conflicts, where it would touch a file that you changed, or where one of the configuration's `gate.checks` fails.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The sandbox, as `cofferdam list` names it, or the path of a checkout for its dev sandbox, such as `.`
    #[arg(value_name = "SANDBOX|PATH")]
    name: String,

    /// Merge without the configuration's `gate.checks`
    #[arg(long)]
    no_checks: bool,

    /// Make one commit of all that it changed, on top of the branch that is checked out
    #[arg(long)]
    squash: bool,
}

pub(crate) async fn run(
    mut arguments: Arguments,
    environment: &Environment,
    interrupt: &Interrupt,
) -> Result<ExitCode, CliError> {
    let (name, there) = dev::by_path(arguments.name, environment, interrupt).await?;
    let environment = there.as_ref().unwrap_or(environment);
    arguments.name = name;
    let living = living::refresh(&arguments.name, Purpose::Merge, environment, interrupt).await?;
    let target = target(arguments.name.clone(), environment, interrupt);
    let unpushed = living::unpushed(&arguments.name, environment, interrupt).await;
    let said = |line: &str| output::note(&format!("{}\n", printable_line(line)));
    let options = if arguments.squash {
        MergeOptions::squashed()
    } else {
        MergeOptions::default()
    };
    let merges = if arguments.no_checks {
        manage::merge(&target, options, &said, None).await?
    } else {
        let caller = living::caller(environment, interrupt);
        let merge = async |caller: &Caller| {
            let checks = Checks::new(caller.clone());
            manage::merge(&target, options.clone(), &said, Some(&checks)).await
        };
        living::narrated(&caller, environment, Verbosity::Normal, merge).await??
    };
    let name = &target.name;
    let colour = environment.colour.on_stdout();
    let given = [
        (arguments.no_checks, "--no-checks "),
        (arguments.squash, "--squash "),
    ];
    let given = given
        .map(|(is, option)| if is { option } else { "" })
        .concat();
    // What is merged is merged: it is for what stayed.
    let at_work = manage::at_work(&target).await.unwrap_or_default();
    let at_work = again::words(&at_work);
    let again = Again {
        options: &given,
        at_work: &at_work,
        ..Again::of(name)
    };
    // What was told above, and stays where it is.
    let looked_at = living.as_ref().map(|collection| &collection.landing);
    let looked_at = looked_at.filter(|landing| landing.is_to_be_looked_at());
    let refused = living
        .as_ref()
        .is_some_and(|one| matches!(one.landing, Landing::Refused { .. }));
    let mut stands = looked_at.is_some() || refused;
    for Merge {
        landing,
        commits,
        changed_outside,
        lies_there,
        as_one,
        in_the_way,
        ..
    } in &merges
    {
        let is_nothing = matches!(landing, Landing::Nothing);
        if is_nothing && (refused || commits.is_empty() && looked_at.is_some()) {
            continue;
        }
        output::data(&match (landing, commits.len()) {
            (Landing::Nothing, 1..) => {
                summary::merged_already(name, commits.len(), *as_one, colour)
            }
            _ => summary::not_merged(landing, commits, name, colour),
        })?;
        if !changed_outside.is_empty() {
            let files = printable_line(&manage::lacking(changed_outside));
            output::note(&format!("note: {files}\n"));
        }
        let again = Again {
            in_the_way: !in_the_way.is_empty(),
            lies_there: *lies_there,
            ..again
        };
        if let Some(next) = again::after_merge(landing, again) {
            output::data(&format!("next: {}\n", from_here(&next)))?;
        }
        stands |= matches!(landing, Landing::Kept { .. } | Landing::Refused { .. });
    }
    if let Some(next) = looked_at.and_then(|kept| again::after_merge(kept, again)) {
        output::data(&format!("next: {}\n", from_here(&next)))?;
    }
    if refused {
        let next = format!(
            "cofferdam shell {name}   # take back the commit that has it, by `git reset --soft` to the one before, and change that"
        );
        output::data(&format!("next: {}\n", from_here(&next)))?;
    }
    if let Some(one) = &unpushed {
        living::only_on_the_shelf(name, one);
    }
    living::tell_uncommitted(name, environment, interrupt).await;
    if stands {
        return Ok(ExitCode::FAILURE);
    }
    let nothing =
        |merge: &Merge| matches!(merge.landing, Landing::Nothing) && merge.commits.is_empty();
    // The merge is done, and this is advice: a worktree that cannot be read takes nothing of that back.
    // One that lives on stays whatever is merged.
    if living.is_none()
        && !merges.iter().all(nothing)
        && let Ok(stays) = manage::stays(&target).await
    {
        output::data(&summary::after_landing(stays.as_ref(), name, colour))?;
    }
    Ok(ExitCode::SUCCESS)
}
