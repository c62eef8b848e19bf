//! `cofferdam run --plan`: many tasks, each a run of its own.

use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;

use cofferdam::plan::{
    Failure, MAX_FILE, Plan, PlanFileError, PlanOptions, PlanReport, PlanRunError, TaskEnd,
    TaskReport,
};
use cofferdam::text::printable_line;
use serde::Serialize;

use super::arguments::Arguments;
use super::plan;
use crate::environment::Environment;
use crate::error::{self, CliError};
use crate::input;
use crate::interrupt::{Interrupt, Stage};
use crate::ui::live::Mode;
use crate::ui::shell::shell_word;
use crate::ui::steps::Verbosity;
use crate::ui::style::{self, paint};
use crate::ui::tasks::TasksView;
use crate::ui::{human, json, output, table};

/// The last line of `--json`.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Last<'a> {
    PlanFinished { tasks: Vec<Row<'a>> },
}

#[derive(Debug, Serialize)]
struct Row<'a> {
    task: &'a str,
    branch: &'a str,
    /// "done", "done_before", "failed", "skipped" or "not_started".
    end: &'static str,
    commits: usize,
    /// The command that merges its branch.
    next: Option<String>,
}

pub(super) async fn run(
    mut arguments: Arguments,
    file: &Path,
    mode: Mode,
    verbosity: Verbosity,
    environment: &Environment,
) -> Result<ExitCode, CliError> {
    let plan = read(file, environment)?;
    if arguments.agent.is_none() && arguments.command.is_empty() {
        // Nobody asks for it where every task names its own.
        let tasks = plan.tasks();
        if tasks.iter().all(|task| task.agent.agent.is_some()) {
            arguments.agent.clone_from(&tasks[0].agent.agent);
        }
    }
    let (jobs, again) = (arguments.jobs, arguments.again);
    let most_iterations = arguments.max_iterations;
    let each = plan::of_each(&arguments, environment)?;
    let names = plan.tasks().iter().map(|task| task.name.to_string());
    let colour = environment.colour;
    let view = TasksView::start(mode, names.collect(), verbosity, colour.on_stderr())
        .map_err(CliError::Runtime)?;
    let feed = view.feed();
    let interrupt = Interrupt::listen(move |stage| {
        feed.say(match stage {
            Stage::First => {
                "stopping the agents and bringing their commits home; Ctrl-C again to leave at once"
            }
            Stage::Second => super::LEAVING,
        });
    })
    .map_err(CliError::Runtime)?;
    let mut options = PlanOptions::new(plan, each);
    options.jobs = jobs.unwrap_or(options.jobs);
    options.again = again;
    options.most_iterations = most_iterations;
    options.events = view.sink();
    options.each.caller.cancel = interrupt.cancel.clone();
    options.each.caller.abandon = interrupt.abandon.clone();
    let result = Box::pin(cofferdam::plan::run(options)).await;
    view.finish().await;
    let report = match result {
        Err(PlanRunError::Cancelled) if let Some(code) = interrupt.code() => {
            return Err(CliError::Interrupted { code });
        }
        result => result?,
    };
    if mode == Mode::Json {
        let tasks = report.tasks.iter().map(row).collect();
        output::data(&json::event(&Last::PlanFinished { tasks })?)?;
    } else {
        tell_failures(&report, colour.on_stderr());
        output::data(&summary(&report, again, colour.on_stdout()))?;
    }
    if let Some(code) = interrupt.code() {
        output::note(&format!(
            "stopped: the same command{} goes on where it was\n",
            without_again(again)
        ));
        return Err(CliError::Interrupted { code });
    }
    if report.is_success() {
        return Ok(ExitCode::SUCCESS);
    }
    Ok(if only_limits(&report) {
        ExitCode::from(error::LATER)
    } else {
        ExitCode::FAILURE
    })
}

/// Whether nothing but a model's limit kept any task from its end.
fn only_limits(report: &PlanReport) -> bool {
    let mut failed = report.tasks.iter().filter_map(|task| match &task.end {
        TaskEnd::Failed(failure) => Some(failure),
        _ => None,
    });
    failed.all(|failure| matches!(failure, Failure::Run(why) if error::is_quota(why)))
}

fn read(file: &Path, environment: &Environment) -> Result<Plan, CliError> {
    let directory = &environment.directory;
    if file != Path::new("-") {
        return match Plan::read(&directory.join(file)) {
            Err(PlanFileError::Content {
                at, field, fault, ..
            }) => Err(PlanFileError::Content {
                path: file.to_owned(),
                at,
                field,
                fault,
            }
            .into()),
            plan => Ok(plan?),
        };
    }
    let text = input::read(input::Need::Certain)?.ok_or(input::PromptInputError::NothingPiped)?;
    if text.len() as u64 > MAX_FILE {
        return Err(CliError::Failed {
            message: "the plan on standard input is larger than 1 MiB".to_owned(),
            hint: "make several plans of it".to_owned(),
        });
    }
    Ok(Plan::from_text(
        &text,
        Path::new("standard input"),
        directory,
    )?)
}

/// Why each that failed did, what is kept of it, and what helps.
fn tell_failures(report: &PlanReport, colour: bool) {
    for task in &report.tasks {
        let TaskEnd::Failed(failure) = &task.end else {
            continue;
        };
        let name = paint(&format!("{}:", task.name), style::STRONG, colour);
        output::note(&format!("\n{name}\n{}", error::of_task(failure, colour)));
    }
}

/// What the same command is not given the next time, as it would do all of it once more.
fn without_again(again: bool) -> &'static str {
    if again { " without `--again`" } else { "" }
}

/// A line for each, and the next commands.
fn summary(report: &PlanReport, again: bool, colour: bool) -> String {
    let mut rows = Vec::new();
    for task in &report.tasks {
        let row = row(task);
        let commits = if task.commits == 0 && !task.end.is_good() {
            "-".to_owned()
        } else {
            human::plural(task.commits, "commit")
        };
        rows.push(vec![
            row.task.to_owned(),
            end(task),
            commits,
            printable_line(row.branch),
            row.next.unwrap_or_default(),
        ]);
    }
    let mut out = String::from("\n");
    out.push_str(&table::render(
        &["TASK", "END", "COMMITS", "BRANCH", "NEXT"],
        &rows,
    ));
    let good = report.tasks.iter().filter(|task| task.end.is_good());
    let (good, all) = (good.count(), report.tasks.len());
    let tasks = human::plural(all, "task");
    let _ = if good == all {
        let said = paint("done:", style::GOOD, colour);
        writeln!(out, "{said} {good} of {tasks}")
    } else {
        let verb = if all == 1 { "is" } else { "are" };
        let said = format!("{good} of {tasks} {verb} done");
        let said = paint(&said, style::ERROR, colour);
        let rest = without_again(again);
        writeln!(out, "{said}; the same command{rest} runs what is left")
    };
    out
}

/// How it ended, in a few words.
fn end(task: &TaskReport) -> String {
    match &task.end {
        TaskEnd::Done if task.review.is_some() => "done, reviewed".to_owned(),
        TaskEnd::Done => "done".to_owned(),
        TaskEnd::Before => "done before".to_owned(),
        TaskEnd::Failed(Failure::Run(error))
            if matches!(error.kind, cofferdam::session::RunErrorKind::Cancelled) =>
        {
            "stopped".to_owned()
        }
        TaskEnd::Failed(_) => "failed".to_owned(),
        TaskEnd::Skipped { after } => format!("skipped after {after}"),
        TaskEnd::NotStarted => "not started".to_owned(),
    }
}

fn row(task: &TaskReport) -> Row<'_> {
    let with =
        |command: &str, name: &str| format!("{command} {}", shell_word(printable_line(name)));
    let next = match &task.sandbox {
        _ if task.commits == 0 || !task.end.is_good() => None,
        Some(sandbox) => Some(with("cofferdam merge", sandbox.as_str())),
        None => task
            .merged_by_git
            .then(|| with("git merge", task.branch.as_str())),
    };
    Row {
        task: task.name.as_str(),
        branch: task.branch.as_str(),
        end: match &task.end {
            TaskEnd::Done => "done",
            TaskEnd::Before => "done_before",
            TaskEnd::Failed(_) => "failed",
            TaskEnd::Skipped { .. } => "skipped",
            TaskEnd::NotStarted => "not_started",
        },
        commits: task.commits,
        next,
    }
}
