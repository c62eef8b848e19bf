//! `cofferdam prompt check`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use cofferdam::sandbox::BranchStrategy;
use cofferdam::session::{Preview, Previewed, PromptSource, SessionOptions, preview};
use cofferdam::text::{printable, printable_line};
use serde::Serialize;

use super::defaults::Defaults;
use super::making::{self, Sandbox, Strategy};
use super::{living, run};
use crate::environment::Environment;
use crate::error::CliError;
use crate::input::{Need, PromptInputError, read};
use crate::interrupt::Interrupt;
use crate::ui::style::{self, paint};
use crate::ui::{human, json, output};

/// Look at prompt templates
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Check(Box<Check>),
}

/// Show what an agent would get of a template, and start none
///
/// Arguments are filled in, those too that are always there ({{SOURCE_BRANCH}}, {{TARGET_BRANCH}}); shell expressions are shown as
/// they would run. What is missing is named, and nothing is made.
#[derive(Debug, Args)]
#[command(mut_group("Sandbox", |group| group.requires("run")))]
struct Check {
    /// The template, `-` for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// The value of {{KEY}} in the template
    #[arg(long = "arg", value_name = "KEY=VALUE", value_parser = run::parse_pair)]
    values: Vec<(String, String)>,

    /// Run its shell expressions too: in a sandbox with the committed files, of which nothing stays
    #[arg(long)]
    run: bool,

    /// One object: `source_branch`, `target_branch`, `unused`, and `parts`, each a `text` or an `expression` with `line`, `column`
    /// and its `output`, `null` where it was not run
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    strategy: Strategy,

    #[command(flatten)]
    sandbox: Sandbox,
}

#[derive(Debug, Serialize)]
struct Told<'a> {
    source_branch: &'a str,
    target_branch: &'a str,
    unused: &'a [String],
    parts: Vec<Part<'a>>,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Part<'a> {
    Text {
        text: &'a str,
    },
    Expression {
        expression: &'a str,
        line: usize,
        column: usize,
        output: Option<&'a str>,
    },
}

pub(crate) async fn run(
    arguments: Arguments,
    environment: &Environment,
    interrupt: &Interrupt,
) -> Result<ExitCode, CliError> {
    let Command::Check(check) = arguments.command;
    let (runs, json) = (check.run, check.json);
    let source = source(&check.file, check.values, environment)?;
    let options = options(runs, check.strategy, check.sandbox, environment)?;
    let caller = living::caller(environment, interrupt);
    let found = living::shown(&caller, environment, async |caller| {
        Box::pin(preview(caller, &options, &source, runs)).await
    });
    let found = found.await??;
    let label = paint("warning:", style::WARNING, environment.colour.on_stderr());
    for name in &found.unused {
        let name = printable_line(name);
        output::note(&format!("{label} prompt argument `{name}` is not used\n"));
    }
    if json {
        output::data(&json::line(&told(&found))?)?;
        return Ok(ExitCode::SUCCESS);
    }
    output::data(&text(&found, environment.colour.on_stdout()))?;
    let left = found.parts.iter().filter(|part| is_left(part)).count();
    if left > 0 {
        let expressions = human::plural(left, "shell expression");
        output::note(&format!(
            "not run: {expressions}; with `--run` the same command runs them in a sandbox of which nothing stays\n"
        ));
    }
    Ok(ExitCode::SUCCESS)
}

fn source(
    file: &Path,
    values: Vec<(String, String)>,
    environment: &Environment,
) -> Result<PromptSource, CliError> {
    let arguments: BTreeMap<_, _> = run::prompt_arguments(values)?;
    if file != Path::new("-") {
        return run::file(environment.directory.join(file), arguments);
    }
    Ok(PromptSource::TemplateText {
        name: PathBuf::from("standard input"),
        text: read(Need::Certain)?.ok_or(PromptInputError::NothingPiped)?,
        arguments,
    })
}

/// Where nothing runs it makes no difference where it would.
fn options(
    runs: bool,
    strategy: Strategy,
    sandbox: Sandbox,
    environment: &Environment,
) -> Result<SessionOptions, CliError> {
    let defaults = Defaults::read(environment)?;
    let strategy = strategy.or(&defaults, sandbox.can_share());
    let sandbox = if runs {
        sandbox.or(&defaults).or_network(&defaults)
    } else {
        Sandbox::default()
    };
    let unnamed = BranchStrategy::MergeToHead;
    let contained = making::contained(&strategy, &sandbox, environment, unnamed)?;
    let making = making::session(sandbox, environment)?;
    let mut options = SessionOptions::new(environment.directory.clone(), contained);
    making.put_into(&mut options);
    Ok(options)
}

fn is_left(part: &Previewed) -> bool {
    matches!(part, Previewed::Expression { output: None, .. })
}

/// The prompt; in the place of what was not run stands what would.
fn text(preview: &Preview, colour: bool) -> String {
    let mut out = String::new();
    for part in &preview.parts {
        match part {
            Previewed::Text(text) => out.push_str(&printable(text)),
            Previewed::Expression {
                output: Some(printed),
                ..
            } => out.push_str(&printable(printed)),
            Previewed::Expression { command, at, .. } => {
                let marked = format!("[not run, {at}: !`{}`]", printable(command));
                out.push_str(&paint(&marked, style::HINT, colour));
            }
        }
    }
    if !out.ends_with('\n') {
        out.push('\n');
    }
    out
}

fn told(preview: &Preview) -> Told<'_> {
    let parts = preview.parts.iter().map(|part| match part {
        Previewed::Text(text) => Part::Text { text },
        Previewed::Expression {
            command,
            at,
            output,
        } => Part::Expression {
            expression: command,
            line: at.line,
            column: at.column,
            output: output.as_deref(),
        },
    });
    Told {
        source_branch: &preview.source_branch,
        target_branch: &preview.target_branch,
        unused: &preview.unused,
        parts: parts.collect(),
    }
}
