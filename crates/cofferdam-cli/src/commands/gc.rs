//! `cofferdam gc`.

use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use cofferdam::session::manage::{self, Doing, GcOptions, GcReport};
use cofferdam::text::printable_line;

use crate::environment::Environment;
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::ui::human::{self, parse_bytes};
use crate::ui::shell::shell_word;
use crate::ui::{json, output, recovered};

/// Bring home the work of interrupted runs, and remove what they left and sandboxes that are merged
///
/// Work that is merged nowhere is never removed, and a branch that you named stays.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Say what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,

    /// How much the files of commits may take on disk, all together; what a sandbox stands on stays all the same; 10g
    /// unless given
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    keep_trees: Option<u64>,

    /// One object: `recovered`, `removed`, `expired_refs`, `trees`, `rewritten`, `problems`
    #[arg(long)]
    json: bool,
}

/// Nothing is a size, too.
fn parse_size(text: &str) -> Result<u64, String> {
    if text == "0" {
        return Ok(0);
    }
    parse_bytes(text)
}

pub(crate) async fn run(
    arguments: &Arguments,
    environment: &Environment,
    interrupt: &Interrupt,
) -> Result<ExitCode, CliError> {
    let user_home = environment.user_home.as_deref();
    let mut options = GcOptions::default();
    options.dry_run = arguments.dry_run;
    options.keep_trees = arguments.keep_trees.unwrap_or(options.keep_trees);
    let report = manage::gc(
        &environment.home,
        &environment.git,
        Some(&environment.directory),
        user_home,
        options,
        &|doing| match doing {
            Doing::Waits => {
                output::note("another `cofferdam gc` is at work: waiting for its end\n");
            }
            Doing::Rewrites(repository) => {
                let repository = shell_word(repository);
                output::note(&format!(
                    "writing the files of a commit of {repository} to one layer\n"
                ));
            }
        },
        &interrupt.cancel,
    )
    .await?;
    if arguments.json {
        output::data(&json::line(&report)?)?;
    } else {
        output::data(&render(&report, arguments.dry_run, &environment.directory))?;
        for problem in &report.problems {
            let text = printable_line(&problem.text);
            let ends = problem.orphan.map_or_else(String::new, |id| {
                format!("; `cofferdam delete --force {id}` gives it up")
            });
            output::note(&format!("problem: {text}{ends}\n"));
        }
    }
    Ok(if report.problems.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn render(report: &GcReport, dry_run: bool, directory: &Path) -> String {
    let mut out = String::new();
    let would = if dry_run { "would be " } else { "" };
    for one in &report.recovered {
        if !dry_run {
            out.push_str(&recovered::render(one, directory));
            continue;
        }
        let name = printable_line(&one.name);
        let branch = printable_line(&one.branch);
        // How many commits there are is known only when they have come through the gate.
        let _ = write!(out, "would be recovered: {name}, on {branch}");
        if !directory.starts_with(&one.repository) {
            let _ = write!(out, " in {}", shell_word(&one.repository));
        }
        out.push('\n');
        if !one.changed_outside.is_empty() {
            let files = printable_line(&manage::lacking(&one.changed_outside));
            let _ = writeln!(out, "  {files}");
        }
    }
    for one in &report.removed {
        let _ = writeln!(out, "{would}removed: {}", printable_line(one));
    }
    for one in &report.expired_refs {
        let _ = writeln!(out, "{would}expired: {}", printable_line(one));
    }
    if report.trees.layers > 0 {
        let size = human::count(report.trees.bytes);
        let _ = writeln!(
            out,
            "{would}removed: files of {} commits, {size} bytes",
            report.trees.layers
        );
    }
    for repository in &report.rewritten {
        let repository = shell_word(repository);
        let _ = writeln!(
            out,
            "{would}written to one layer: the files of a commit of {repository}"
        );
    }
    if out.is_empty() {
        out.push_str("nothing to clean up\n");
    }
    out
}
