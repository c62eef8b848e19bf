//! `cofferdam revoke`: the opposite of `allow`.

use std::process::ExitCode;

use clap::Args;
use cofferdam::home::Home;
use cofferdam::text::printable_line;
use cofferdam::wall::allowed::{Scope, Which};
use cofferdam::wall::change::ChangeError;
use cofferdam::wall::rules::{Loaded, WrittenAt};
use cofferdam::wall::{Origin, Rule};

use super::allow::{Whom, begin, patiently, scope, words};
use super::built_in::Without;
use super::several::{self, no_rule};
use crate::environment::Environment;
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::ui::output;
use crate::ui::rules::{place, tell, warn};
use crate::ui::shell::shell_word;
use crate::ui::style::{self, paint};

/// Take back what `cofferdam allow` opened, at once and from now on
///
/// A RULE is what was allowed. A name or a range without ports means every rule of it. Of several rules all are
/// taken back or none. Connections that no rule allows any more are ended. For a rule of the built-in list the
/// commands are printed that put a list of your own, without that rule, in its place.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Such as example.com, db.example.com:5432, 10.1.0.0/16:443
    #[arg(required = true, value_name = "RULE")]
    rules: Vec<String>,

    #[command(flatten)]
    whom: Whom,
}

pub(crate) async fn run(
    arguments: &Arguments,
    environment: &Environment,
    interrupt: &Interrupt,
) -> Result<ExitCode, CliError> {
    let texts = several::rules(&arguments.rules, "revoke")?;
    let which: Result<Vec<Which>, _> = texts.iter().map(|text| Which::parse(text)).collect();
    let which = which.map_err(|error| no_rule(&error, "revoke"))?;
    let colour = environment.colour.on_stderr();
    let (scope, sources) = scope(&arguments.whom, environment, interrupt).await?;
    let change = begin(environment, interrupt).await?;
    let done = change.remove(&scope, &which).map_err(ChangeError::from)?;
    let left = sources.load();
    if let Some(missing) = done.missing.first() {
        warn(&left.problems, colour);
        let without = Without::new(&which, &left);
        let home = &environment.home;
        let error = not_here(missing, &scope, &left, home, without.is_some());
        let Some(without) = without else {
            return Err(error);
        };
        // The reason comes first: the commands are many lines.
        let code = crate::error::report(&error, colour);
        output::data(&without.commands(environment))?;
        return Ok(code);
    }
    for rule in &done.removed {
        output::note(&format!(
            "{} {rule} for {}, no longer in {}\n",
            paint("revoked:", style::GOOD, colour),
            words(&scope),
            shell_word(&done.file)
        ));
    }
    let same = left.rules.iter().zip(&left.written);
    for (rule, at) in same.filter(|(rule, _)| which.iter().any(|one| one.meets(rule))) {
        let label = paint("warning:", style::WARNING, colour);
        let stands = stands(rule, at);
        output::note(&format!(
            "{label} {rule} still counts: it stands in {stands}\n"
        ));
    }
    let reached = patiently(change.apply(&scope)).await?;
    if reached.sandboxes.is_empty() {
        warn(&left.problems, colour);
    }
    Ok(if tell(&reached, colour) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Where a rule comes from, in words.
fn stands(rule: &Rule, at: &WrittenAt) -> String {
    match (&at.file, rule.origin()) {
        (Some(_), _) => place(at),
        (None, Origin::Defaults) => "the built-in list".to_owned(),
        (None, _) => "the command line that started the sandbox".to_owned(),
    }
}

/// The file of that scope does not have it. What does?
fn not_here(which: &Which, scope: &Scope, left: &Loaded, home: &Home, printed: bool) -> CliError {
    let shown = printable_line(&which.to_string());
    let all = || left.rules.iter().zip(&left.written);
    let same = all().find(|(rule, _)| which.is(rule));
    if let Some((rule, at)) = same {
        return CliError::Failed {
            message: format!(
                "`{rule}` is not among the rules for {}: it stands in {}",
                words(scope),
                stands(rule, at)
            ),
            hint: elsewhere(rule, at, home, printed),
        };
    }
    let like = all().find(|(rule, _)| rule.target() == which.target());
    if let Some((rule, at)) = like {
        return CliError::Failed {
            message: format!(
                "no rule is `{shown}`; `{rule}` stands in {}",
                stands(rule, at)
            ),
            hint: elsewhere(rule, at, home, false),
        };
    }
    CliError::Failed {
        message: format!("no rule for {} is `{shown}`", words(scope)),
        hint: "see which there are with `cofferdam net rules`; those of one sandbox with `--sandbox NAME`"
            .to_owned(),
    }
}

/// How to take a rule back that stands there.
fn elsewhere(rule: &Rule, at: &WrittenAt, home: &Home, printed: bool) -> String {
    let word = shell_word(rule.to_string());
    match (&at.file, rule.origin()) {
        (Some(file), _) if **file == *Scope::Global.file(home) => {
            format!("`cofferdam revoke --global {word}`")
        }
        (Some(file), Origin::Live) if file.ends_with("allowed") => {
            format!("`cofferdam revoke --sandbox NAME {word}`")
        }
        (Some(_), Origin::Live) => format!("`cofferdam revoke {word}`"),
        (Some(file), _) => format!(
            "take it out of {}, then `cofferdam net reload`",
            shell_word(&**file)
        ),
        (None, Origin::Defaults) if printed => format!(
            "paste the commands below: they make a list of your own without it in {}, which counts for all your \
             sandboxes instead of the built-in one",
            shell_word(home.config())
        ),
        (None, Origin::Defaults) => format!(
            "`cofferdam revoke {}` prints the commands that make a list of your own without it",
            shell_word(rule.target().to_string())
        ),
        (None, _) => "it counts until that run ends".to_owned(),
    }
}
