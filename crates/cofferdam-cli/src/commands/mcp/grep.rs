//! `sandbox-grep`.

use std::fmt;
use std::ops::ControlFlow;
use std::time::Instant;

use cofferdam::sandbox::browse::{Content, Kind, Peek, Sight, Thing};
use cofferdam::session::Session;
use cofferdam::text::printable_line;
use globset::GlobMatcher;
use regex::bytes::{Regex, RegexBuilder};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::failure::Failure;
use super::page::{self, Page};
use super::server::{Asked, Server};
use super::tool::{Call, Effect};
use super::{glob, inside};

/// Lines of one answer, and bytes of one of them.
const MOST: usize = 500;
const LONGEST: usize = 500;
/// Bytes of a file that is looked at, and of a pattern when it is compiled.
const LARGEST: u64 = 8 << 20;
const PATTERN: usize = 64 << 10;
const AROUND: usize = 20;
/// So many files that were left out are named.
const NOTES: usize = 20;
/// So many bytes of a file are compared between two looks at whether somebody still waits.
const BLOCK: usize = 64 << 10;
/// Bytes that tell of a line more than its text and its file's path.
const BESIDE: usize = 60;

/// Find lines in files
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Grep {
    /// The sandbox's name
    sandbox: String,
    /// A regular expression, as in Rust's crate `regex`, for one line
    pattern: String,
    /// A directory or a file: absolute, or below the top of the repository, which it is unless given
    #[serde(default)]
    path: String,
    /// Which files: a pattern as of `sandbox-glob`
    files: Option<String>,
    /// Whether `a` and `A` are the same
    #[serde(default)]
    ignore_case: bool,
    /// So many lines before and after each one are told too; 20 at most
    #[serde(default)]
    context: usize,
    /// Whether to look also into what ignore files cover
    #[serde(default)]
    all: bool,
    /// Of so many of the first ones nothing is told: `next` of an answer that was cut
    offset: Option<usize>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Found {
    lines: Vec<Line>,
    /// The `offset` to ask with for what follows; nothing where this is the end
    next: Option<usize>,
    /// Files that nobody looked into
    notes: Vec<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct Line {
    path: String,
    number: usize,
    text: String,
    /// Whether it fits the pattern; else it is beside one that does
    fits: bool,
}

impl Call for Grep {
    const NAME: &'static str = "sandbox-grep";
    const TITLE: &'static str = "Find lines";
    const DESCRIPTION: &'static str =
        "Tells the lines in text files of a sandbox that fit a regular expression.";
    const EFFECT: Effect = Effect::Reads;
    type Told = Found;

    async fn call(self, server: Server, asked: Asked) -> Result<Found, Failure> {
        glob::bounded(&self.pattern)?;
        let pattern = RegexBuilder::new(&self.pattern)
            .case_insensitive(self.ignore_case)
            .size_limit(PATTERN)
            .build()
            .map_err(|error| {
                Failure::new(
                    error.to_string(),
                    "Write \\ before what is to stand for itself: . * ? + ( ) [ ] { } | ^ $",
                )
            })?;
        let which = self.files.as_deref().map(glob::matcher).transpose()?;
        let session = server.to_read(&self.sandbox, &asked).await?;
        let here = tokio::runtime::Handle::current();
        let wanted = asked.clone();
        let search =
            move || here.block_on(self.search(&session, &pattern, which.as_ref(), &wanted));
        asked.search(search).await
    }
}

impl Grep {
    async fn search(
        &self,
        session: &Session,
        pattern: &Regex,
        which: Option<&GlobMatcher>,
        asked: &Asked,
    ) -> Result<Found, Failure> {
        let path = inside::absolute(session, &self.path)?;
        let top = session.workdir()?;
        let content = Content {
            offset: 0,
            length: LARGEST,
            largest: LARGEST,
        };
        let place = Peek::at(&path)
            .down(u32::MAX)
            .with_content(content)
            .ignoring((!self.all).then_some(top.as_path()));
        let mut search = Search {
            pattern,
            which,
            context: self.context.min(AROUND),
            page: Page::new(self.offset, MOST),
            file: None,
            found: Vec::new(),
            larger: Larger::default(),
            cancel: &asked.cancel,
            until: Instant::now() + inside::LIMIT,
        };
        let shown = |path_below: &[u8]| inside::below(session, &path, path_below);
        let mut missing = None;
        inside::look(session, &place, &mut |sight| {
            match sight {
                Sight::Thing(thing) => {
                    search.end(&shown)?;
                    search.begin(thing);
                }
                Sight::Part(bytes) => search.add(&bytes),
                Sight::Unread { path, error } if path.is_empty() => missing = Some(error),
                _ => {}
            }
            ControlFlow::Continue(())
        })
        .await?;
        let _ = search.end(&shown);
        asked.is_wanted()?;
        if search.is_late() {
            return Err(inside::too_long(&path));
        }
        if let Some(number) = missing {
            return Err(inside::cannot(
                session,
                "look into",
                &path,
                &inside::why(number),
            ));
        }
        Ok(Found {
            next: search.page.next(),
            notes: search.larger.notes(&shown),
            lines: search.found,
        })
    }
}

struct Search<'a> {
    pattern: &'a Regex,
    which: Option<&'a GlobMatcher>,
    context: usize,
    page: Page,
    /// Of which file what is known so far.
    file: Option<(Vec<u8>, Vec<u8>)>,
    found: Vec<Line>,
    larger: Larger,
    cancel: &'a CancellationToken,
    until: Instant,
}

/// Files that are too large to be looked into.
#[derive(Default)]
struct Larger {
    /// The first of them.
    paths: Vec<Vec<u8>>,
    more: usize,
}

impl Larger {
    fn add(&mut self, path: Vec<u8>) {
        if self.paths.len() < NOTES {
            self.paths.push(path);
        } else {
            self.more += 1;
        }
    }

    fn notes(&self, shown: &dyn Fn(&[u8]) -> String) -> Vec<String> {
        let named = self.paths.iter().map(|path| {
            let path = printable_line(&shown(path));
            format!("{path} has more than {LARGEST} bytes and was not looked into: use `grep` with `sandbox-exec`")
        });
        let more = (self.more > 0).then(|| format!("{} files more were as large", self.more));
        named.chain(more).collect()
    }
}

impl Search<'_> {
    fn begin(&mut self, thing: Thing) {
        let path = thing.path;
        let is_wanted = thing.kind == Kind::File
            && (path.is_empty()
                || self
                    .which
                    .is_none_or(|which| which.is_match(glob::os(&path))));
        self.file = None;
        if is_wanted && thing.size > LARGEST {
            self.larger.add(path);
        } else if is_wanted {
            self.file = Some((path, Vec::new()));
        }
    }

    fn add(&mut self, bytes: &[u8]) {
        let Some((_, content)) = &mut self.file else {
            return;
        };
        // No text: nothing of it is looked at.
        if content.is_empty() && bytes.contains(&0) {
            self.file = None;
            return;
        }
        content.extend_from_slice(bytes);
    }

    /// The numbers of the lines that fit. `Break`: nobody wants to know any more, or it takes too long.
    fn fits(&self, content: &[u8]) -> ControlFlow<(), Vec<usize>> {
        // Most files have nothing of it; what looks at where a line begins or ends may.
        let looks_at_ends = self.pattern.as_str().contains(['^', '$', '\\']);
        let (mut fits, mut number) = (Vec::new(), 0);
        let mut rest = content;
        while !rest.is_empty() {
            if self.cancel.is_cancelled() || self.is_late() {
                return ControlFlow::Break(());
            }
            let least = BLOCK.min(rest.len());
            let end = rest[least..].iter().position(|&byte| byte == b'\n');
            let (block, later) = rest.split_at(end.map_or(rest.len(), |end| least + end + 1));
            rest = later;
            let may = looks_at_ends || self.pattern.is_match(block);
            for line in lines(block) {
                if may && self.pattern.is_match(line) {
                    fits.push(number);
                }
                number += 1;
            }
        }
        ControlFlow::Continue(fits)
    }

    fn is_late(&self) -> bool {
        Instant::now() >= self.until
    }

    fn end(&mut self, shown: &dyn Fn(&[u8]) -> String) -> ControlFlow<()> {
        // The one that was being looked at when there was no room any more is not looked at twice.
        let Some((path, content)) = self.file.take() else {
            return ControlFlow::Continue(());
        };
        let fits = self.fits(&content)?;
        if fits.is_empty() {
            return ControlFlow::Continue(());
        }
        let lines: Vec<&[u8]> = lines(&content).collect();
        let path = shown(&path);
        let mut told = 0;
        for &at in &fits {
            let from = at.saturating_sub(self.context).max(told);
            let to = (at + self.context + 1).min(lines.len());
            for number in from..to {
                let text = lines.get(number).copied().unwrap_or_default();
                let cut = if text.len() > LONGEST { "…" } else { "" };
                let text = String::from_utf8_lossy(&text[..text.len().min(LONGEST)]);
                if self.page.takes(path.len() + text.len() + BESIDE)? {
                    self.found.push(Line {
                        path: path.clone(),
                        number: number + 1,
                        text: format!("{text}{cut}"),
                        fits: fits.binary_search(&number).is_ok(),
                    });
                }
            }
            told = told.max(to);
        }
        ControlFlow::Continue(())
    }
}

fn lines(content: &[u8]) -> impl Iterator<Item = &[u8]> {
    let content = content.strip_suffix(b"\n").unwrap_or(content);
    let lines = content.split(|&byte| byte == b'\n');
    lines.map(|line| line.strip_suffix(b"\r").unwrap_or(line))
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.lines.is_empty() {
            writeln!(f, "[no line fits the pattern]")?;
        }
        for line in &self.lines {
            let mark = if line.fits { ':' } else { '-' };
            let path = printable_line(&line.path);
            writeln!(f, "{path}{mark}{}{mark}{}", line.number, line.text)?;
        }
        for note in &self.notes {
            writeln!(f, "[note: {note}]")?;
        }
        f.write_str(&page::more(self.next))
    }
}
