//! `cofferdam net rules`.

use std::process::ExitCode;

use clap::Args;
use cofferdam::wall::rules::Problem;
use serde::Serialize;

use crate::commands::here::sources;
use crate::environment::Environment;
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::ui::rules::{place, spoiled, warn};
use crate::ui::{json, output, table};

/// List the rules in effect, each with who made it and where it stands
///
/// Exit code 1 where a source of rules is malformed.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Those of this sandbox, with what its own command allowed
    #[arg(long, value_name = "SANDBOX")]
    sandbox: Option<String>,

    /// One object: `rules` and `problems`
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Listing<'a> {
    rules: Vec<Listed<'a>>,
    problems: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Listed<'a> {
    rule: String,
    origin: cofferdam::wall::Origin,
    file: Option<std::borrow::Cow<'a, str>>,
    line: Option<u64>,
}

pub(crate) async fn run(
    arguments: &Arguments,
    environment: &Environment,
    interrupt: &Interrupt,
) -> Result<ExitCode, CliError> {
    let sources = sources(arguments.sandbox.as_deref(), environment, interrupt).await?;
    let loaded = sources.load();
    let rules = loaded.rules.iter().zip(&loaded.written);
    if arguments.json {
        let listing = Listing {
            rules: rules
                .map(|(rule, place)| Listed {
                    rule: rule.to_string(),
                    origin: rule.origin(),
                    file: place.file.as_deref().map(std::path::Path::to_string_lossy),
                    line: place.line,
                })
                .collect(),
            problems: loaded.problems.iter().map(Problem::message).collect(),
        };
        output::data(&json::line(&listing)?)?;
    } else {
        warn(&loaded.problems, environment.colour.on_stderr());
        let rows: Vec<Vec<String>> = rules
            .map(|(rule, at)| vec![rule.to_string(), rule.origin().to_string(), place(at)])
            .collect();
        let spoiled = spoiled(&loaded.problems);
        if !rows.is_empty() {
            output::data(&table::render(&["RULE", "FROM", "FILE"], &rows))?;
        } else if spoiled.is_none() {
            output::note(
                "no rules: nothing is allowed; open something with `cofferdam allow NAME`\n",
            );
        }
        if let Some(mend) = spoiled {
            output::note(&format!("{mend}\n"));
        }
    }
    Ok(if loaded.problems.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
