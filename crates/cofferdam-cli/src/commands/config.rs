//! `cofferdam config`.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use cofferdam::config::{self, Effective, Merged, Problem, Source, Valued, Variable};
use cofferdam::git::RepositoryError;
use cofferdam::session::manage::ManageError;
use cofferdam::text::printable_line;
use serde_json::{Value, json};

use super::defaults::{Defaults, known};
use super::here::repository;
use crate::environment::Environment;
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::ui::output;

/// Show what the configuration says here, and where each value comes from
///
/// Your own `config.yaml` and the repository's `.cofferdam/config.yaml` together, without what waits for `cofferdam approve`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,

    /// One JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Read both files, and fail where one of them cannot be used
    Check,
}

pub(crate) async fn run(
    arguments: &Arguments,
    environment: &Environment,
    interrupt: &Interrupt,
) -> Result<ExitCode, CliError> {
    let top = match repository(environment, interrupt).await {
        Ok(found) => Some(found.top),
        Err(ManageError::Repository(RepositoryError::NotARepository { .. })) => None,
        Err(error) => return Err(error.into()),
    };
    let of = top.as_ref().map(|top| (top.as_path(), top));
    let found = config::effective(&environment.home, of);
    let wrong: Vec<String> = (found.problems.iter())
        .map(|problem| printable_line(&problem.to_string()))
        .collect();
    if let Some(Command::Check) = arguments.command {
        if let Some(first) = found.problems.first() {
            return Err(CliError::Failed {
                message: wrong.join("\n"),
                hint: match first {
                    Problem::Config(error) => format!(
                        "mend it at that place, as in docs/configuration.md; nothing of the file counts until then ({})",
                        printable_line(&error.path().to_string_lossy())
                    ),
                    Problem::Approvals(_) => {
                        "nothing is approved until then: see `cofferdam approve --list`".to_owned()
                    }
                },
            });
        }
        if let Some(agent) = &Defaults::read(environment)?.agent {
            known(agent)?;
        }
        let waits = found.waiting.len();
        output::note(&match waits {
            0 => "good\n".to_owned(),
            1 => "good; 1 line waits for `cofferdam approve`\n".to_owned(),
            _ => format!("good; {waits} lines wait for `cofferdam approve`\n"),
        });
        return Ok(ExitCode::SUCCESS);
    }
    let rows = rows(&found.config);
    output::data(&if arguments.json {
        let value = object(&rows, &found);
        format!("{value}\n")
    } else {
        text(&rows, &found)
    })?;
    for problem in &wrong {
        output::note(&format!("problem: {problem}\n"));
    }
    Ok(if wrong.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// One value, and where it stands.
struct Row {
    key: String,
    value: String,
    /// The same as people write it, where that is something else.
    written: Option<String>,
    from: String,
}

fn row<T>(key: impl Into<String>, value: String, one: &Valued<T>) -> Row {
    Row {
        key: key.into(),
        value,
        written: None,
        from: from(one.source, one.line),
    }
}

fn rows(config: &Merged) -> Vec<Row> {
    let mut rows = Vec::new();
    match &config.allow {
        None => rows.push(Row {
            key: "firewall.allow".to_owned(),
            value: "the built-in list: `cofferdam net rules` shows it".to_owned(),
            written: None,
            from: "built in".to_owned(),
        }),
        Some(rules) => rows.extend(
            rules
                .iter()
                .map(|one| row("firewall.allow", one.value.to_string(), one)),
        ),
    }
    let added = config.allow_of_repository.iter();
    rows.extend(added.map(|one| row("firewall.allow", one.value.to_string(), one)));
    rows.extend(config.sync.iter().map(|one| {
        let rule = &one.value;
        let value = format!(
            "{} to {}, mode {:04o}, owner {}",
            rule.src, rule.dest, rule.mode, rule.owner
        );
        row("sync", value, one)
    }));
    rows.extend(config.env.iter().map(|(name, one)| {
        let value = match &one.value {
            Variable::Text(text) => text.clone(),
            Variable::OfHost(host) => format!("${host}"),
        };
        row(format!("env.{name}"), value, one)
    }));
    rows.extend(config.on_sync.iter().map(|one| {
        let hook = &one.value;
        let root = if hook.root { " (root)" } else { "" };
        let value = match &hook.name {
            Some(name) => format!("{name}{root}: {}", hook.command),
            None => format!("{}{root}", hook.command),
        };
        row("on_sync", value, one)
    }));
    let settings = config.settings.values();
    rows.extend(settings.map(|one| Row {
        written: Some(one.value.written()),
        ..row(one.value.key(), one.value.to_string(), one)
    }));
    for (key, paths) in [("hide", &config.hide), ("protect", &config.protect)] {
        let paths = paths.iter();
        rows.extend(paths.map(|one| row(key, one.value.display().to_string(), one)));
    }
    let setup = config.setup.iter();
    rows.extend(setup.map(|one| row("setup", one.value.clone(), one)));
    rows.extend(config.checks.iter().map(|one| {
        let check = &one.value;
        let name = check.name.as_ref();
        let name = name.map_or_else(String::new, |name| format!("{name}: "));
        row("gate.checks", format!("{name}{}", check.command), one)
    }));
    rows
}

fn from(source: Source, line: u64) -> String {
    format!("{}:{line}", source.file())
}

fn text(rows: &[Row], found: &Effective) -> String {
    let mut text = String::new();
    for row in rows {
        let value = row.written.as_ref().unwrap_or(&row.value);
        let (key, value) = (printable_line(&row.key), printable_line(value));
        text.push_str(&format!("{key}: {value}  # {}\n", row.from));
    }
    for one in &found.waiting {
        let (asked, file) = (printable_line(&one.text), config::OF_REPOSITORY);
        text.push_str(&format!(
            "# waits for `cofferdam approve`: {asked}  # {file}:{}\n",
            one.line
        ));
    }
    text
}

fn object(rows: &[Row], found: &Effective) -> Value {
    let values = rows
        .iter()
        .map(|row| json!({"key": row.key, "value": row.value, "from": row.from}));
    let waiting = (found.waiting.iter()).map(|one| json!({"asked": one.text, "line": one.line}));
    let problems = found.problems.iter().map(ToString::to_string);
    json!({
        "values": values.collect::<Vec<_>>(),
        "waiting": waiting.collect::<Vec<_>>(),
        "problems": problems.collect::<Vec<_>>(),
    })
}
