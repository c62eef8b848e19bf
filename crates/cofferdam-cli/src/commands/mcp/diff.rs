//! `sandbox-diff`.

use std::fmt;
use std::path::PathBuf;

use cofferdam::git::DiffStyle;
use cofferdam::session::{Session, manage};
use cofferdam::text::printable_line;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::changed;
use super::failure::Failure;
use super::inside;
use super::server::{Asked, Server};
use super::tool::{Call, Effect};
use crate::commands::here::target;
use crate::error::CliError;

const MOST: usize = 50_000;

/// What was changed since a sandbox was made
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Diff {
    /// The sandbox's name
    sandbox: String,
    /// Only this file, or what is in this directory: absolute, or below the top of the repository
    path: Option<String>,
    /// Whether to tell only which files, and how many lines of each
    #[serde(default)]
    stat: bool,
    /// From which byte of the text on, where an answer was cut
    #[serde(default)]
    offset: usize,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Told {
    diff: String,
    /// So many bytes it has altogether
    size: usize,
    /// From where on to ask for the rest; nothing where this is the end
    next: Option<usize>,
    /// Where it is empty, of a `path`: how many files elsewhere were changed
    elsewhere: Option<usize>,
    /// What is to be known of it, such as changes that are not in it
    notes: Vec<String>,
    #[serde(skip)]
    path: Option<String>,
}

impl Call for Diff {
    const NAME: &'static str = "sandbox-diff";
    const TITLE: &'static str = "Show what was changed";
    const DESCRIPTION: &'static str = "Tells how the sandbox's branch differs from the commit that it began with: what the person you work \
        for would merge. What programs in the background changed is committed first.";
    // What was changed becomes a commit first.
    const EFFECT: Effect = Effect::Adds;
    type Told = Told;

    async fn call(self, server: Server, asked: Asked) -> Result<Told, Failure> {
        let session = server.to_change(&self.sandbox, &asked).await?;
        let mut notes = changed::record(&session, Self::NAME).await.notes;
        let style = if self.stat {
            DiffStyle::Stat
        } else {
            DiffStyle::Patch
        };
        let id = session.id().to_string();
        let target = target(id, server.environment(), server.interrupt());
        let path = match &self.path {
            Some(path) => Some(below_top(&session, path)?),
            None => None,
        };
        let shown = manage::diff_of(&target, path.as_slice(), style).await;
        let shown = shown.map_err(CliError::from)?;
        if let Some(why) = &shown.refused {
            let why = printable_line(why);
            notes.push(format!(
                "the commit gate refused what was committed last: {why}"
            ));
        }
        let text = shown.what;
        let elsewhere = if path.is_some() && text.is_empty() {
            let all = manage::diff_of(&target, &[], DiffStyle::NameStatus).await;
            Some(all.map_err(CliError::from)?.what.lines().count())
        } else {
            None
        };
        let size = text.len();
        let from = text.floor_char_boundary(self.offset.min(size));
        let to = text.floor_char_boundary((from + MOST).min(size));
        Ok(Told {
            diff: text[from..to].to_owned(),
            size,
            next: (to < size).then_some(to),
            elsewhere,
            notes,
            path: self.path,
        })
    }
}

fn below_top(session: &Session, path: &str) -> Result<PathBuf, Failure> {
    let place = inside::absolute(session, path)?;
    match place.strip_prefix(session.workdir()?) {
        Ok(below) if below.as_os_str().is_empty() => Ok(PathBuf::from(".")),
        Ok(below) => Ok(below.to_owned()),
        Err(_) => Err(inside::cannot(
            session,
            "compare",
            &place,
            "it is not in the repository",
        )),
    }
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for note in &self.notes {
            writeln!(f, "[note: {note}]")?;
        }
        if self.size == 0 {
            let (Some(path), Some(files @ 1..)) = (&self.path, self.elsewhere) else {
                return writeln!(f, "[the branch has no changes]");
            };
            let path = printable_line(path);
            let others = match files {
                1 => "1 other file".to_owned(),
                files => format!("{files} other files"),
            };
            return writeln!(
                f,
                "[nothing below `{path}` was changed; the branch changes {others}]"
            );
        }
        f.write_str(&self.diff)?;
        if let Some(next) = self.next {
            writeln!(
                f,
                "\n[{} bytes more: ask with the offset {next}]",
                self.size - next
            )?;
        }
        Ok(())
    }
}
