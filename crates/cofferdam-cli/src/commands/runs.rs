//! `cofferdam runs`: what agents were asked, and what came of it, also where their sandboxes are gone.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use cofferdam::agent::Usage;
use cofferdam::names::RepoPath;
use cofferdam::runs::{self, RunRecord, Status};
use cofferdam::text::printable_line;
use jiff::Timestamp;
use serde::Serialize;

use super::here;
use crate::environment::Environment;
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::ui::{facts, human, json, output, table};

/// List the runs of agents in this repository, newest first
///
/// A run stays known when its sandbox is gone: what was asked, how it ended, what it used, and the agent's conversation, with which
/// `cofferdam continue` goes on. The newest thousand are kept.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,

    /// Of all repositories
    #[arg(long)]
    all_repos: bool,

    /// A list of objects
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show one: what was asked, and each start of the agent
    Show {
        /// Its id, or the name of its sandbox for the newest one there
        #[arg(value_name = "SANDBOX|RUN")]
        run: String,
        /// An object
        #[arg(long)]
        json: bool,
    },
    /// Write what was kept of the agent's conversations into a new directory
    ///
    /// The files are the agent's own, as it left them: it may have written anything into them.
    Export {
        /// Its id, or the name of its sandbox for the newest one there
        #[arg(value_name = "SANDBOX|RUN")]
        run: String,
        /// The directory, which must not be there yet
        #[arg(value_name = "DIR")]
        to: PathBuf,
    },
    /// Forget runs that have ended, with their conversations
    Remove {
        /// Their ids, or the names of their sandboxes for the newest one there
        #[arg(required = true, value_name = "SANDBOX|RUN")]
        runs: Vec<String>,
    },
}

pub(crate) async fn run(
    arguments: &Arguments,
    environment: &Environment,
    interrupt: &Interrupt,
) -> Result<ExitCode, CliError> {
    match &arguments.command {
        None => list(arguments, environment, interrupt).await?,
        Some(Command::Show { run, json }) => {
            let (record, status) = find(run, environment, interrupt).await?;
            if *json {
                output::data(&json::line(&Told::of(&record, status))?)?;
            } else {
                output::data(&facts::lines(&lines(&record, status)))?;
                output::note(&next(&record, status));
            }
        }
        Some(Command::Export { run, to }) => {
            let (record, _) = find(run, environment, interrupt).await?;
            let to = environment.directory.join(to);
            let files = runs::export(&environment.home, &record, &to)?;
            output::note(&format!(
                "{} in {}\n",
                human::plural(files, "file"),
                to.display()
            ));
        }
        Some(Command::Remove { runs }) => {
            for name in runs {
                let (record, _) = find(name, environment, interrupt).await?;
                runs::remove(&environment.home, record.id)?;
                output::note(&format!("forgot run {}\n", record.id));
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The run of that id, or the newest in a sandbox of that name.
pub(super) async fn find(
    name: &str,
    environment: &Environment,
    interrupt: &Interrupt,
) -> Result<(RunRecord, Status), CliError> {
    let top = here::repository(environment, interrupt).await?.top;
    Ok(runs::find(&environment.home, top.as_path(), name)?)
}

async fn list(
    arguments: &Arguments,
    environment: &Environment,
    interrupt: &Interrupt,
) -> Result<(), CliError> {
    let top = if arguments.all_repos {
        None
    } else {
        Some(here::repository(environment, interrupt).await?.top)
    };
    let top = top.as_ref().map(RepoPath::as_path);
    let found = runs::list(&environment.home, top)?;
    if arguments.json {
        let all: Vec<Told<'_>> = found
            .iter()
            .map(|(record, status)| Told::of(record, *status))
            .collect();
        output::data(&json::line(&all)?)?;
        return Ok(());
    }
    if found.is_empty() {
        output::note("no agent has run here; `cofferdam run` lets one work\n");
        return Ok(());
    }
    let now = Timestamp::now();
    let rows: Vec<Vec<String>> = found
        .iter()
        .map(|(record, status)| {
            vec![
                record.id.to_string(),
                record.name.to_string(),
                record.agent.clone(),
                outcome(record, *status).to_owned(),
                record.iterations.len().to_string(),
                commits(record),
                tokens(record.usage()),
                cost(record.usage()),
                human::age(record.began, now),
                record.task.clone(),
            ]
        })
        .collect();
    let head = [
        "RUN",
        "NAME",
        "AGENT",
        "OUTCOME",
        "ITERATIONS",
        "COMMITS",
        "TOKENS",
        "COST",
        "AGE",
        "TASK",
    ];
    output::data(&table::render_within(
        &head,
        &rows,
        environment.columns,
        head.len() - 1,
    ))?;
    Ok(())
}

fn outcome(record: &RunRecord, status: Status) -> &'static str {
    match (status, &record.ended) {
        (Status::AtWork, _) => "at work",
        (_, None) => "interrupted",
        (_, Some(ended)) => match (&ended.error, &ended.completion) {
            (Some(_), _) => "failed",
            (None, Some(_)) => "complete",
            (None, None) => "ended",
        },
    }
}

fn commits(record: &RunRecord) -> String {
    let ended = record.ended.as_ref();
    ended.map_or_else(|| "-".to_owned(), |ended| ended.commits.to_string())
}

fn cost(usage: Usage) -> String {
    let cost = usage.cost_micro_usd;
    cost.map_or_else(|| "-".to_owned(), human::dollars)
}

fn tokens(usage: Usage) -> String {
    match usage.tokens() {
        0 => "-".to_owned(),
        sum => human::count(sum),
    }
}

/// A run, as scripts get it.
#[derive(Debug, Serialize)]
struct Told<'a> {
    #[serde(flatten)]
    record: &'a RunRecord,
    outcome: &'static str,
    usage: Usage,
}

impl<'a> Told<'a> {
    fn of(record: &'a RunRecord, status: Status) -> Self {
        Self {
            record,
            outcome: outcome(record, status),
            usage: record.usage(),
        }
    }
}

fn lines(record: &RunRecord, status: Status) -> Vec<(&'static str, String)> {
    let mut lines = vec![
        ("run", record.id.to_string()),
        ("name", record.name.to_string()),
        ("task", printable_line(&record.task)),
        ("agent", agent(record)),
        ("outcome", outcome(record, status).to_owned()),
        ("branch", printable_line(&record.branch)),
    ];
    if let Some(before) = record.continues {
        let how = if record.fork { "a copy of" } else { "" };
        lines.push(("after", format!("{how} {before}").trim().to_owned()));
    }
    if let Some(ended) = &record.ended {
        lines.extend(ended.error.iter().map(|why| ("error", printable_line(why))));
        lines.extend(
            ended
                .landing
                .iter()
                .map(|landing| ("home", printable_line(landing))),
        );
        lines.push(("commits", ended.commits.to_string()));
    }
    let used = record.usage();
    if used.tokens() > 0 {
        lines.push(("tokens", tokens(used)));
    }
    if used.cost_micro_usd.is_some() {
        lines.push(("cost", cost(used)));
    }
    for one in &record.iterations {
        let how = one
            .exit
            .map_or_else(|| "cut short".to_owned(), |exit| exit.to_string());
        let used = one
            .usage
            .map_or_else(String::new, |usage| format!(", {} tokens", tokens(usage)));
        let session = one.session.as_ref().map_or_else(String::new, |session| {
            format!(", conversation {}", printable_line(session))
        });
        lines.push(("start", format!("{}: {how}{used}{session}", one.number)));
    }
    if let Some(log) = &record.log {
        let path = cofferdam::text::printable_path(&log.0);
        let size = std::fs::metadata(&log.0).ok().map(|found| found.len());
        let size = size.map_or_else(|| "it was removed".to_owned(), human::size);
        lines.push(("log", format!("{path} ({size})")));
    }
    lines.push(("age", human::age(record.began, Timestamp::now())));
    lines
}

fn agent(record: &RunRecord) -> String {
    let mut text = record.agent.clone();
    for more in [&record.model, &record.effort].into_iter().flatten() {
        text.push_str(", ");
        text.push_str(more);
    }
    printable_line(&text)
}

fn next(record: &RunRecord, status: Status) -> String {
    match status {
        Status::AtWork => format!(
            "see what it does with: cofferdam logs {} run --follow\n",
            record.name
        ),
        _ if record.has_kept() => {
            format!("go on with it: cofferdam continue {}\n", record.id)
        }
        _ => String::new(),
    }
}
