//! `cofferdam approve`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::IsTerminal;
use std::process::ExitCode;

use clap::{ArgGroup, Args};
use cofferdam::config;
use cofferdam::config::approvals::{self, ApprovalError, Revoked};
use cofferdam::registry::Record;
use cofferdam::sandbox::engine::Kind;
use cofferdam::text::printable_line;
use cofferdam::wall::allowed::Scope;

use super::allow::{begin, patiently};
use super::dev_sandboxes;
use super::here::repository;
use crate::environment::Environment;
use crate::error::CliError;
use crate::input;
use crate::interrupt::Interrupt;
use crate::ui::human::plural;
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
    let mut others = before.symmetric_difference(&lines);
    let opens_otherwise = others.any(|line| key(line) == RULES);
    let told = when(
        lines.difference(&before),
        &dev_sandboxes::of_checkout(home, &top)?,
    );
    let count = lines.len();
    approvals::approve(home, &top, lines).map_err(|error| unapproved(&error))?;
    output::note(&format!("approved: {}\n{told}", plural(count, "line")));
    if !opens_otherwise {
        return Ok(ExitCode::SUCCESS);
    }
    if !told.is_empty() {
        output::note(&format!("{RULES}:\n"));
    }
    in_force(change.apply(&Scope::Repository(top)), environment).await
}

/// What opens a destination, and is told of each sandbox.
const RULES: &str = "firewall.allow";

/// What a line is about: the key in the file, with a word more where that is not all.
fn key(line: &str) -> &str {
    line.split_once(": ").map_or(line, |(key, _)| key)
}

/// From when on what was approved now counts, a line for each time. `dev`: the dev sandboxes that are there.
fn when<'a>(lines: impl Iterator<Item = &'a String>, dev: &[Record]) -> String {
    let again = |is_meant: fn(&Record) -> bool| {
        let names = dev.iter().filter(|one| is_meant(one));
        let names: Vec<&str> = names.map(|one| one.name.as_str()).collect();
        if names.is_empty() {
            String::new()
        } else {
            format!(": `cofferdam restart {}`", names.join(" "))
        }
    };
    let mut times: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for line in lines {
        let key = key(line);
        let time = match key {
            RULES => continue,
            "sync" if line.ends_with(", owner agent:agent") => {
                "in sandboxes that run after `cofferdam sync`, in others from their start on"
                    .to_owned()
            }
            // Without a root that has something to do there is none.
            "sync" | "on_sync as root" => {
                let again = again(|one| Kind::named(&one.provider).is_some());
                format!("in dev sandboxes in containers from their next start on{again}")
            }
            "env" => {
                "for programs that are started from now on; shells read it as it was at the last `cofferdam sync`"
                    .to_owned()
            }
            "gate.checks" => "for what comes home from now on".to_owned(),
            // Those that somebody named by hand stay.
            "ports" => {
                let again = again(|one| one.ports.is_empty() || one.ports_configured);
                format!("in dev sandboxes from their next start on{again}")
            }
            key if key.starts_with("run.") => "in runs from now on".to_owned(),
            _ => "in sandboxes that are made from now on".to_owned(),
        };
        times.entry(time).or_default().insert(key);
    }
    let line = |(time, keys): (String, BTreeSet<&str>)| {
        let keys: Vec<&str> = keys.into_iter().collect();
        format!("{}: {time}\n", keys.join(", "))
    };
    times.into_iter().map(line).collect()
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
