//! What is known of a sandbox, a line for each fact.

use std::fmt::Write;

use cofferdam::registry::Record;
use cofferdam::session::CommitLine;
use cofferdam::text::printable_path;

use super::summary::commit_line;

/// The lines, with what they say below one another.
pub(crate) fn lines(facts: &[(&str, String)]) -> String {
    let mut out = String::new();
    for (key, value) in facts {
        let _ = writeln!(out, "{:<9}{value}", format!("{key}:"));
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
