//! `cofferdam list`.

use std::fmt::Write;
use std::process::ExitCode;

use clap::Args;
use cofferdam::registry::{self, Entry, belongs};
use cofferdam::session::Landing;
use cofferdam::session::manage::{self, ManageError, State, Summary};
use cofferdam::text::{printable_line, printable_path as shown};
use jiff::Timestamp;

use super::here;
use crate::environment::Environment;
use crate::error::{self, CliError};
use crate::interrupt::Interrupt;
use crate::ui::shell::shell_word;
use crate::ui::{human, json, output, summary, table};

/// List the sandboxes of this repository
#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line"
)]
pub(crate) struct Arguments {
    /// Those of all your repositories
    #[arg(long, short)]
    all_repos: bool,

    /// More columns, nothing cut: kind, provider, mode and working directory too
    #[arg(long, short, conflicts_with = "json")]
    wide: bool,

    /// A list of objects, one for each sandbox
    #[arg(long)]
    json: bool,

    /// Their names alone, for completion in a shell
    #[arg(long, hide = true, conflicts_with_all = ["all_repos", "wide", "json"])]
    names: bool,
}

pub(crate) async fn run(
    arguments: &Arguments,
    environment: &Environment,
    interrupt: &Interrupt,
) -> Result<ExitCode, CliError> {
    if arguments.names {
        let repository = here::repository(environment, interrupt).await?;
        let listing = registry::list(&environment.home, Some(&repository.top));
        let entries = listing.map_err(ManageError::from)?.entries;
        let lines = entries
            .iter()
            .map(|entry| format!("{}\n", entry.record.name));
        output::data(&lines.collect::<String>())?;
        return Ok(ExitCode::SUCCESS);
    }
    let repository = (!arguments.all_repos).then_some(environment.directory.as_path());
    let user_home = environment.user_home.as_deref();
    let mut found = manage::list(
        &environment.home,
        &environment.git,
        repository,
        user_home,
        &interrupt.cancel,
    )
    .await?;
    let silent = manage::ask(&environment.home, &mut found).await;
    if arguments.json {
        output::data(&json::line(&found)?)?;
    } else if found.is_empty() {
        output::note(
            "no sandboxes; `cofferdam create NAME` makes one that stays, `cofferdam run` one for an agent\n",
        );
        // One whose repository was moved is looked for where that is now.
        let all = registry::list(&environment.home, None).map_err(ManageError::from)?;
        let is_gone = |entry: &&Entry| belongs::is_gone(&entry.record);
        if let Some(one) = all.entries.iter().find(is_gone) {
            output::note(&format!(
                "note: {} has sandboxes and is gone, perhaps moved: see `cofferdam list --all-repos`\n",
                shown(&one.record.repository)
            ));
        }
    } else {
        let (all, now) = (arguments.all_repos, Timestamp::now());
        output::data(&if arguments.wide {
            render_wide(&found, all, now)
        } else {
            render(&found, all, environment.columns, now)
        })?;
    }
    if !arguments.json {
        output::note(&waiting(&found, arguments.all_repos));
    }
    let orphans = found.iter().filter(|one| one.orphaned);
    for one in orphans.filter(|_| !arguments.json) {
        let (name, id) = (&one.name, one.id);
        // What would be lost by that, and by what it ends all the same, is said by that command.
        output::note(&format!(
            "the repository of {name} is gone: put it back, or end it with `cofferdam delete {id}`\n"
        ));
    }
    for (id, why) in silent {
        let Some(one) = found.iter().find(|one| one.id == id) else {
            continue;
        };
        let (name, why) = (&one.name, printable_line(&why));
        let there = there(one, arguments.all_repos);
        output::note(&format!(
            "warning: {name} does not say how it is: {why}; to end it: cofferdam{there} stop {name}\n"
        ));
    }
    for one in manage::unreadable(&environment.home)? {
        let hint = error::registry_hint(&one).unwrap_or_default();
        let text = printable_line(&format!("{one}; {hint}"));
        output::note(&format!("warning: {text}\n"));
    }
    Ok(ExitCode::SUCCESS)
}

/// What is in sandboxes and nowhere else, or is kept for the user, each in a line with the command that takes it.
pub(super) fn waiting(found: &[Summary], all: bool) -> String {
    let mut out = String::new();
    let mut waiting = found.iter().filter(|one| {
        one.interrupted
            || one.kept.is_some()
            || left(one)
            || one.uncollected == Some(true)
            || !one.beside.is_empty()
    });
    for one in waiting.by_ref().take(NAMED) {
        let there = there(one, all);
        if one.interrupted && one.is_check {
            let _ = writeln!(
                out,
                "{}: it is left of a check, or of a prompt that was tried, whose command died, and has no work; remove it with: \
                 cofferdam{there} gc",
                one.name
            );
            continue;
        }
        if one.half_made {
            let _ = writeln!(
                out,
                "{}: its making was cut short, and nobody has worked in it; clear it up with: cofferdam{there} gc",
                one.name
            );
            continue;
        }
        if one.interrupted {
            let _ = writeln!(
                out,
                "{}: it was interrupted, and what it committed is not home yet; bring it there with: \
                 cofferdam{there} gc",
                one.name
            );
            continue;
        }
        if one.uncollected == Some(true) {
            let name = &one.name;
            let _ = match &one.landing {
                Some(Landing::Refused { why, .. }) => writeln!(
                    out,
                    "{name}: the gate refused what it committed: {}; mend that inside (`cofferdam{there} shell {name}`), then bring it \
                     home with: cofferdam{there} collect {name}",
                    printable_line(why)
                ),
                _ => writeln!(
                    out,
                    "{name}: it has commits that are not home yet; bring them there with: cofferdam{there} collect {name}"
                ),
            };
        }
        let lives = one.kind == "dev" && !one.on_branch && one.lives_on;
        let lives = lives.then(|| (one.name.as_str(), one.branch.as_str()));
        if let Some(line) = summary::beside(&one.beside, &there, lives) {
            let _ = writeln!(out, "{}: {line}", one.name);
        }
        if left(one) {
            let name = &one.name;
            let _ = match &one.worktree {
                Some(path) => writeln!(
                    out,
                    "{name}: it ended, and its worktree has uncommitted work: git -C {} status",
                    shell_word(path)
                ),
                None if matches!(one.landing, Some(Landing::Refused { .. })) => writeln!(
                    out,
                    "{name}: it ended with uncommitted work: `cofferdam{there} shell {name}` goes on in it"
                ),
                None => writeln!(
                    out,
                    "{name}: it ended with uncommitted work: `cofferdam{there} diff --uncommitted {name}` shows it, \
                     `cofferdam{there} shell {name}` goes on in it"
                ),
            };
        }
        let Some(kept) = one.kept.as_deref() else {
            continue;
        };
        let _ = write!(out, "{}: {}", one.name, printable_line(kept));
        if one.half_merged {
            let _ = write!(out, ": `cofferdam{there} gc` finishes it");
        }
        if let Some(checkout) = &one.applying {
            // In that checkout alone.
            let (name, at) = (&one.name, shell_word(checkout));
            let _ = write!(
                out,
                ": `cofferdam -C {at} apply {name}` finishes it, `cofferdam -C {at} apply --undo {name}` takes it back"
            );
        }
        if one.ahead.is_some_and(|ahead| ahead > 0) {
            let _ = match &one.landing {
                // Nobody merges by another way what a check held back.
                Some(landing) if landing.has_failed_checks() => {
                    write!(
                        out,
                        "; look at them with: cofferdam{there} diff {}",
                        one.name
                    )
                }
                // What conflicted does so again.
                Some(landing @ Landing::Kept { reference, .. })
                    if !landing.is_held_back()
                        && !landing.waits_for_the_user()
                        && !summary::is_own(reference) =>
                {
                    write!(
                        out,
                        "; take them with: git{there} merge {}",
                        shell_word(reference)
                    )
                }
                _ => write!(out, "; take them with: cofferdam{there} merge {}", one.name),
            };
        } else if matches!(one.landing, Some(Landing::Refused { .. })) && !one.lives_on {
            let _ = write!(
                out,
                "; when nothing of them is needed: cofferdam{there} delete --force {}",
                one.name
            );
        }
        out.push('\n');
    }
    let more = waiting.count();
    if more > 0 {
        let _ = writeln!(out, "{more} more keep something: `cofferdam list --json`");
    }
    out
}

/// Where its commands work that are told among those of other repositories.
fn there(one: &Summary, all: bool) -> String {
    if all {
        format!(" -C {}", shell_word(&one.checkout))
    } else {
        String::new()
    }
}

/// Whether it ended with work that is in no commit.
fn left(one: &Summary) -> bool {
    let is_somewhere = one.owns_files || one.worktree.is_some();
    one.state == State::Stopped && is_somewhere && !one.lives_on && one.changes == Some(true)
}

/// The narrow table: what tells one sandbox from another, in the columns that there are. A branch is cut
/// before a name, which is typed again.
fn render(found: &[Summary], all: bool, columns: usize, now: Timestamp) -> String {
    let mut head = vec![
        "NAME", "STATE", "BRANCH", "AHEAD", "CHANGES", "AGE", "MEMORY",
    ];
    if all {
        head.push("REPOSITORY");
    }
    let rows: Vec<Vec<String>> = found
        .iter()
        .map(|one| {
            let mut row = vec![
                one.name.to_string(),
                state(one),
                one.branch.clone(),
                ahead(one),
                changes(one),
                human::age(one.created, now),
                memory(one),
            ];
            if all {
                row.push(shown(&one.repository));
            }
            row
        })
        .collect();
    table::render_within(&head, &rows, columns, BRANCH)
}

/// So many sandboxes that keep something are told one by one.
const NAMED: usize = 10;

/// The column of [`render`] that gives way.
const BRANCH: usize = 2;

fn render_wide(found: &[Summary], all: bool, now: Timestamp) -> String {
    let mut head = vec![
        "NAME", "KIND", "PROVIDER", "MODE", "STATE", "BRANCH", "AHEAD", "CHANGES", "AGE", "MEMORY",
        "WORKDIR",
    ];
    if all {
        head.push("REPOSITORY");
    }
    let rows: Vec<Vec<String>> = found.iter().map(|one| row(one, all, now)).collect();
    table::render(&head, &rows)
}

fn row(one: &Summary, all: bool, now: Timestamp) -> Vec<String> {
    let mut row = vec![
        one.name.to_string(),
        one.kind.to_owned(),
        one.provider.clone(),
        mode(one).to_owned(),
        state(one),
        one.branch.clone(),
        ahead(one),
        changes(one),
        human::age(one.created, now),
        memory(one),
        one.workdir.as_deref().map_or_else(|| "-".to_owned(), shown),
    ];
    if all {
        row.push(shown(&one.repository));
    }
    row
}

/// Which a dev sandbox is in is what people know it by (S3-137): all of them share their checkout's files.
fn mode(one: &Summary) -> &'static str {
    if one.on_branch { "branch" } else { one.mode }
}

fn state(one: &Summary) -> String {
    if one.orphaned {
        "orphaned".to_owned()
    } else if one.interrupted {
        "interrupted".to_owned()
    } else {
        one.state.to_string()
    }
}

fn memory(one: &Summary) -> String {
    one.memory.map_or_else(|| "-".to_owned(), human::size)
}

fn ahead(one: &Summary) -> String {
    one.ahead.map_or_else(|| "-".to_owned(), human::count)
}

fn changes(one: &Summary) -> String {
    let word = match one.changes {
        Some(true) => "yes",
        Some(false) => "no",
        // Its files are changed; `status` asks whether all of that is in a commit.
        None if one.lives_on && one.owns_files && one.state != State::Missing => "maybe",
        None => "-",
    };
    word.to_owned()
}
