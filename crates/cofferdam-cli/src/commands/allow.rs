//! `cofferdam allow`.

use std::process::ExitCode;
use std::time::Duration;

use clap::{ArgGroup, Args};
use cofferdam::git::RepositoryError;
use cofferdam::session::manage::ManageError;
use cofferdam::wall::allowed::Scope;
use cofferdam::wall::change::{Change, ChangeError, Reached};
use cofferdam::wall::rules::{CheckError, Sources, caution, check};
use cofferdam::wall::{Origin, Rule};

use super::here::{repository, rules_of};
use super::several::{self, no_rule, this_machine};
use crate::environment::Environment;
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::ui::output;
use crate::ui::rules::{tell, warn};
use crate::ui::shell::shell_word;
use crate::ui::style::{self, paint};

/// So long a change may take without a word.
const QUIET: Duration = Duration::from_secs(1);

/// Open something to sandboxes, at once and from now on
///
/// A RULE is a name, `*.` and a name, an address or a range, with ports after a colon. A name without
/// ports is opened on 80 and 443. After it may stand what is looked at: `http`, `tls` or `plain`.
/// Of several rules all are opened or none. `cofferdam revoke` takes them back.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Such as example.com, db.example.com:5432, 10.1.0.0/16:443
    #[arg(required = true, value_name = "RULE")]
    rules: Vec<String>,

    #[command(flatten)]
    whom: Whom,
}

/// For which sandboxes a rule is meant.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("scope").args(["sandbox", "repo", "global"]))]
pub(super) struct Whom {
    /// For this sandbox, as long as it exists
    #[arg(long, value_name = "SANDBOX")]
    sandbox: Option<String>,

    /// For the sandboxes of this repository (what is meant without a flag)
    #[arg(long)]
    repo: bool,

    /// For all your sandboxes
    #[arg(long)]
    global: bool,
}

pub(crate) async fn run(
    arguments: &Arguments,
    environment: &Environment,
    interrupt: &Interrupt,
) -> Result<ExitCode, CliError> {
    let texts = several::rules(&arguments.rules, "allow")?;
    let rules: Result<Vec<Rule>, _> = texts
        .iter()
        .map(|text| Rule::parse(text, Origin::Live))
        .collect();
    let rules = rules.map_err(|error| no_rule(&error, "allow"))?;
    let colour = environment.colour.on_stderr();
    let (scope, sources) = scope(&arguments.whom, environment, interrupt).await?;
    let change = begin(environment, interrupt).await?;
    let loaded = sources.load();
    check(&loaded, &rules).map_err(|error| refused(&error))?;
    let added = change.add(&scope, &rules).map_err(ChangeError::from)?;
    for rule in &rules {
        let verb = if added.added.contains(rule) {
            "allowed:"
        } else {
            "allowed before:"
        };
        output::note(&format!(
            "{} {rule} for {}, kept in {}\n",
            paint(verb, style::GOOD, colour),
            words(&scope),
            shell_word(&added.file)
        ));
        if let Some(caution) = caution(rule) {
            let label = paint("warning:", style::WARNING, colour);
            output::note(&format!("{label} {caution}\n"));
        }
    }
    // What is wrong with a source decides about sandboxes at work, and is said with them.
    let reached = patiently(change.apply(&scope)).await?;
    if reached.sandboxes.is_empty() {
        warn(&loaded.problems, colour);
    }
    Ok(if tell(&reached, colour) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Waits for its turn to change rules.
pub(super) async fn begin(
    environment: &Environment,
    interrupt: &Interrupt,
) -> Result<Change, CliError> {
    let begun = Change::begin(&environment.home);
    match interrupt.cancel.run_until_cancelled(begun).await {
        Some(change) => Ok(change?),
        None => Err(CliError::Interrupted { code: 130 }),
    }
}

/// Waits for a change to be in force; says so when that takes a while.
pub(super) async fn patiently(
    change: impl Future<Output = Result<Reached, ChangeError>>,
) -> Result<Reached, ChangeError> {
    let mut change = std::pin::pin!(change);
    tokio::select! {
        done = &mut change => return done,
        () = tokio::time::sleep(QUIET) => {}
    }
    output::note("putting the rules in force…\n");
    change.await
}

/// For whom the rule is meant, and where rules stand that count for them.
pub(super) async fn scope(
    whom: &Whom,
    environment: &Environment,
    interrupt: &Interrupt,
) -> Result<(Scope, Sources), CliError> {
    let mut sources = Sources {
        home: environment.home.clone(),
        repository: None,
        sandbox: None,
        flags: Vec::new(),
    };
    if whom.global {
        return Ok((Scope::Global, sources));
    }
    let top = match repository(environment, interrupt).await {
        Ok(found) => found.top,
        Err(ManageError::Repository(error @ RepositoryError::NotARepository { .. })) => {
            return Err(CliError::Misused {
                message: format!("{error}, and the rule is for the sandboxes of a repository"),
                hint: "name one with `-C DIR`, or allow it for all your sandboxes with `--global`"
                    .to_owned(),
            });
        }
        Err(error) => return Err(error.into()),
    };
    let Some(name) = &whom.sandbox else {
        sources.repository = Some(top.clone());
        return Ok((Scope::Repository(top), sources));
    };
    let (id, sources) = rules_of(name, &top, environment)?;
    Ok((Scope::Sandbox(id), sources))
}

fn refused(error: &CheckError) -> CliError {
    let hint = match error {
        CheckError::Contradiction(_) => {
            "see where each rule stands with `cofferdam net rules`".to_owned()
        }
        CheckError::Udp(_) => "name it without `udp` if TCP is enough".to_owned(),
        CheckError::Loopback { meant, .. } => this_machine(meant),
    };
    CliError::Misused {
        message: error.to_string(),
        hint,
    }
}

pub(super) fn words(scope: &Scope) -> String {
    match scope {
        Scope::Global => "all your sandboxes".to_owned(),
        Scope::Repository(repository) => {
            format!("sandboxes of {}", shell_word(repository.as_path()))
        }
        Scope::Sandbox(_) => "this sandbox".to_owned(),
    }
}
