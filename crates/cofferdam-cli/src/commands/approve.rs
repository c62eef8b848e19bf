//! `cofferdam approve`.

use std::collections::BTreeSet;
use std::io::IsTerminal;
use std::process::ExitCode;

use clap::{ArgGroup, Args};
use cofferdam::config;
use cofferdam::config::approvals::{self, ApprovalError, Revoked};
use cofferdam::text::printable_line;
use cofferdam::wall::allowed::Scope;

use super::allow::{begin, patiently};
use super::here::repository;
use crate::environment::Environment;
use crate::error::CliError;
use crate::input;
use crate::interrupt::Interrupt;
use crate::ui::output;
use crate::ui::rules::tell;
use crate::ui::style::{self, paint};

/// Approve what a repository's own `.cofferdam/config.yaml` asks for
///
/// A repository can be anybody's, so what widens a sandbox waits for you: destinations, files of this machine, variables that
/// decide what runs, and where and how sandboxes are made. All of it is shown, beside what you approved last; what was not approved is left out.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("what").args(["list", "revoke", "trust"]))]
pub(crate) struct Arguments {
    /// Only show what is asked for and what is approved
    #[arg(long)]
    list: bool,

    /// Take back everything that was approved for this repository
    #[arg(long)]
    revoke: bool,

    /// Approve exactly what has this digest, without a question
    #[arg(long, value_name = "SHA256")]
    trust: Option<String>,
}

pub(crate) async fn run(
    arguments: &Arguments,
    environment: &Environment,
    interrupt: &Interrupt,
) -> Result<ExitCode, CliError> {
    let top = repository(environment, interrupt).await?.top;
    let home = &environment.home;
    if arguments.revoke {
        let change = begin(environment, interrupt).await?;
        let revoked = approvals::revoke(home, &top).map_err(|error| unapproved(&error))?;
        output::note(&match revoked {
            Revoked::Lines => {
                "revoked: nothing of this repository's configuration is approved any more; in sandboxes that run, files stay where they are, and variables in the file for shells until `cofferdam sync`\n"
                    .to_owned()
            }
            Revoked::Nothing => "nothing was approved for this repository\n".to_owned(),
            Revoked::Unreadable { kept } => format!(
                "nothing is approved for any repository any more: what could not be read is now {}\n",
                printable_line(&kept.to_string_lossy())
            ),
        });
        return in_force(change.apply(&Scope::Repository(top)), environment).await;
    }
    let before = approvals::of(home, &top).map_err(|error| unapproved(&error))?;
    let file = config::load_repository(top.as_path()).map_err(|error| failed(&error))?;
    let own = config::load(home).map_err(|error| failed(&error))?;
    // Everything that it asks for, approved or not.
    let files = |command: &str| config::named_files(top.as_path(), command);
    let asked = config::sift(file, &own, &BTreeSet::new(), &files).waiting;
    let lines: BTreeSet<String> = asked.into_iter().map(|one| one.text).collect();
    let digest = approvals::digest(lines.iter().map(String::as_str));
    let colour = environment.colour.on_stdout();
    output::data(&differences(&before, &lines, colour))?;
    if lines == before {
        output::note(if lines.is_empty() {
            "nothing waits for you\n"
        } else {
            "all of this is approved\n"
        });
        return Ok(ExitCode::SUCCESS);
    }
    if arguments.list {
        return Ok(ExitCode::SUCCESS);
    }
    let agreed = match &arguments.trust {
        Some(trust) if *trust == digest => true,
        Some(_) => {
            return Err(CliError::Failed {
                message: format!(
                    "what is asked for is above, and its digest is {digest}: another one was given"
                ),
                hint: format!("if you approve it: `cofferdam approve --trust {digest}`"),
            });
        }
        None if std::io::stdin().is_terminal() => {
            output::note("approve this? [y/N] ");
            input::is_yes()
        }
        None => {
            return Err(CliError::Failed {
                message: "nobody can be asked without a terminal, and nothing was approved"
                    .to_owned(),
                hint: format!("if you approve all of it: `cofferdam approve --trust {digest}`"),
            });
        }
    };
    if !agreed {
        output::note("nothing was approved\n");
        return Ok(ExitCode::FAILURE);
    }
    let change = begin(environment, interrupt).await?;
    let count = lines.len();
    approvals::approve(home, &top, lines).map_err(|error| unapproved(&error))?;
    output::note(&format!(
        "approved: {}; running sandboxes get files and variables with `cofferdam sync`\n",
        crate::ui::human::plural(count, "line")
    ));
    in_force(change.apply(&Scope::Repository(top)), environment).await
}

/// Rules count at once.
async fn in_force(
    change: impl Future<
        Output = Result<cofferdam::wall::change::Reached, cofferdam::wall::change::ChangeError>,
    >,
    environment: &Environment,
) -> Result<ExitCode, CliError> {
    let reached = patiently(change).await?;
    Ok(if tell(&reached, environment.colour.on_stderr()) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// A line for each: `+` waits, `-` is not asked for any more.
fn differences(before: &BTreeSet<String>, now: &BTreeSet<String>, colour: bool) -> String {
    let mut text = String::new();
    for line in before.union(now) {
        let shown = printable_line(line);
        text.push_str(&match (before.contains(line), now.contains(line)) {
            (true, true) => format!("  {shown}\n"),
            (false, _) => paint(&format!("+ {shown}"), style::GOOD, colour) + "\n",
            (true, false) => paint(&format!("- {shown}"), style::WARNING, colour) + "\n",
        });
    }
    text
}

fn unapproved(error: &ApprovalError) -> CliError {
    let hint = match error {
        ApprovalError::File(_) => {
            "mend the file or its rights, and try again: nothing is approved until then"
        }
        ApprovalError::Busy => "try again once the other command has ended",
        ApprovalError::Content { .. } => {
            "`cofferdam approve --revoke` puts it aside, and nothing is approved for any repository then"
        }
    };
    CliError::Failed {
        message: error.to_string(),
        hint: hint.to_owned(),
    }
}

fn failed(error: &config::ConfigError) -> CliError {
    CliError::Failed {
        message: error.to_string(),
        hint: "see `cofferdam config check`".to_owned(),
    }
}
