//! Ports of this machine that are to lead into a dev sandbox: what is said at its start, and what to do where one does not.

use std::num::NonZeroU16;

use cofferdam::registry::Record;
use cofferdam::session::living as lives;
use cofferdam::session::{Session, SessionError, Unpublished, free_port};

use super::dev_sandboxes;
use crate::environment::Environment;
use crate::ui::shell::shell_word;
use crate::ui::{facts, output};

/// Ordinary users may listen from here on.
const FIRST: u16 = 1024;

/// Says which ports of this machine lead into it; of others who has them, and what gives it another one.
pub(super) fn tell(session: &Session, environment: &Environment) -> Result<(), SessionError> {
    let (record, unpublished) = (session.record(), session.unpublished()?);
    for port in &record.ports {
        let line = match unpublished.iter().find(|one| one.port == port.host) {
            None => facts::leads(*port),
            Some(one) => {
                let holder = holder(one, record, environment);
                facts::leads_not(one, record.name.as_str(), holder.as_deref())
            }
        };
        output::note(&format!("{line}\n"));
    }
    if !unpublished.is_empty() {
        let next = next(record, &unpublished, environment);
        output::note(&format!("next: {next}\n"));
    }
    Ok(())
}

/// The sandbox that has the port, in words.
fn holder(one: &Unpublished, record: &Record, environment: &Environment) -> Option<String> {
    if !one.is_taken {
        return None;
    }
    let other = lives::leads_into(&environment.home, one.port)?;
    let of = if other.repository == record.repository {
        String::new()
    } else {
        format!(" of {}", shell_word(&other.repository))
    };
    Some(format!("sandbox `{}`{of}", other.name))
}

/// The commands that start it with others in the place of those that it cannot have, or that try again.
fn next(record: &Record, unpublished: &[Unpublished], environment: &Environment) -> String {
    // By its name where no other checkout has one of that name.
    let it = if record.repository == environment.top() {
        record.name.to_string()
    } else {
        record.id.to_string()
    };
    let again = format!("cofferdam restart {it}");
    let mut hosts: Vec<NonZeroU16> = record.ports.iter().map(|one| one.host).collect();
    let mut words = String::from("start");
    let mut has_others = false;
    for port in &record.ports {
        let (mut host, inside) = (port.host, port.inside);
        let is_anothers = |one: &Unpublished| one.is_taken || one.port.get() < FIRST;
        let mut failed = unpublished.iter().filter(|one| one.port == host);
        if failed.any(is_anothers) {
            let Some(other) = other(host, &hosts) else {
                return again;
            };
            hosts.push(other);
            (host, has_others) = (other, true);
        }
        words.push_str(&format!(" -p {host}:{inside}"));
    }
    if !has_others {
        return again;
    }
    let start = dev_sandboxes::command(&words, record, environment);
    format!("cofferdam stop {it} && {start}   # or end what has the port, then: {again}")
}

/// One that an ordinary user can have in the place of another.
fn other(port: NonZeroU16, but: &[NonZeroU16]) -> Option<NonZeroU16> {
    let further = if port.get() < FIRST { 8000 } else { 1 };
    free_port(port.checked_add(further)?, but)
}
