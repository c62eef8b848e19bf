//! What is known of a sandbox, a line for each fact.

use std::fmt::Write;

use cofferdam::published::PublishedPort;
use cofferdam::registry::Record;
use cofferdam::session::{CommitLine, Unpublished};
use cofferdam::text::{printable_line, printable_path};

use super::summary::commit_line;

/// As wide as what most sandboxes have needs it, with what stands around it.
const WIDTH: usize = 9;

/// The lines, with what they say below one another.
pub(crate) fn lines(facts: &[(&str, String)]) -> String {
    let keys = facts.iter().map(|(key, _)| key.len() + ": ".len());
    let width = keys.max().unwrap_or_default().max(WIDTH);
    let mut out = String::new();
    for (key, value) in facts {
        let _ = writeln!(out, "{:<width$}{value}", format!("{key}:"));
    }
    out
}

/// Those that are home.
pub(crate) fn commits(commits: &[CommitLine], colour: bool) -> String {
    match commits.last() {
        None => "none on its branch".to_owned(),
        Some(newest) => format!(
            "{} on its branch, newest {}",
            commits.len(),
            commit_line(newest, colour)
        ),
    }
}

/// The ports of this machine that lead into it while it runs; some of them may not.
pub(crate) fn ports(
    record: &Record,
    unpublished: &[Unpublished],
    is_stopped: bool,
) -> impl Iterator<Item = (&'static str, String)> {
    record.ports.iter().map(move |port| {
        let failed = unpublished.iter().find(|one| one.port == port.host);
        let line = match failed {
            _ if is_stopped => {
                let (host, inside) = (port.host, port.inside);
                format!("127.0.0.1:{host} leads to port {inside} inside when it is started")
            }
            None => leads(*port),
            Some(one) => leads_not(one, "it", None),
        };
        ("port", line)
    })
}

/// Where a port of this machine leads.
pub(crate) fn leads(port: PublishedPort) -> String {
    format!("127.0.0.1:{} is port {} inside", port.host, port.inside)
}

/// That one does not. `holder`: who has it, where that is known.
pub(crate) fn leads_not(one: &Unpublished, name: &str, holder: Option<&str>) -> String {
    let port = one.port;
    let why = if one.is_taken {
        format!("{} has that port", holder.unwrap_or("another program"))
    } else {
        printable_line(&one.why)
    };
    format!("127.0.0.1:{port} does not lead into {name}: {why}")
}

/// What it sees of this machine beside its files, and whether it can change it.
pub(crate) fn mounts(record: &Record) -> impl Iterator<Item = (&'static str, String)> {
    record.mounts.iter().map(|mount| {
        let how = if mount.writable {
            "writable"
        } else {
            "read-only"
        };
        let [source, target] = [&mount.source, &mount.target].map(|path| printable_path(path));
        ("mount", format!("{source} at {target}, {how}"))
    })
}
