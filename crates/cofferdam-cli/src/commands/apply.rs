//! `cofferdam apply`.

use std::process::ExitCode;

use clap::Args;
use cofferdam::session::Notice;
use cofferdam::session::manage::{self, Applied, TakenBack};
use cofferdam::text::printable_line;

use super::dev;
use super::here::target;
use super::living::{self, Uncommitted};
use crate::environment::Environment;
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::ui::from_here::from_here;
use crate::ui::shell::shell_word;
use crate::ui::style::{self, paint};
use crate::ui::{human, output};

/// Bring a sandbox's work into this working tree without a commit, what it did not commit as well
///
/// What came is staged, as `git merge --squash` leaves it, and the branch does not move. Nothing is changed where it
/// conflicts, or where it would touch a file that you changed. `--undo` takes it back in one step.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The sandbox, as `cofferdam list` names it, or the path of a checkout for its dev sandbox, such as `.`
    #[arg(value_name = "SANDBOX|PATH")]
    name: String,

    /// Take back what was applied last, unless you committed since
    #[arg(long)]
    undo: bool,
}

pub(crate) async fn run(
    mut arguments: Arguments,
    environment: &Environment,
    interrupt: &Interrupt,
) -> Result<ExitCode, CliError> {
    let (name, there) = dev::by_path(arguments.name, environment, interrupt).await?;
    let environment = there.as_ref().unwrap_or(environment);
    arguments.name = name;
    let said = |line: &str| output::note(&format!("{}\n", printable_line(line)));
    let colour = environment.colour.on_stdout();
    if arguments.undo {
        let target = target(arguments.name, environment, interrupt);
        let done = manage::take_back(&target, &said).await?;
        return undone(&done, &target.name, colour);
    }
    let (rest, whole) = match living::rest(&arguments.name, environment, interrupt).await? {
        // Its files are kept for something else, then.
        Uncommitted::Nothing => (None, false),
        Uncommitted::Commit { rest, whole } => (Some(rest), whole),
        Uncommitted::Worktree(path) => {
            let name = shell_word(&arguments.name);
            return Err(CliError::Failed {
                message: format!(
                    "nothing was changed: {name} has uncommitted work in its worktree {}, and no gate checks what you commit there",
                    shell_word(&path)
                ),
                hint: format!(
                    "commit it there, then give this again: git -C {path} add --all && git -C {path} commit && cofferdam \
                     apply {name}",
                    path = shell_word(&path)
                ),
            });
        }
    };
    let rest_came = rest.is_some();
    let lives_on = {
        let caller = living::caller(environment, interrupt);
        living::named_if_it_lives_on(&arguments.name, &caller, environment)
            .await?
            .is_some()
    };
    let target = target(arguments.name, environment, interrupt);
    let done = manage::apply(&target, rest, whole, &said).await?;
    let name = shell_word(&target.name);
    if done.beside > 0 {
        output::note(&format!(
            "note: {} of its work lie beside that: `cofferdam log {name}` lists them\n",
            human::plural(done.beside, "other end")
        ));
    }
    let why = match &done.applied {
        Applied::Nothing => {
            let label = paint("nothing:", style::WARNING, colour);
            output::data(&format!("{label} all work of {name} is here already\n"))?;
            return Ok(ExitCode::SUCCESS);
        }
        Applied::Done { .. } => {
            let label = paint("applied:", style::GOOD, colour);
            let mut text = format!("{label} the work of {name}, staged and not committed\n");
            for line in done.diffstat.lines() {
                text.push_str(&format!("  {}\n", printable_line(line.trim_start())));
            }
            let next = paint("undo:", style::HINT, colour);
            let mut then = format!("{next} cofferdam apply --undo {name}\n");
            if rest_came && !lives_on {
                let force = if whole { "" } else { " --force" };
                then.push_str(&format!(
                    "when you have committed it: cofferdam delete{force} {name}   # removes the sandbox\n"
                ));
            }
            text.push_str(&from_here(&then));
            output::data(&text)?;
            if !done.executes.is_empty() {
                let notice = Notice::Executes {
                    paths: done.executes,
                };
                output::note(&format!("note: {notice}\n"));
            }
            return Ok(ExitCode::SUCCESS);
        }
        Applied::Conflict(files) => {
            format!(
                "it conflicts with what is checked out in {}",
                files.join(", ")
            )
        }
        Applied::InTheWay(why) => why.clone(),
        Applied::Half(why) => {
            return Err(CliError::Failed {
                message: format!("not all of it is here: {}", printable_line(why)),
                hint: format!(
                    "make room where it lacks, then take it back with `cofferdam apply --undo {name}` or give this command again"
                ),
            });
        }
    };
    if let Some(names) = done.applied.stop_first() {
        return Err(CliError::Failed {
            message: format!("nothing was changed: {}", printable_line(&why)),
            hint: while_stopped(names, &format!("cofferdam apply {name}")),
        });
    }
    let elsewhere = if lives_on {
        format!(
            "look at it with `cofferdam diff --uncommitted {name}`, mend it in `cofferdam shell {name}`"
        )
    } else {
        format!("`cofferdam worktree {name}` gives it a directory of its own")
    };
    // What is committed here is in the way too, and no stash helps.
    let first = match &done.applied {
        Applied::Conflict(_) => format!(
            "`cofferdam merge {name}` says how its commits come in with git; what is uncommitted here can be committed or stashed first"
        ),
        _ => format!(
            "commit or stash what is yours, or take an earlier one back with `cofferdam apply --undo {name}`"
        ),
    };
    Err(CliError::Failed {
        message: format!("nothing was changed: {}", printable_line(&why)),
        hint: format!("{first}; {elsewhere}"),
    })
}

fn undone(done: &TakenBack, name: &str, colour: bool) -> Result<ExitCode, CliError> {
    let name = shell_word(name);
    let (message, hint) = match done {
        TakenBack::Done { left } if left.is_empty() => {
            let label = paint("taken back:", style::GOOD, colour);
            output::data(&format!(
                "{label} the work of {name} is out of this working tree\n"
            ))?;
            return Ok(ExitCode::SUCCESS);
        }
        TakenBack::Done { left } => (
            format!(
                "not as before, because they were changed since: {}",
                left.join(", ")
            ),
            "all else was taken back; see `git status`".to_owned(),
        ),
        TakenBack::Nothing => (
            format!("nothing of {name} is applied here"),
            format!("bring its work in with `cofferdam apply {name}`"),
        ),
        TakenBack::Committed => (
            "something was committed or checked out since, so nothing was changed".to_owned(),
            "take a commit back with `git revert`".to_owned(),
        ),
        TakenBack::InTheWay(why) => {
            let again = format!("cofferdam apply --undo {name}");
            (
                format!("nothing was changed: {}", printable_line(why)),
                match done.stop_first() {
                    Some(names) => while_stopped(names, &again),
                    None => format!("then give it again: `{again}`"),
                },
            )
        }
        TakenBack::Half(why) => (
            format!("not all of it is taken back: {}", printable_line(why)),
            format!(
                "make room where it lacks, then give it again: `cofferdam apply --undo {name}`"
            ),
        ),
    };
    Err(CliError::Failed { message, hint })
}

/// A command that changes the checkout, while nobody is at work in it.
fn while_stopped(names: &str, command: &str) -> String {
    format!("`cofferdam stop {names} && {command} && cofferdam start {names}`")
}
