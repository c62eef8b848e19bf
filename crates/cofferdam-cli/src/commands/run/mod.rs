//! `cofferdam run`: options of the command line become options of the library; the run is shown
//! while it goes on, and summed up at its end.

mod arguments;
pub(crate) mod go_on;
pub(crate) mod interactive;
mod life;
mod plan;
mod program;
mod prompt;
mod tasks;
mod wanted;

use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use cofferdam::registry;
use cofferdam::session::{Event, EventSink, Kept, Landing, Resume, RunErrorKind, RunReport};
use cofferdam::{RunError, RunOptions};
use serde::Serialize;

pub(crate) use arguments::Arguments;
pub(super) use arguments::{agents, parse_pair};
use life::Life;
pub(super) use prompt::{file, prompt_arguments};

use crate::commands::defaults::Defaults;
use crate::commands::{attach, keep_ready, living};
use crate::environment::Environment;
use crate::error::{self, CliError};
use crate::interrupt::{Interrupt, Stage};
use crate::ui::live::{Feed, Live, Mode, Stream};
use crate::ui::steps::{Narrator, Verbosity};
use crate::ui::{json, output, summary};

/// The exit code of one that was told to end: as by `SIGTERM`.
const TERMINATED: u8 = 143;

/// The last line of `--json`.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Last<'a> {
    Finished { report: &'a RunReport },
    Failed { error: String, kept: &'a Kept },
}

pub(crate) async fn run(
    arguments: Arguments,
    environment: &Environment,
) -> Result<ExitCode, CliError> {
    run_with(arguments, None, environment).await
}

/// The same, going on with an earlier conversation.
pub(crate) async fn run_with(
    arguments: Arguments,
    resume: Option<Resume>,
    environment: &Environment,
) -> Result<ExitCode, CliError> {
    let arguments = arguments.or(&Defaults::read(environment)?)?;
    let attended = arguments.attended;
    let mode = match (arguments.json, environment.live) {
        (true, _) => Mode::Json,
        // The terminal is the agent's.
        (false, _) if attended => Mode::Plain,
        (false, true) => Mode::Terminal,
        (false, false) => Mode::Plain,
    };
    let verbosity = match (arguments.quiet, arguments.verbose) {
        (true, _) => Verbosity::Quiet,
        (false, true) => Verbosity::Verbose,
        (false, false) => Verbosity::Normal,
    };
    if let Some(file) = arguments.plan.clone() {
        return Box::pin(tasks::run(arguments, &file, mode, verbosity, environment)).await;
    }
    let life = Life::of(&arguments);
    let by_default = !arguments.strategy.is_named() && !life.stays();
    let around = program::Surroundings::new(&arguments, environment);
    let quiet = arguments.quiet;
    let output_file = arguments.output_file.clone();
    let (provider, walled) = arguments.sandbox.kind();
    let mut options = plan::options(arguments, environment)?;
    options.task.resume = resume;

    let narrator = Narrator::new(verbosity, by_default).staying(life.stays());
    let colour = environment.colour;
    let live = Live::start(mode, Stream::Error, narrator, colour.on_stderr())
        .map_err(CliError::Runtime)?;
    options.caller.events = if attended {
        held(live.feed())
    } else {
        live.sink()
    };
    let leaving = life.leaving();
    let (interrupt, result) = supervise(options, live, &leaving, async |options| {
        life::work(options, &life).await
    })
    .await?;
    if let (Ok(report), Some(file)) = (&result, &output_file) {
        wanted::write(report, &environment.directory.join(file))?;
    }
    if result.is_ok() {
        keep_ready::after(provider, walled);
    }
    let made = match &result {
        Ok(report) => Some((report.id, &report.name)),
        Err(error) => error.kept.id.zip(error.kept.name.as_ref()),
    };
    let (still, ended) = match &result {
        Ok(report) => (report.still, report.ended),
        Err(error) => (error.kept.still, error.kept.ended),
    };
    if let (Some((_, name)), false) = (made, mode == Mode::Json || quiet) {
        living::stood_still(name.as_str(), still, ended);
    }
    let goes_on = match made {
        Some((id, name)) if life.stays() && registry::is_in_use(&environment.home, id) => {
            let caller = living::caller(environment, &interrupt);
            let text = if living::is_stopped(id, &caller, environment).await {
                format!("{name} was stopped: cofferdam start {name}\n")
            } else {
                format!("{name} goes on: cofferdam shell {name}\n")
            };
            Some((name.to_string(), text))
        }
        _ => None,
    };
    // By `delete --force`: as by a signal to end.
    let cancelled = |error: &RunError| matches!(error.kind, RunErrorKind::Cancelled);
    let taken_away = result.as_ref().is_err_and(cancelled).then_some(TERMINATED);
    let end = match result {
        Ok(report) => {
            let text = match mode {
                Mode::Json => json::event(&Last::Finished { report: &report })?,
                Mode::Plain | Mode::Terminal => summary::render(&report, colour.on_stdout()),
            };
            output::data(&text)?;
            let code = exit_code(&report, life.stays());
            let own = report.iterations.first().and_then(|one| one.exit);
            Ok(match own {
                Some(exit) if attended && code == ExitCode::SUCCESS => {
                    ExitCode::from(attach::code(exit))
                }
                _ => code,
            })
        }
        Err(error) => {
            if mode == Mode::Json {
                let last = Last::Failed {
                    error: error::message(&error),
                    kept: &error.kept,
                };
                output::data(&json::event(&last)?)?;
            }
            Err(around.explain(error, &life, environment))
        }
    };
    if let (Some((name, text)), false) = (&goes_on, mode == Mode::Json || quiet) {
        living::tell_uncommitted(name, environment, &interrupt).await;
        output::note(text);
    }
    match (interrupt.code().or(taken_away), end) {
        (None, end) => end,
        (Some(code), end) => {
            if let Err(error) = end {
                output::note(&error::render(&error, colour.on_stderr()));
            }
            Err(CliError::Interrupted { code })
        }
    }
}

/// What happens while the agent has the terminal is said when it has it no more.
fn held(feed: Feed) -> EventSink {
    let held: Mutex<Option<Vec<Event>>> = Mutex::new(None);
    EventSink::new(move |event| {
        let mut held = held.lock().unwrap_or_else(PoisonError::into_inner);
        match (event, held.as_mut()) {
            (Event::IterationStarted { .. }, _) => *held = Some(Vec::new()),
            (Event::IterationFinished { .. }, _) => {
                for event in held.take().unwrap_or_default() {
                    feed.event(&event);
                }
                feed.event(event);
            }
            (_, Some(waiting)) => waiting.push(event.clone()),
            (_, None) => feed.event(event),
        }
    })
}

/// What is said of a run that is left before its commits are home.
pub(crate) const LEAVING: &str = "leaving at once; `cofferdam gc` brings home what is left";

/// Runs it by `work` under the user's signals, until the live view has shown everything. `leaving`: what is said at the
/// second one.
pub(crate) async fn supervise(
    mut options: RunOptions,
    live: Live,
    leaving: &str,
    work: impl AsyncFnOnce(RunOptions) -> Result<RunReport, RunError>,
) -> Result<(Interrupt, Result<RunReport, RunError>), CliError> {
    let feed = live.feed();
    let leaving = leaving.to_owned();
    let interrupt = Interrupt::listen(move |stage| announce(&feed, stage, &leaving))
        .map_err(CliError::Runtime)?;
    options.caller.cancel = interrupt.cancel.clone();
    options.caller.abandon = interrupt.abandon.clone();
    let result = Box::pin(work(options)).await;
    live.finish().await;
    Ok((interrupt, result))
}

fn announce(feed: &Feed, stage: Stage, leaving: &str) {
    feed.say(match stage {
        Stage::First => {
            "stopping the agent and bringing its commits home; Ctrl-C again to leave at once"
        }
        Stage::Second => leaving,
    });
}

/// A run whose commits did not land where they should is no success. Those of a sandbox that stays wait on its own
/// branch for `merge`.
fn exit_code(report: &RunReport, stays: bool) -> ExitCode {
    match &report.landing {
        Landing::Kept { reference, .. } if stays && *reference == report.source_branch => {
            ExitCode::SUCCESS
        }
        Landing::Nothing | Landing::Landed { .. } => ExitCode::SUCCESS,
        Landing::Kept { .. } | Landing::Refused { .. } => ExitCode::FAILURE,
    }
}
