//! `sandbox-glob`.

use std::fmt;
use std::ops::ControlFlow;

use cofferdam::sandbox::browse::{Kind, Peek, Sight};
use cofferdam::session::Session;
use cofferdam::text::printable_line;
use globset::{GlobBuilder, GlobMatcher};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::failure::Failure;
use super::inside;
use super::page::{self, Page};
use super::server::{Asked, Server};
use super::tool::{Call, Effect};

const MOST: usize = 1000;

/// Find files by their names
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Glob {
    /// The sandbox's name
    sandbox: String,
    /// What paths below the directory are to look like: `*` and `?` within a name, `**` for any directories, `{a,b}` for one of several
    pattern: String,
    /// The directory: absolute, or below the top of the repository, which it is unless given
    #[serde(default)]
    path: String,
    /// Whether to look also at what ignore files cover
    #[serde(default)]
    all: bool,
    /// Of so many of the first ones nothing is told: `next` of an answer that was cut
    offset: Option<usize>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Found {
    /// As the other tools take them, in their order
    paths: Vec<String>,
    /// The `offset` to ask with for what follows; nothing where this is the end
    next: Option<usize>,
    /// Whether the pattern looks in one directory alone.
    #[serde(skip)]
    shallow: bool,
}

/// What a path is to look like.
pub(super) fn matcher(pattern: &str) -> Result<GlobMatcher, Failure> {
    bounded(pattern)?;
    let glob = GlobBuilder::new(pattern).literal_separator(true).build();
    let glob =
        glob.map_err(|error| Failure::new(error.to_string(), "A pattern is such as src/**/*.rs."))?;
    Ok(glob.compile_matcher())
}

/// Bytes of a pattern.
const LONGEST: usize = 4096;

/// Who compiles a longer one keeps others waiting.
pub(super) fn bounded(pattern: &str) -> Result<(), Failure> {
    if pattern.len() > LONGEST {
        return Err(Failure::new(
            format!("the pattern has more than {LONGEST} bytes"),
            "Give a shorter one.",
        ));
    }
    Ok(())
}

impl Call for Glob {
    const NAME: &'static str = "sandbox-glob";
    const TITLE: &'static str = "Find files by name";
    const DESCRIPTION: &'static str =
        "Tells the files of a sandbox whose paths fit a pattern, such as src/**/*.rs.";
    const EFFECT: Effect = Effect::Reads;
    type Told = Found;

    async fn call(self, server: Server, asked: Asked) -> Result<Found, Failure> {
        let matcher = matcher(&self.pattern)?;
        let session = server.to_read(&self.sandbox, &asked).await?;
        let here = tokio::runtime::Handle::current();
        let wanted = asked.clone();
        let search = move || here.block_on(self.search(&session, &matcher, &wanted));
        asked.search(search).await
    }
}

impl Glob {
    async fn search(
        &self,
        session: &Session,
        matcher: &GlobMatcher,
        asked: &Asked,
    ) -> Result<Found, Failure> {
        let path = inside::absolute(session, &self.path)?;
        let top = session.workdir()?;
        let place = Peek::at(&path)
            .down(u32::MAX)
            .ignoring((!self.all).then_some(top.as_path()));
        let (mut paths, mut missing) = (Vec::new(), None);
        let mut page = Page::new(self.offset, MOST);
        inside::look(session, &place, &mut |sight| {
            if asked.cancel.is_cancelled() {
                return ControlFlow::Break(());
            }
            match sight {
                Sight::Thing(thing)
                    if thing.kind != Kind::Directory && matcher.is_match(os(&thing.path)) =>
                {
                    let found = inside::below(session, &path, &thing.path);
                    if page.takes(found.len() + 1)? {
                        paths.push(found);
                    }
                }
                Sight::Unread { path, error } if path.is_empty() => missing = Some(error),
                _ => {}
            }
            ControlFlow::Continue(())
        })
        .await?;
        asked.is_wanted()?;
        if let Some(number) = missing {
            return Err(inside::cannot(
                session,
                "look into",
                &path,
                &inside::why(number),
            ));
        }
        Ok(Found {
            paths,
            next: page.next(),
            shallow: !self.pattern.contains("**"),
        })
    }
}

pub(super) fn os(path: &[u8]) -> &std::ffi::OsStr {
    std::os::unix::ffi::OsStrExt::from_bytes(path)
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.paths.is_empty() && self.shallow {
            return writeln!(
                f,
                "[no file fits the pattern; with `**/` before a name it looks in directories below, too]"
            );
        }
        if self.paths.is_empty() {
            return writeln!(f, "[no file fits the pattern]");
        }
        for path in &self.paths {
            writeln!(f, "{}", printable_line(path))?;
        }
        f.write_str(&page::more(self.next))
    }
}
