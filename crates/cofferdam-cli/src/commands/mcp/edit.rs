//! `sandbox-edit`.

use std::fmt;

use cofferdam::session::Session;
use cofferdam::session::living::PatchError;
use cofferdam::text::printable_line;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::changed::{self, Changed};
use super::failure::Failure;
use super::server::{Asked, Server};
use super::tool::{Call, Effect};
use super::{inside, write};

/// Bytes of a file in which something is replaced.
const LARGEST: u64 = 16 << 20;
/// So many places are named where there are several.
const NAMED: usize = 10;
/// So many changed files are told, within so many bytes; the first one always.
const TOLD: usize = 20;
const BYTES: usize = 8000;

/// Change files
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Edit {
    /// The sandbox's name
    sandbox: String,
    /// The file: absolute, or below the top of the repository
    path: Option<String>,
    /// What is there now, exactly, with enough lines around it to be there once
    old: Option<String>,
    /// What is to be there instead
    new: Option<String>,
    /// Whether it is replaced everywhere in the file
    #[serde(default)]
    all: bool,
    /// Instead of those: a unified diff as `git diff` prints it, with paths behind a/ and b/. It may make, remove and rename files.
    patch: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Edited {
    /// The files that are others now: the first of them where they are many
    paths: Vec<String>,
    /// How many they are
    files: usize,
    /// How many times text was replaced
    replaced: usize,
    #[serde(flatten)]
    changed: Changed,
}

impl Call for Edit {
    const NAME: &'static str = "sandbox-edit";
    const TITLE: &'static str = "Edit files";
    const DESCRIPTION: &'static str = "Replaces text in a file of a sandbox by other text (`path`, `old`, `new`), or applies a unified diff \
        (`patch`). Exactly, or not at all: where the old text is not there, or is there more than once and `all` is not set, or where the \
        diff does not fit, nothing is changed and the error says why.";
    const EFFECT: Effect = Effect::Changes;
    type Told = Edited;

    async fn call(self, server: Server, asked: Asked) -> Result<Edited, Failure> {
        let session = server.to_change(&self.sandbox, &asked).await?;
        let (paths, replaced) = match (self.path, self.old, self.new, self.patch) {
            (Some(path), Some(old), Some(new), None) => {
                let replaced = replace(&session, &path, (&old, &new), self.all).await?;
                (vec![replaced.0], replaced.1)
            }
            (None, None, None, Some(patch)) => {
                let done = apply(&session, &patch).await;
                if done.is_err() {
                    // Files that come before one that cannot be changed are others now.
                    changed::record(&session, Self::NAME).await;
                }
                (done?, 0)
            }
            _ => {
                return Err(Failure::new(
                    "either `path`, `old` and `new` are to be given, or `patch`",
                    "Nothing was changed.",
                ));
            }
        };
        Ok(Edited {
            files: paths.len(),
            paths: first(paths),
            replaced,
            changed: changed::record(&session, Self::NAME).await,
        })
    }
}

/// The file, and how many times.
async fn replace(
    session: &Session,
    path: &str,
    (old, new): (&str, &str),
    all: bool,
) -> Result<(String, usize), Failure> {
    let _alone = session.alone_with_files().await?;
    let (there, text) = inside::text(session, path, LARGEST).await?;
    let path = inside::shown(session, &there.path);
    if old.is_empty() {
        return Err(Failure::new(
            "`old` is empty",
            "Name what is to be replaced, or write the whole file with `sandbox-write`.",
        ));
    }
    let places: Vec<usize> = text.match_indices(old).map(|(at, _)| at).collect();
    match places.len() {
        0 => {
            return Err(Failure::new(
                format!("`old` is not in {path}"),
                format!("Nothing was changed.{}", nearly(&text, old)),
            ));
        }
        1 => {}
        count if !all => {
            let named = places.iter().take(NAMED);
            let lines: Vec<String> = named.map(|&at| line_of(&text, at).to_string()).collect();
            return Err(Failure::new(
                format!(
                    "`old` is {count} times in {path}: at lines {}",
                    lines.join(", ")
                ),
                "Nothing was changed. Give more of what is around the one that you mean, or set `all`.",
            ));
        }
        _ => {}
    }
    let grown = places.len().saturating_mul(new.len());
    if (text.len() - places.len() * old.len()).saturating_add(grown) as u64 > LARGEST {
        return Err(Failure::new(
            format!("{path} would have more than {LARGEST} bytes"),
            "Nothing was changed. Use `sandbox-exec` with a program that makes it.",
        ));
    }
    let edited = text.replace(old, new);
    write::put(session, &there.path, there.thing.mode, edited.as_bytes()).await?;
    Ok((path, places.len()))
}

async fn apply(session: &Session, patch: &str) -> Result<Vec<String>, Failure> {
    if let Some(failure) = no_diff(patch) {
        return Err(failure);
    }
    // Its last line is often without its end.
    let mut patch = patch.to_owned();
    if !patch.ends_with('\n') {
        patch.push('\n');
    }
    let done = Box::pin(session.apply_patch(patch.as_bytes())).await;
    let paths = done.map_err(|error| match error {
        PatchError::Session(error) => (*error).into(),
        error @ PatchError::Refused(_) => Failure::new(
            format!("the patch does not apply: {error}"),
            match without_prefix(&patch) {
                Some(path) => format!(
                    "Nothing was changed. Its paths are to be behind a/ and b/: write `--- a/{path}` and `+++ b/{path}`."
                ),
                None => "Nothing was changed. Read the files again, and make the patch from what they hold now; its paths are behind \
                         a/ and b/, and `@@` has the numbers of lines."
                    .to_owned(),
            },
        ),
        error => Failure::new(error.to_string(), "`sandbox-diff` tells what was changed."),
    })?;
    let paths = paths.iter().map(|path| path.to_string_lossy().into_owned());
    Ok(paths.collect())
}

/// As many as are told.
fn first(mut paths: Vec<String>) -> Vec<String> {
    let mut bytes = 0;
    let fits = paths.iter().take(TOLD).take_while(|path| {
        bytes += path.len();
        bytes <= BYTES
    });
    let count = fits.count().max(1);
    paths.truncate(count);
    paths
}

/// What is no unified diff at all.
fn no_diff(patch: &str) -> Option<Failure> {
    let begins = |word: &str| patch.lines().any(|line| line.starts_with(word));
    let what = if patch.trim_start().starts_with("*** Begin Patch") {
        "this is no unified diff: it begins with `*** Begin Patch`"
    } else if !begins("--- ") && !begins("diff --git ") {
        "this is no unified diff: no line of it begins with `--- `"
    } else {
        return None;
    };
    let next = "Nothing was changed. Use `path`, `old` and `new` for a replacement, or a diff as `git diff` prints it.";
    Some(Failure::new(what, next))
}

/// The path of a file that it changes, where that is not behind `b/`.
fn without_prefix(patch: &str) -> Option<String> {
    let mut paths = patch.lines().filter_map(|line| line.strip_prefix("+++ "));
    let path = paths.next()?.split('\t').next()?.trim();
    let is_usual = path.starts_with("b/") || path.starts_with('"') || path == "/dev/null";
    (!is_usual).then(|| printable_line(path.trim_start_matches("./")))
}

fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

/// Where it would be but for blanks, which is what goes wrong most.
fn nearly(text: &str, old: &str) -> String {
    let Some(first) = old.lines().map(str::trim).find(|line| !line.is_empty()) else {
        return String::new();
    };
    let found = text.lines().position(|line| line.trim() == first);
    found.map_or_else(
        || " Read the file again: it may be another one by now.".to_owned(),
        |at| {
            format!(
                " Its first line is like line {}: blanks at the beginning or the end of lines, or later lines, differ.",
                at + 1
            )
        },
    )
}

impl fmt::Display for Edited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let paths: Vec<String> = self.paths.iter().map(|path| printable_line(path)).collect();
        let mut paths = paths.join(", ");
        let more = self.files.saturating_sub(self.paths.len());
        if more > 0 {
            paths.push_str(&format!(" and {more} more"));
        }
        match self.replaced {
            0 => writeln!(f, "Changed {paths}.")?,
            1 => writeln!(f, "Replaced once in {paths}.")?,
            count => writeln!(f, "Replaced {count} times in {paths}.")?,
        }
        self.changed.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_diff_is_known_and_a_path_without_its_prefix() {
        assert!(no_diff("*** Begin Patch\n*** Update File: a\n").is_some());
        assert!(no_diff("").is_some());
        assert!(no_diff("--- a/x\n+++ b/x\n").is_none());
        assert!(no_diff("diff --git a/x b/x\nold mode 100644\n").is_none());
        for (path, told) in [
            ("b/x", None),
            ("\"b/x y\"", None),
            ("/dev/null", None),
            ("src/x\t2026", Some("src/x")),
            ("./x", Some("x")),
        ] {
            let patch = format!("--- a/x\n+++ {path}\n@@ -1 +1 @@\n");
            assert_eq!(without_prefix(&patch).as_deref(), told, "{path}");
        }
        assert_eq!(without_prefix("rename from a\n"), None);
    }
}
