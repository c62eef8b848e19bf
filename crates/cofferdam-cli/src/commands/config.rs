//! `cofferdam config`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use cofferdam::config::{self, Effective, Merged, Problem, Setting, Source, Valued, Variable};
use cofferdam::git::RepositoryError;
use cofferdam::names::RepoPath;
use cofferdam::session::doubts;
use cofferdam::session::manage::ManageError;
use cofferdam::text::printable_line;
use cofferdam::wall::{Rule, Target};
use serde_json::{Value, json};

use super::defaults::{Defaults, known};
use super::here::repository;
use super::living;
use crate::environment::Environment;
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::ui::style::{self, paint};
use crate::ui::{human, output};

/// Show what the configuration says here, and where each value comes from
///
/// Your own `config.yaml` and the repository's `.cofferdam/config.yaml` together, without what waits for `cofferdam approve`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,

    /// One object: `values`, each with `key`, `value` and `from`; `waiting` and `problems`
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Read both files, and fail where one of them cannot be used
    ///
    /// What they name and this machine does not have is a warning.
    Check,
}

pub(crate) async fn run(
    arguments: &Arguments,
    environment: &Environment,
    interrupt: &Interrupt,
) -> Result<ExitCode, CliError> {
    let repository = match repository(environment, interrupt).await {
        Ok(found) => Some(found),
        Err(ManageError::Repository(RepositoryError::NotARepository { .. })) => None,
        Err(error) => return Err(error.into()),
    };
    let top = repository.as_ref().map(|found| &found.top);
    let of = top.map(|top| (top.as_path(), top));
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
        let caller = living::caller(environment, interrupt);
        let doubts = doubts(&caller, repository.as_ref()).await;
        let doubts = doubts.map_err(ManageError::from)?;
        let label = paint("warning:", style::WARNING, environment.colour.on_stderr());
        for doubt in &doubts {
            output::note(&format!("{label} {}\n", printable_line(&doubt.to_string())));
        }
        let read = match doubts.len() {
            0 => "good".to_owned(),
            count => format!("it can be read; {}", human::plural(count, "warning")),
        };
        let waits = match found.waiting.len() {
            0 => String::new(),
            1 => "; 1 line waits for `cofferdam approve`".to_owned(),
            count => format!("; {count} lines wait for `cofferdam approve`"),
        };
        output::note(&format!("{read}{waits}\n"));
        return Ok(ExitCode::SUCCESS);
    }
    let rows = rows(&found.config);
    output::data(&if arguments.json {
        let top = top.map(RepoPath::as_path);
        let place = |source| match (source, top) {
            (Source::Repository, Some(top)) => config::path_in(top),
            _ => environment.home.config(),
        };
        let value = object(&rows, &found, &place)?;
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
    /// For people, on one line.
    text: String,
    /// For programs, in the words of the file.
    value: Value,
    source: Source,
    line: u64,
}

fn row<T>(key: impl Into<String>, text: impl Into<String>, value: Value, one: &Valued<T>) -> Row {
    Row {
        key: key.into(),
        text: text.into(),
        value,
        source: one.source,
        line: one.line,
    }
}

fn rows(config: &Merged) -> Vec<Row> {
    let mut rows = Vec::new();
    let rules = config.allow.iter().flatten();
    let rules = rules.chain(&config.allow_of_repository);
    rows.extend(rules.map(|one| {
        let (text, value) = (one.value.to_string(), destination(&one.value));
        row("firewall.allow", text, value, one)
    }));
    rows.extend(config.sync.iter().map(|one| {
        let rule = &one.value;
        let (dest, owner) = (rule.dest.to_string(), rule.owner.to_string());
        let mode = format!("{:04o}", rule.mode);
        let text = format!("{} to {dest}, mode {mode}, owner {owner}", rule.src);
        let value = json!({"src": rule.src, "dest": dest, "mode": mode, "owner": owner});
        row("sync", text, value, one)
    }));
    rows.extend(config.env.iter().map(|(name, one)| {
        let (text, value) = match &one.value {
            Variable::Text(text) => (text.clone(), json!(text)),
            Variable::OfHost(host) => (format!("${host}"), json!({"host": host})),
        };
        row(format!("env.{name}"), text, value, one)
    }));
    rows.extend(config.on_sync.iter().map(|one| {
        let hook = &one.value;
        let root = if hook.root { " (root)" } else { "" };
        let text = match &hook.name {
            Some(name) => format!("{name}{root}: {}", hook.command),
            None => format!("{}{root}", hook.command),
        };
        let value = json!({"cmd": hook.command, "name": hook.name, "root": hook.root});
        row("on_sync", text, value, one)
    }));
    let settings = config.settings.values();
    rows.extend(settings.map(|one| {
        let (text, value) = (one.value.written(), choice(&one.value));
        row(one.value.key(), text, value, one)
    }));
    for (key, paths) in [("hide", &config.hide), ("protect", &config.protect)] {
        rows.extend(paths.iter().map(|one| {
            let path = one.value.display().to_string();
            row(key, path.clone(), json!(path), one)
        }));
    }
    let setup = config.setup.iter();
    rows.extend(setup.map(|one| row("setup", one.value.clone(), json!(one.value), one)));
    rows.extend(config.checks.iter().map(|one| {
        let check = &one.value;
        let name = check.name.as_ref();
        let label = name.map_or_else(String::new, |name| format!("{name}: "));
        let text = format!("{label}{}", check.command);
        let value = json!({"cmd": check.command, "name": name});
        row("gate.checks", text, value, one)
    }));
    let repositories = config.mcp_repositories.iter();
    rows.extend(
        repositories.map(|one| row("mcp.repositories", one.value.clone(), json!(one.value), one)),
    );
    rows
}

/// An entry of `firewall.allow`; without ports it is all of them.
fn destination(rule: &Rule) -> Value {
    let key = match rule.target() {
        Target::Range(_) => "cidr",
        Target::Name(_) | Target::Below(_) => "domain",
    };
    json!({key: rule.target().to_string(), "ports": rule.ports().listed()})
}

/// A number where it counts something.
fn choice(setting: &Setting) -> Value {
    match setting {
        Setting::Memory(number) | Setting::Processes(number) => json!(number),
        Setting::Cpus(cpus) => json!(cpus.get()),
        Setting::Iterations(number) => json!(number),
        Setting::Ports(ports) => json!(ports.iter().map(ToString::to_string).collect::<Vec<_>>()),
        name => json!(name.to_string()),
    }
}

fn text(rows: &[Row], found: &Effective) -> String {
    let mut text = String::new();
    if found.config.allow.is_none() {
        text.push_str(
            "firewall.allow: the built-in list: `cofferdam net rules` shows it  # built in\n",
        );
    }
    for row in rows {
        let (key, value) = (printable_line(&row.key), printable_line(&row.text));
        let (file, line) = (row.source.file(), row.line);
        text.push_str(&format!("{key}: {value}  # {file}:{line}\n"));
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

/// `place`: of a file.
fn object(
    rows: &[Row],
    found: &Effective,
    place: &dyn Fn(Source) -> PathBuf,
) -> Result<Value, CliError> {
    let mut values = Vec::new();
    if found.config.allow.is_none() {
        let built_in = config::built_in().map_err(|error| CliError::Failed {
            message: error.to_string(),
            hint: String::new(),
        })?;
        let of_nobody =
            |rule| json!({"key": "firewall.allow", "value": destination(rule), "from": null});
        values.extend(built_in.iter().map(of_nobody));
    }
    values.extend(rows.iter().map(|row| {
        let file = place(row.source).to_string_lossy().into_owned();
        let from = json!({"file": file, "line": row.line});
        json!({"key": row.key, "value": row.value, "from": from})
    }));
    let waiting = (found.waiting.iter()).map(|one| json!({"asked": one.text, "line": one.line}));
    let problems = found.problems.iter().map(ToString::to_string);
    Ok(json!({
        "values": values,
        "waiting": waiting.collect::<Vec<_>>(),
        "problems": problems.collect::<Vec<_>>(),
    }))
}
