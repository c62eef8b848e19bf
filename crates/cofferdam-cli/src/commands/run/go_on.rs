//! `cofferdam continue`: the agent, the branch and the conversation of an earlier run, and what is asked now.

use std::process::ExitCode;

use clap::Args;
use cofferdam::names::BranchName;
use cofferdam::registry::{self, Strategy};
use cofferdam::runs::{RunRecord, Status};
use cofferdam::session::Resume;
use cofferdam::session::manage::{self, DeleteOptions, ManageError};
use cofferdam::text::printable_line;

use super::Arguments as Run;
use crate::commands::{here, runs};
use crate::environment::Environment;
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::ui::shell::shell_word;
use crate::ui::{output, recovered};

/// What an agent is told that goes on with its own conversation, where its user says nothing else.
const GO_ON: &str = "Go on where you were.";

/// Go on with the conversation of an agent that ran before
///
/// The same agent goes on where it was: in the sandbox of that run, where it is still there, else in one of its own on the branch of that
/// run, or where it was merged on what is checked out. What `cofferdam run` takes is taken here too.
#[derive(Debug, Args)]
#[group(id = "Continue")]
pub(crate) struct Arguments {
    /// The run: its id, as `cofferdam runs` lists it, or the name of its sandbox for the newest one there
    #[arg(value_name = "SANDBOX|RUN")]
    of: String,

    /// Go on with a copy, and leave the conversation as it was: several can go on from one
    #[arg(long, help_heading = "Agent")]
    fork: bool,

    /// Work with it at its own terminal interface, as with `cofferdam interactive`
    #[arg(long, help_heading = "Agent")]
    interactive: bool,

    #[command(flatten)]
    run: Run,
}

pub(crate) async fn run(
    arguments: Arguments,
    environment: &Environment,
) -> Result<ExitCode, CliError> {
    let Arguments {
        of,
        fork,
        interactive,
        mut run,
    } = arguments;
    if run.plan.is_some() {
        return Err(CliError::Misused {
            message: "a plan has no conversation that could go on".to_owned(),
            hint: "the same `cofferdam run --plan` goes on where it was".to_owned(),
        });
    }
    if interactive {
        super::interactive::attend(&mut run)?;
    }
    let interrupt = Interrupt::quiet().map_err(CliError::Runtime)?;
    let (record, status) = runs::find(&of, environment, &interrupt).await?;
    if status == Status::AtWork {
        return Err(cofferdam::runs::RunsError::AtWork(record.id).into());
    }
    let Some(mut resume) = Resume::of(&environment.home, &record) else {
        let sandbox = registry::load(&environment.home, record.sandbox);
        let within = match sandbox
            .as_ref()
            .map(|sandbox| (sandbox.lives_on(), &sandbox.name))
        {
            Ok((true, name)) => format!(" --in {name}"),
            _ => String::new(),
        };
        return Err(CliError::Failed {
            message: format!("run {} had no conversation that could go on", record.id),
            hint: if record.agent == "command" {
                format!(
                    "a program of your own keeps none: start it again with `cofferdam run{within} -- PROGRAM`"
                )
            } else {
                format!(
                    "begin another one with `cofferdam run{within} --agent {} --prompt '…'`",
                    record.agent
                )
            },
        });
    };
    resume.fork = fork;
    as_before(&mut run, &record)?;
    if run.prompt.is_none() && run.prompt_file.is_none() && !interactive {
        run.prompt = Some(GO_ON.to_owned());
    }
    let is_there =
        registry::load(&environment.home, record.sandbox).is_ok_and(|sandbox| sandbox.lives_on());
    if record.ended.is_none() && !is_there {
        bring_home(&record, environment, &interrupt).await?;
    }
    if run.within.is_none() && !run.strategy.is_named() {
        if is_there && !run.sandbox.is_chosen() {
            not_made_anew(&run, &record, environment)?;
            run.within = Some(record.sandbox.to_string());
        } else if let Some(branch) = branch(&record, environment, &interrupt).await? {
            run.strategy.branch = Some(branch);
        }
    }
    if run.within.is_none() {
        if record.made_room(&environment.home) {
            return Err(made_room(&record));
        }
        run.sandbox.put_where(&record);
    }
    drop(interrupt);
    Box::pin(super::run_with(run, Some(resume), environment)).await
}

/// What the agent of a run committed whose command died is what it goes on from.
async fn bring_home(
    record: &RunRecord,
    environment: &Environment,
    interrupt: &Interrupt,
) -> Result<(), CliError> {
    let target = here::target(record.sandbox.to_string(), environment, interrupt);
    if let Some(one) = manage::bring_home(&target, DeleteOptions::default()).await? {
        output::note(&format!("{}\n", recovered::line(&one)));
        for line in recovered::of_the_users(&one) {
            output::note(&format!("note: {line}\n"));
        }
    }
    Ok(())
}

/// Refuses what counts when a sandbox is made, as `--in` does: the run's own is there.
fn not_made_anew(run: &Run, record: &RunRecord, environment: &Environment) -> Result<(), CliError> {
    let named = run.name.is_some().then_some("--name");
    let kept = run.keep.then_some("--keep");
    let Some(flag) = run.sandbox.given().or(named).or(kept) else {
        return Ok(());
    };
    let sandbox = registry::load(&environment.home, record.sandbox);
    let sandbox = sandbox.map_or(record.sandbox.to_string(), |one| one.name.to_string());
    Err(CliError::Misused {
        message: format!(
            "`{flag}` is for a sandbox that is made, and run {} goes on in `{sandbox}`, which is there",
            record.id
        ),
        hint: format!("leave it out, or remove that sandbox first: `cofferdam delete {sandbox}`"),
    })
}

/// Without its files the agent would know nothing of it.
fn made_room(record: &RunRecord) -> CliError {
    CliError::Failed {
        message: format!(
            "the conversation of run {} has made room for newer ones, and cannot go on",
            record.id
        ),
        hint: format!(
            "begin another one on its branch: `cofferdam run --agent {} --branch {} --prompt '…'`; what it said is in `cofferdam logs {}`",
            record.agent,
            shell_word(printable_line(&record.branch)),
            record.id
        ),
    }
}

/// The agent as it was; a conversation is its own.
fn as_before(run: &mut Run, record: &RunRecord) -> Result<(), CliError> {
    if let Some(other) = run.agent.as_ref().filter(|agent| **agent != record.agent) {
        return Err(CliError::Misused {
            message: format!(
                "the conversation of run {} is one of {}, not of {other}",
                record.id, record.agent
            ),
            hint: "leave out `--agent`".to_owned(),
        });
    }
    run.agent = Some(record.agent.clone());
    run.model = run.model.take().or_else(|| record.model.clone());
    run.effort = run.effort.take().or_else(|| record.effort.clone());
    if run.command.is_empty() {
        run.command = record.options().arguments;
    }
    Ok(())
}

/// The branch that the run worked on, where it is one of the repository's and not the one that is checked out. One that it was told to
/// make and never had anything to put on is made now.
async fn branch(
    record: &RunRecord,
    environment: &Environment,
    interrupt: &Interrupt,
) -> Result<Option<BranchName>, CliError> {
    if record.strategy == Strategy::Head {
        return Ok(None);
    }
    let Ok(branch) = record.branch.parse::<BranchName>() else {
        return Ok(None);
    };
    let repository = here::repository(environment, interrupt).await?;
    // What was checked out since is worked on as anything that is checked out.
    if repository.head.branch() == Some(&branch) {
        return Ok(None);
    }
    let reference = format!("refs/heads/{branch}");
    let there = repository.resolve(&reference, &interrupt.cancel).await;
    let there = there.map_err(ManageError::from)?.is_some();
    let commits = record.ended.as_ref().map_or(0, |ended| ended.commits);
    let is_to_be_made = record.strategy == Strategy::Branch && commits == 0;
    Ok((there || is_to_be_made).then_some(branch))
}
