//! `cofferdam delete`.

use std::process::ExitCode;

use clap::Args;
use cofferdam::registry;
use cofferdam::session::living::{self as lives, Collection, Named};
use cofferdam::session::manage::{self, DeleteOptions, SandboxRef, Was};
use cofferdam::session::{Caller, Landing, SessionError};
use cofferdam::text::printable_line;

use super::dev;
use super::here::target;
use super::living;
use crate::environment::Environment;
use crate::error::{self, CliError};
use crate::interrupt::Interrupt;
use crate::ui::from_here::from_here;
use crate::ui::shell::shell_word;
use crate::ui::{output, recovered, shelf, summary};

/// Delete sandboxes; what they committed can be brought back for 30 days
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The sandboxes to delete, as `cofferdam list` names them; or the path of one checkout for its dev sandbox, such as `.`
    #[arg(required = true, value_name = "SANDBOX|PATH")]
    names: Vec<String>,

    /// Also where somebody waits for a program inside, its engine is gone for good, or work would be lost: uncommitted,
    /// refused by the gate, or with --purge on no other branch
    #[arg(long)]
    force: bool,

    /// Keep nothing: no way back to commits that are on no other branch, and nothing that `cofferdam runs` knows of it
    #[arg(long)]
    purge: bool,
}

pub(crate) async fn run(
    arguments: Arguments,
    environment: &Environment,
    interrupt: &Interrupt,
) -> Result<ExitCode, CliError> {
    let mut names: Vec<String> = Vec::new();
    for name in arguments.names {
        // Who names one twice means it once.
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let alone = names.len() == 1;
    let there = if alone {
        let name = names.remove(0);
        let (name, there) = dev::by_path(name, environment, interrupt).await?;
        names.push(name);
        there
    } else {
        None
    };
    let environment = there.as_ref().unwrap_or(environment);
    let mut options = DeleteOptions::default();
    options.force = arguments.force;
    options.purge = arguments.purge;
    let tell = |error: CliError| {
        output::note(&error::render(&error, environment.colour.on_stderr()));
        ExitCode::FAILURE
    };
    let targets: Vec<_> = names
        .into_iter()
        .map(|name| target(name, environment, interrupt))
        .collect();
    // A mistyped name must not leave half of them deleted.
    let mut code = ExitCode::SUCCESS;
    for target in &targets {
        match target.check().await {
            Ok(()) => {}
            Err(error) if alone => return Err(error.into()),
            Err(error) => code = tell(error.into()),
        }
    }
    if code != ExitCode::SUCCESS {
        output::note("nothing was deleted\n");
        return Ok(code);
    }
    for target in targets {
        match delete(&target, options, environment, interrupt).await {
            Ok(()) => {}
            Err(error) if alone || interrupt.code().is_some() => return Err(error),
            // That one is refused is no reason to keep the others.
            Err(error) => code = tell(error),
        }
    }
    Ok(code)
}

/// Ends one that was made by the same command a moment ago, unless work is in it.
pub(super) async fn taken_back(
    name: &str,
    environment: &Environment,
    interrupt: &Interrupt,
) -> Result<(), CliError> {
    let target = target(name.to_owned(), environment, interrupt);
    delete(&target, DeleteOptions::default(), environment, interrupt).await
}

async fn delete(
    target: &SandboxRef,
    options: DeleteOptions,
    environment: &Environment,
    interrupt: &Interrupt,
) -> Result<(), CliError> {
    if options.force
        && let Some(left) = manage::let_go(target).await?
    {
        output::note(&format!("note: {}\n", printable_line(&left)));
    }
    let shelf = only_on_the_shelf(&target.name, environment, interrupt).await;
    let lived = end(&target.name, options, environment, interrupt).await?;
    let ended = lived.map_or_else(String::new, living::with_programs);
    if let Some(one) = manage::bring_home(target, options).await? {
        if lived.is_none() || one.commits > 0 {
            output::note(&format!("{}\n", recovered::line(&one)));
        }
        for line in recovered::of_the_users(&one) {
            output::note(&format!("note: {line}\n"));
        }
        if one.ended {
            output::note(&format!("deleted {}{ended}\n", printable_line(&one.name)));
            in_the_trash(&one.name, &one.trash);
            on_the_shelf(&shelf);
            return Ok(());
        }
    }
    let deleted = manage::delete(target, options).await?;
    output::note(&format!("deleted {}{ended}\n", deleted.name));
    if let Some(kept) = &deleted.kept_branch {
        output::note(&format!(
            "branch {} stays: sandbox {} is on it too\n",
            printable_line(kept.branch.as_str()),
            kept.of
        ));
    }
    in_the_trash(deleted.name.as_str(), &deleted.trash);
    on_the_shelf(&shelf);
    if let Some(references) = &deleted.left_behind {
        output::note(&format!(
            "if its repository comes back, what came home there is below {references}: `cofferdam gc` puts it into the \
             trash after 30 days\n"
        ));
    }
    if let Some(path) = &deleted.kept_work {
        let path = shell_word(path);
        output::note(&format!(
            "files that are not the sandbox's alone are left in {path}\n"
        ));
    }
    Ok(())
}

fn in_the_trash(name: &str, references: &[String]) {
    for reference in references {
        let word = shell_word(reference);
        let (what, see, back) = match Was::of(reference, name) {
            Was::Commits => ("what it did stays", None, format!("git branch NAME {word}")),
            Was::Stash => (
                "a stash of it stays",
                Some("git stash show -p -u"),
                format!("git stash apply {word}"),
            ),
            // Nobody looked again at its end: what came later is not in it.
            Was::Uncommitted => (
                "what it had in no commit when you last looked stays",
                Some("git show"),
                format!("git cherry-pick --no-commit {word}"),
            ),
            Was::Applied => (
                "what `cofferdam apply` brought from it stays",
                Some("git show -m --first-parent"),
                format!("git cherry-pick --no-commit -m 1 {word}"),
            ),
            Was::Before => (
                "what you had in no commit before it stays",
                None,
                format!("git restore --source={word} PATH"),
            ),
        };
        let see = see.map_or_else(String::new, |see| format!("see it with `{see} {word}`, "));
        output::note(&format!(
            "{what} at {} for 30 days: {see}bring it back with `{back}`\n",
            printable_line(reference)
        ));
    }
}

/// What is on its shelf alone, in lines.
async fn only_on_the_shelf(
    name: &str,
    environment: &Environment,
    interrupt: &Interrupt,
) -> Vec<String> {
    let caller = living::caller(environment, interrupt);
    let Ok(Some(named)) = living::named_if_it_lives_on(name, &caller, environment).await else {
        return Vec::new();
    };
    let unpushed = lives::unpushed(&caller, &named).await;
    let mut lines: Vec<String> = unpushed
        .iter()
        .map(|one| shelf::unpushed(one, &shelf::push_anew(one)))
        .collect();
    if let Some(branch) = named.record().shelf_branch()
        && let Some(files @ 1..) = lives::uncommitted_on_shelf(&caller, &named).await
    {
        lines.push(shelf::uncommitted(files, branch));
    }
    lines
}

/// Its shelf outlives it.
fn on_the_shelf(lines: &[String]) {
    for line in lines {
        output::note(&format!("note: {}\n", from_here(line)));
    }
}

/// Ends a sandbox that lives on, and says how many programs ran in it; `None`: it is none. Where work of it would be lost it is an error, and it goes on as
/// before.
async fn end(
    name: &str,
    options: DeleteOptions,
    environment: &Environment,
    interrupt: &Interrupt,
) -> Result<Option<u32>, CliError> {
    let caller = living::caller(environment, interrupt);
    let Some(named) = living::named_if_it_lives_on(name, &caller, environment).await? else {
        return Ok(None);
    };
    let provider = named.provider(&caller)?;
    dev::take_logins(&caller, &named, &provider).await;
    let programs = lives::programs_running(&caller, &named, &provider).await;
    if options.force {
        lives::end(&caller, &named, &provider).await?;
        return Ok(Some(programs));
    }
    let end = async |caller: &Caller| {
        if options.purge {
            lives::end_for_good(caller, &named, &provider).await
        } else {
            lives::end_if_safe(caller, &named, &provider).await
        }
    };
    // What would be told of goes with it, but for what a branch of its user's got.
    let nothing_stays = options.purge && named.record().branch_is_ours;
    let done = if nothing_stays {
        end(&caller).await
    } else {
        living::shown(&caller, environment, end).await?
    };
    match done {
        // Nothing is to be kept of what cannot be read.
        Err(SessionError::Collect { .. }) if options.purge => {
            lives::end(&caller, &named, &provider).await?;
        }
        Ok(_) if nothing_stays => {}
        Ok(collection) => came_home(&collection, environment),
        Err(error) => {
            is_home_all_the_same(&caller, &named);
            return Err(error.into());
        }
    }
    Ok(Some(programs))
}

/// What came home before something failed has moved a branch of its user's.
fn is_home_all_the_same(caller: &Caller, named: &Named) {
    let now = registry::load(&caller.home, named.id());
    if let Ok(now) = now
        && now.landed != named.record().landed
        && let Some(tip) = &now.landed
    {
        output::note(&format!(
            "what was committed in {} is home: {} is at {}\n",
            now.name,
            printable_line(&now.branch_text()),
            tip.short()
        ));
    }
}

/// What moved by it, and what did not. Everything else was told on the way, and that a sandbox goes on is not true any more.
fn came_home(collection: &Collection, environment: &Environment) {
    let (landing, commits) = (&collection.landing, &collection.commits);
    if !matches!(landing, Landing::Nothing) && !landing.is_held_back() {
        let colour = environment.colour.on_stderr();
        output::note(&summary::merged(landing, commits, colour));
    }
}
