//! What came home of a run whose command had died.

use std::fmt::Write;
use std::path::Path;

use cofferdam::session::manage::Recovered;
use cofferdam::session::{Landing, Notice};
use cofferdam::text::printable_line;

use super::from_here::from_here;
use super::shell::shell_word;
use super::{human, summary};

/// Which sandbox it was, and where its commits are now; the line is not ended.
pub(crate) fn line(one: &Recovered) -> String {
    let name = printable_line(&one.name);
    let count = human::plural(one.commits, "commit");
    let text = match &one.landing {
        Landing::Kept { reference, why } => {
            format!("recovered: {name}, {count} kept on {reference}: {why}")
        }
        landing => format!(
            "recovered: {name}, {count} on {} ({landing})",
            printable_line(&one.branch)
        ),
    };
    printable_line(&text)
}

/// The same with what else there is and the next step, seen from `directory`.
pub(crate) fn render(one: &Recovered, directory: &Path) -> String {
    let mut out = line(one);
    let elsewhere = !directory.starts_with(&one.repository);
    let there = shell_word(&one.repository);
    if elsewhere {
        let _ = write!(out, " in {there}");
    }
    out.push('\n');
    for beside in &one.beside {
        let _ = writeln!(out, "  {beside}");
    }
    if let Some(path) = &one.preserved {
        let place = summary::place(path);
        let _ = writeln!(out, "  its uncommitted work is kept in {place}");
    }
    if !elsewhere {
        for line in of_the_users(one) {
            let _ = writeln!(out, "  {line}");
        }
    }
    if let Some(next) = summary::after_recovery(one) {
        let go = if elsewhere {
            format!("cd {there} && {next}")
        } else {
            from_here(&next).into_owned()
        };
        let _ = writeln!(out, "  next: {go}");
    }
    out
}

/// What its user may miss in the checkout that it shared with them. Nothing where the records go with it.
pub(crate) fn of_the_users(one: &Recovered) -> impl Iterator<Item = String> + '_ {
    let there = one.of_the_users.iter().filter(|_| one.ended);
    there.map(|notice| match notice {
        Notice::UncommittedChanged { reference, paths } => {
            let line = format!(
                "uncommitted files of yours are not as they were when it began: {}; as they were: `git restore --source={reference} PATH`",
                summary::named(paths)
            );
            from_here(&printable_line(&line)).into_owned()
        }
        other => from_here(&printable_line(&other.to_string())).into_owned(),
    })
}
