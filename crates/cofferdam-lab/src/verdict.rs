//! What became of each attack and each check of a sandbox, for the table that `scripts/test` prints for each provider.
//!
//! The test's own program knows only passed and failed; what this machine cannot carry is neither. `scripts/test` names a
//! file in [`FILE`], and prints at its end what was written to it.

#![expect(
    clippy::disallowed_methods,
    clippy::panic,
    reason = "tests take what to do from `scripts/test` by the environment, and fail by panicking"
)]

use std::fs::OpenOptions;
use std::io::Write;

/// The file to which a line is added for each verdict: provider, kind, name, and what became of it, with tabs between them.
const FILE: &str = "COFFERDAM_TEST_VERDICTS";

/// What was tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One of `sandbox::conformance`, whose control is a part of it.
    Check,
    /// An attack on the wall, whose control fired where there is none.
    Attack,
}

/// What became of it. What failed is the test's to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict<'a> {
    Passed,
    /// The rest could not be tried, or has no control here: why.
    InPart(&'a str),
    /// Why.
    NotTried(&'a str),
}

/// A provider as the table names it.
pub fn who(provider: &str) -> String {
    if rustix::process::geteuid().is_root() {
        provider.to_owned()
    } else {
        format!("{provider} of an ordinary user")
    }
}

/// Adds a line; false where nobody has asked for one.
#[track_caller]
pub fn record(provider: &str, kind: Kind, name: &str, verdict: Verdict<'_>) -> bool {
    let Some(path) = std::env::var_os(FILE) else {
        return false;
    };
    let line = line(provider, kind, name, verdict);
    let file = OpenOptions::new().append(true).create(true).open(&path);
    if let Err(error) = file.and_then(|mut file| file.write_all(line.as_bytes())) {
        panic!(
            "cannot say in {} what became of {name}: {error}",
            path.display()
        );
    }
    true
}

fn line(provider: &str, kind: Kind, name: &str, verdict: Verdict<'_>) -> String {
    let kind = match kind {
        Kind::Check => "check",
        Kind::Attack => "attack",
    };
    let (what, why) = match verdict {
        Verdict::Passed => ("passed", ""),
        Verdict::InPart(why) => ("in part", why),
        Verdict::NotTried(why) => ("not tried", why),
    };
    // One that has its own would be two lines, or more columns.
    let why = why.replace(['\t', '\n'], " ");
    format!("{provider}\t{kind}\t{name}\t{what}\t{why}\n")
}

#[cfg(test)]
mod tests {
    use super::{Kind, Verdict, line};

    #[test]
    fn a_verdict_is_one_line_of_five_columns() {
        for verdict in [
            Verdict::Passed,
            Verdict::InPart("a\tb"),
            Verdict::NotTried("two\nlines"),
        ] {
            let line = line("native", Kind::Check, "name", verdict);
            assert_eq!(line.matches('\t').count(), 4, "{line}");
            assert!(line.find('\n') == Some(line.len() - 1), "{line}");
        }
    }
}
