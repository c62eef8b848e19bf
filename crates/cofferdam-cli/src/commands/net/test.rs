//! `cofferdam net test`.

use std::fmt::Write as _;
use std::process::ExitCode;

use clap::Args;
use cofferdam::text::printable_line;
use cofferdam::wall::rules::Problem;
use cofferdam::wall::{
    Answer, Ask, Explanation, Origin, Rule, RuleError, Start, WallError, ask, rules,
};
use serde::Serialize;

use super::destination::Destination;
use crate::commands::here::sources;
use crate::environment::Environment;
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::ui::rules::{place, spoiled, warn};
use crate::ui::style::{self, paint};
use crate::ui::{json, opening, output};

/// Explain what the rules say about a host and a port
///
/// Exit code 0 where they allow it, 1 where they refuse it. A name is looked up for that; nothing is
/// connected to.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// A name or an address; HOST:PORT and a URL are understood too
    #[arg(value_name = "HOST")]
    host: String,

    /// 1 to 65535
    #[arg(value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,

    /// By the rules of this sandbox, with what its own command allowed
    #[arg(long, value_name = "SANDBOX")]
    sandbox: Option<String>,

    /// One object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Explained<'a> {
    #[serde(flatten)]
    explanation: &'a Explanation,
    place: Option<String>,
    problems: Vec<String>,
}

pub(crate) async fn run(
    arguments: &Arguments,
    environment: &Environment,
    interrupt: &Interrupt,
) -> Result<ExitCode, CliError> {
    let asked = Destination::read(&arguments.host, arguments.port)?;
    if asked.host != arguments.host && !arguments.json {
        output::note(&format!("host {}, port {}\n", asked.host, asked.port));
    }
    let sources = sources(arguments.sandbox.as_deref(), environment, interrupt).await?;
    let loaded = sources.load();
    let question = Ask::Explain {
        rules: loaded.lines(),
        host: asked.host.clone(),
        port: asked.port,
    };
    let Answer::Explained(explanation) = ask(&environment.home, &question, Start::IfNeeded).await?
    else {
        return Err(WallError::Protocol("an answer to another question".to_owned()).into());
    };
    let mut rules = loaded.rules.iter().zip(&loaded.written);
    let at = explanation.rule.as_ref().and_then(|found| {
        let same = |rule: &cofferdam::wall::Rule| {
            rule.origin() == found.origin && rule.to_string() == found.text
        };
        rules.find(|(rule, _)| same(rule)).map(|(_, at)| place(at))
    });
    if arguments.json {
        let explained = Explained {
            explanation: &explanation,
            place: at,
            problems: loaded.problems.iter().map(Problem::message).collect(),
        };
        output::data(&json::line(&explained)?)?;
    } else {
        warn(&loaded.problems, environment.colour.on_stderr());
        let colour = environment.colour.on_stdout();
        output::data(&render(&asked, &explanation, at.as_deref(), colour))?;
        if !explanation.allowed {
            let opens = opens(&asked, &explanation);
            output::data(&match spoiled(&loaded.problems) {
                None => opens,
                Some(mend) => format!("{mend}\n"),
            })?;
        }
    }
    Ok(if explanation.allowed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn render(
    asked: &Destination,
    explanation: &Explanation,
    at: Option<&str>,
    colour: bool,
) -> String {
    let what = asked.to_string();
    let mut out = if explanation.allowed {
        format!("{} {what}\n", paint("allowed:", style::GOOD, colour))
    } else {
        format!("{} {what}\n", paint("refused:", style::ERROR, colour))
    };
    if let Some(rule) = &explanation.rule {
        let _ = write!(out, "rule: {} ({}", printable_line(&rule.text), rule.origin);
        match at {
            Some(at) if at != "-" => {
                let _ = writeln!(out, ", {at})");
            }
            _ => out.push_str(")\n"),
        }
    }
    if let Some(reason) = &explanation.reason {
        let _ = writeln!(out, "reason: {}", printable_line(reason));
    }
    if let Some(kind) = &explanation.kind {
        let looked_at = match kind.as_str() {
            "http" => "the Host of every request (http)",
            "tls" => "the server name that the connection begins with (tls)",
            "plain" => "nothing, bytes pass as they are (plain)",
            other => other,
        };
        let _ = writeln!(out, "looked at: {}", printable_line(looked_at));
    }
    for (address, refused) in &explanation.addresses {
        match refused {
            None => {
                let _ = writeln!(out, "address: {address}");
            }
            Some(why) => {
                let _ = writeln!(
                    out,
                    "address: {address}, not dialled: {}",
                    printable_line(why)
                );
            }
        }
    }
    if let Some(why) = &explanation.unresolved {
        let _ = writeln!(out, "no address: {}", printable_line(why));
    }
    out
}

/// The command that would open it.
fn opens(asked: &Destination, explanation: &Explanation) -> String {
    let mut out = String::new();
    let meant = meant(&asked.to_string());
    if let Some(rule) = &meant {
        let _ = writeln!(
            out,
            "if a service of this machine is meant, it is `{rule}` there"
        );
    }
    if let Some(opens) = meant.as_ref().or(explanation.opens.as_ref()) {
        let rule = Rule::parse(opens, Origin::Flag).ok();
        let caution = rule
            .filter(|_| meant.is_none())
            .and_then(|rule| rules::caution(&rule));
        if let Some(caution) = caution {
            let _ = writeln!(out, "careful: {caution}");
        }
        let _ = writeln!(out, "open it with: {}", opening::command(opens));
    }
    out
}

/// The rule for a service of this machine, where somebody names what is the sandbox itself inside.
fn meant(what: &str) -> Option<String> {
    match Rule::parse(what, Origin::Flag) {
        Err(RuleError::Localhost { meant, .. }) => Some(meant),
        Err(_) => None,
        Ok(rule) => rule.meant_for_this_machine(),
    }
}
