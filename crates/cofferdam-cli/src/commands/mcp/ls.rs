//! `sandbox-ls`.

use std::fmt;
use std::ops::ControlFlow;

use cofferdam::sandbox::browse::{Kind, Peek, Sight};
use cofferdam::text::printable_line;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::failure::Failure;
use super::inside;
use super::page::{self, Page};
use super::server::{Asked, Server};
use super::tool::{Call, Effect};

const MOST: usize = 1000;
/// Bytes that tell of a thing more than its path and where it leads, and of a path (`PATH_MAX`).
const AROUND: usize = 30;
const LONGEST: usize = 4096;
const DEEPEST: u32 = 10;

/// List a directory
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Ls {
    /// The sandbox's name
    sandbox: String,
    /// The directory: absolute, or below the top of the repository, which it is unless given
    #[serde(default)]
    path: String,
    /// How many levels; 1 unless given, 10 at most
    depth: Option<u32>,
    /// Whether to list also what ignore files cover
    #[serde(default)]
    all: bool,
    /// Of so many of the first ones nothing is told: `next` of an answer that was cut
    offset: Option<usize>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Listed {
    path: String,
    entries: Vec<One>,
    /// The `offset` to ask with for what follows; nothing where this is the end
    next: Option<usize>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct One {
    /// Below `path`
    path: String,
    kind: &'static str,
    /// In bytes
    size: u64,
    /// Where a link leads
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
}

pub(super) fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::File => "file",
        Kind::Directory => "directory",
        Kind::Link => "link",
        Kind::Other => "other",
    }
}

impl Call for Ls {
    const NAME: &'static str = "sandbox-ls";
    const TITLE: &'static str = "List a directory";
    const DESCRIPTION: &'static str = "Lists what is in a directory of a sandbox.";
    const EFFECT: Effect = Effect::Reads;
    type Told = Listed;

    async fn call(self, server: Server, asked: Asked) -> Result<Listed, Failure> {
        let session = server.to_read(&self.sandbox, &asked).await?;
        let path = inside::absolute(&session, &self.path)?;
        let top = session.workdir()?;
        let place = Peek::at(&path)
            .down(self.depth.unwrap_or(1).clamp(1, DEEPEST))
            .ignoring((!self.all).then_some(top.as_path()));
        let (mut entries, mut itself) = (Vec::<One>::new(), None);
        let (mut page, mut is_told) = (Page::new(self.offset, MOST), false);
        inside::look(&session, &place, &mut |sight| {
            match sight {
                Sight::Thing(thing) if thing.path.is_empty() => itself = Some(Ok(thing.kind)),
                Sight::Unread { path, error } if path.is_empty() => itself = Some(Err(error)),
                Sight::Thing(thing) => {
                    let target = match thing.kind {
                        Kind::Link => usize::try_from(thing.size).unwrap_or(usize::MAX),
                        _ => 0,
                    };
                    let bytes = thing.path.len().saturating_add(target.min(LONGEST));
                    is_told = page.takes(bytes + AROUND)?;
                    if is_told {
                        entries.push(One {
                            path: String::from_utf8_lossy(&thing.path).into_owned(),
                            kind: kind(thing.kind),
                            size: thing.size,
                            target: None,
                        });
                    }
                }
                Sight::Target(text) if is_told => {
                    if let Some(last) = entries.last_mut() {
                        last.target = Some(String::from_utf8_lossy(&text).into_owned());
                    }
                }
                _ => {}
            }
            ControlFlow::Continue(())
        })
        .await?;
        let shown = inside::shown(&session, &path);
        match itself {
            Some(Ok(Kind::Directory)) => {}
            Some(Err(number)) => {
                return Err(inside::cannot(
                    &session,
                    "list",
                    &path,
                    &inside::why(number),
                ));
            }
            _ => {
                return Err(Failure::new(
                    format!("{shown} is no directory"),
                    "`sandbox-read` tells what a file holds.",
                ));
            }
        }
        Ok(Listed {
            path: shown,
            entries,
            next: page.next(),
        })
    }
}

impl fmt::Display for Listed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.entries.is_empty() {
            return writeln!(f, "[{} is empty]", printable_line(&self.path));
        }
        for one in &self.entries {
            let path = printable_line(&one.path);
            match (one.kind, &one.target) {
                ("directory", _) => writeln!(f, "{path}/")?,
                (_, Some(target)) => writeln!(f, "{path} -> {}", printable_line(target))?,
                ("file", _) => writeln!(f, "{path} ({} bytes)", one.size)?,
                _ => writeln!(f, "{path} (neither file nor directory)")?,
            }
        }
        f.write_str(&page::more(self.next))
    }
}
