//! What `status` says of a sandbox that does not stay: how its run stands or ended, and what can be done about it.

use std::process::ExitCode;

use cofferdam::registry::{self, Record, RegistryError};
use cofferdam::session::manage::{self, ManageError, State, Summary};
use cofferdam::session::{CommitLine, SessionError};
use cofferdam::text::printable_line;
use jiff::Timestamp;

use super::here::{repository, target};
use super::list;
use super::runs;
use crate::environment::Environment;
use crate::error::CliError;
use crate::interrupt::Interrupt;
use crate::ui::{facts, human, json, output};

/// `in_json`: the object that `list --json` has of it.
pub(super) async fn tell(
    name: &str,
    in_json: bool,
    environment: &Environment,
    interrupt: &Interrupt,
) -> Result<ExitCode, CliError> {
    let top = repository(environment, interrupt).await?.top;
    let found = registry::find(&environment.home, &top, name).map_err(ManageError::from)?;
    let record = found.record;
    let all = manage::list(
        &environment.home,
        &environment.git,
        Some(&environment.directory),
        environment.user_home.as_deref(),
        &interrupt.cancel,
    );
    let one = all.await?.into_iter().find(|one| one.id == record.id);
    let one = one.ok_or_else(|| ManageError::from(RegistryError::Gone(record.name.clone())))?;
    if in_json {
        output::data(&json::line(&one)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let shown = manage::log(&target(record.id.to_string(), environment, interrupt)).await;
    let commits = shown.map(|shown| shown.what).unwrap_or_default();
    let colour = environment.colour.on_stdout();
    output::data(&facts::lines(&lines(&record, &one, &commits, colour)))?;
    output::note(&next(one));
    Ok(ExitCode::SUCCESS)
}

/// Of a sandbox that nobody knows: its run may be known longer.
pub(super) async fn or_its_run(
    name: &str,
    error: SessionError,
    environment: &Environment,
    interrupt: &Interrupt,
) -> CliError {
    if let SessionError::Registry(RegistryError::Unknown { .. }) = &error
        && let Ok((record, _)) = runs::find(name, environment, interrupt).await
    {
        let (name, id) = (&record.name, record.id);
        return CliError::Failed {
            message: format!("sandbox `{name}` has ended and is gone"),
            hint: format!(
                "its run is known: see it with `cofferdam runs show {name}`, and what it printed with `cofferdam logs {id}`"
            ),
        };
    }
    error.into()
}

fn lines(
    record: &Record,
    one: &Summary,
    commits: &[CommitLine],
    colour: bool,
) -> Vec<(&'static str, String)> {
    let mut lines = vec![("name", one.name.to_string()), ("state", state(one))];
    lines.extend(ended(one).map(|how| ("ended", how)));
    lines.extend([
        ("branch", printable_line(&one.branch)),
        ("base", record.base.short().to_owned()),
        ("commits", facts::commits(commits, colour)),
        ("mode", one.mode.to_owned()),
    ]);
    lines.extend(facts::mounts(record));
    lines.push(("age", human::age(one.created, Timestamp::now())));
    lines
}

fn state(one: &Summary) -> String {
    match one.state {
        _ if one.interrupted => "interrupted".to_owned(),
        State::Stopped => "ended".to_owned(),
        other => other.to_string(),
    }
}

/// What ended it; nothing where it goes on.
fn ended(one: &Summary) -> Option<String> {
    if one.interrupted {
        let how = if one.is_check {
            "its command died while something was tried in it"
        } else {
            "its command died before its commits were home"
        };
        return Some(how.to_owned());
    }
    if !matches!(one.state, State::Stopped | State::Missing) {
        return None;
    }
    Some(match &one.landing {
        Some(landing) => format!("with its run: {landing}"),
        None => "with its run".to_owned(),
    })
}

fn next(one: Summary) -> String {
    let name = one.name.clone();
    if matches!(one.state, State::Creating | State::Active) {
        return format!("see what it does with: cofferdam logs {name} run --follow\n");
    }
    let is_ahead = one.ahead.is_some_and(|ahead| ahead > 0);
    let waits = list::waiting(&[one], false);
    match (waits.is_empty(), is_ahead) {
        (false, _) => waits,
        (true, true) => format!("take its commits with: cofferdam merge {name}\n"),
        (true, false) => {
            format!("nothing of it waits; forget it with: cofferdam delete {name}\n")
        }
    }
}
