//! The files of `cofferdam allow`: one rule a line in its text form, `#` begins a comment line. People
//! edit them by hand; a bad line is left out and named, the others count.

use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cofferdam_wall::{Origin, Rule, RuleError, Target};

use super::rules::loaded::Loaded;
use super::rules::problem::{LineError, Problem};
use crate::fsx::{self, FileError};
use crate::home::Home;
use crate::names::{RepoPath, SandboxId};
use crate::text::printable;

/// The longest file in bytes.
const MAX_FILE: u64 = 16 << 20;
/// So many bad lines of one file are named.
const NAMED: usize = 20;

/// For which sandboxes a rule counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// All of this user.
    Global,
    /// Those of one repository.
    Repository(RepoPath),
    /// This one, as long as it exists.
    Sandbox(SandboxId),
}

/// What came of adding rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Added {
    /// The file that has the rules now.
    pub file: PathBuf,
    /// The rules that were not there before.
    pub added: Vec<Rule>,
    /// These were there already.
    pub present: Vec<Rule>,
}

/// What came of taking rules out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Removed {
    /// The file that they are taken out of.
    pub file: PathBuf,
    /// The rules that were taken out.
    pub removed: Vec<Rule>,
    /// The file has no line of these. Then nothing was removed.
    pub missing: Vec<Which>,
}

/// Which rules are meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Which {
    /// All of this target, whatever their ports.
    Of(Target),
    /// This one.
    Exactly(Box<Rule>),
}

/// Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum AddError {
    /// The file could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// The file is for something else, or no text.
    #[error("{0}")]
    Unusable(Box<Problem>),
}

impl Which {
    /// Reads a rule's text form; a bare target means every rule of it.
    pub fn parse(text: &str) -> Result<Self, RuleError> {
        let mut words = text.split_ascii_whitespace();
        if let (Some(word), None) = (words.next(), words.next())
            && let Ok(target) = word.parse()
        {
            return Ok(Self::Of(target));
        }
        Ok(Self::Exactly(Box::new(Rule::parse(text, Origin::Live)?)))
    }

    /// Whoever made the rule.
    pub fn is(&self, rule: &Rule) -> bool {
        match self {
            Self::Of(target) => rule.target() == target,
            Self::Exactly(one) => one.is_same(rule),
        }
    }

    /// Whether that rule opens some of what this means: other ports of the same target are another matter.
    pub fn meets(&self, rule: &Rule) -> bool {
        rule.target() == self.target()
            && match self {
                Self::Of(_) => true,
                Self::Exactly(one) => match (one.ports().listed(), rule.ports().listed()) {
                    (Some(mine), Some(theirs)) => mine.iter().any(|port| theirs.contains(port)),
                    _ => true,
                },
            }
    }

    /// The name or addresses that it is about.
    pub fn target(&self) -> &Target {
        match self {
            Self::Of(target) => target,
            Self::Exactly(rule) => rule.target(),
        }
    }
}

impl std::fmt::Display for Which {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Of(target) => target.fmt(f),
            Self::Exactly(rule) => rule.fmt(f),
        }
    }
}

impl Scope {
    /// Where its rules are kept.
    pub fn file(&self, home: &Home) -> PathBuf {
        match self {
            Self::Global => home.allowed().join("global"),
            Self::Repository(repository) => home.allowed().join(repository.hash8()),
            Self::Sandbox(id) => home.allowed_for(*id),
        }
    }

    /// The first line of the file. It tells apart two repositories whose paths have one hash.
    fn header(&self) -> String {
        match self {
            Self::Global => "# for: all sandboxes".to_owned(),
            Self::Repository(repository) => {
                format!("# for: repository {}", escaped(repository.as_path()))
            }
            Self::Sandbox(id) => format!("# for: sandbox {id}"),
        }
    }

    fn words(&self) -> String {
        match self {
            Self::Global => "all sandboxes".to_owned(),
            Self::Repository(repository) => escaped(repository.as_path()),
            Self::Sandbox(id) => format!("sandbox {id}"),
        }
    }
}

/// Adds what the file of `scope` says to `loaded`; a missing file says nothing.
pub(super) fn read_into(loaded: &mut Loaded, home: &Home, scope: &Scope) {
    let path: Arc<Path> = scope.file(home).into();
    let bytes = match read(&path, scope) {
        Ok(Some(bytes)) => bytes,
        Ok(None) => return,
        Err(problem) => {
            loaded.problems.push(problem);
            return;
        }
    };
    let mut bad = 0;
    for (line, rule) in rules(&bytes) {
        match rule {
            Ok(rule) => loaded.push(rule, Some(&path), Some(line)),
            Err(source) => {
                bad += 1;
                if bad <= NAMED {
                    let path = path.to_path_buf();
                    loaded.problems.push(Problem::Line { path, line, source });
                }
            }
        }
    }
    if bad > NAMED {
        loaded.problems.push(Problem::MoreLines {
            path: path.to_path_buf(),
            count: bad - NAMED,
        });
    }
}

/// Writes `new` into the file of `scope`, which readers see old or new but never half. A rule that is
/// there is not written again. One who adds holds the lock on changes.
pub fn add(home: &Home, scope: &Scope, new: &[Rule]) -> Result<Added, AddError> {
    let file = scope.file(home);
    let mut bytes = read_to_change(&file, scope)?;
    let mut known: Vec<Rule> = rules(&bytes).filter_map(|(_, rule)| rule.ok()).collect();
    let mut done = Added {
        file,
        added: Vec::new(),
        present: Vec::new(),
    };
    let mut text = String::new();
    if bytes.is_empty() {
        let _ = writeln!(text, "{}", scope.header());
        text.push_str("# One rule a line, kept by `cofferdam allow`. After an edit: `cofferdam net reload`.\n");
    } else if !bytes.ends_with(b"\n") {
        text.push('\n');
    }
    for rule in new {
        if known.contains(rule) {
            done.present.push(rule.clone());
            continue;
        }
        let _ = writeln!(text, "{rule}");
        known.push(rule.clone());
        done.added.push(rule.clone());
    }
    if !done.added.is_empty() {
        bytes.extend_from_slice(text.as_bytes());
        fsx::private_dir(home.path())?;
        if let Some(parent) = done.file.parent() {
            fsx::private_dir(parent)?;
        }
        fsx::write_private(&done.file, &bytes)?;
    }
    Ok(done)
}

/// Takes the lines of all `which` out of the file of `scope`, or none where one of them is not there; comments and
/// lines that are no rules stay. One who removes holds the lock on changes.
pub fn remove(home: &Home, scope: &Scope, which: &[Which]) -> Result<Removed, AddError> {
    let file = scope.file(home);
    let bytes = read_to_change(&file, scope)?;
    let all: Vec<(u64, Rule)> = rules(&bytes)
        .filter_map(|(line, rule)| Some((line, rule.ok()?)))
        .collect();
    let absent = |one: &&Which| !all.iter().any(|(_, rule)| one.is(rule));
    let missing: Vec<Which> = which.iter().filter(absent).cloned().collect();
    if !missing.is_empty() {
        return Ok(Removed {
            file,
            removed: Vec::new(),
            missing,
        });
    }
    let meant = |rule: &Rule| which.iter().any(|one| one.is(rule));
    let (lines, removed): (Vec<u64>, Vec<Rule>) =
        all.into_iter().filter(|(_, rule)| meant(rule)).unzip();
    if !removed.is_empty() {
        let all = (1u64..).zip(bytes.split_inclusive(|&byte| byte == b'\n'));
        let kept: Vec<u8> = all
            .filter(|(number, _)| !lines.contains(number))
            .flat_map(|(_, line)| line.iter().copied())
            .collect();
        fsx::write_private(&file, &kept)?;
    }
    Ok(Removed {
        file,
        removed,
        missing,
    })
}

fn read_to_change(file: &Path, scope: &Scope) -> Result<Vec<u8>, AddError> {
    match read(file, scope) {
        Ok(found) => Ok(found.unwrap_or_default()),
        Err(Problem::File(error)) => Err(error.into()),
        Err(problem) => Err(AddError::Unusable(Box::new(problem))),
    }
}

/// The file's bytes; none where there is no file.
fn read(path: &Path, scope: &Scope) -> Result<Option<Vec<u8>>, Problem> {
    let bytes = match fsx::read_guarded(path, MAX_FILE) {
        Ok(bytes) => bytes,
        Err(error) if error.is_not_found() => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let header = scope.header();
    let first = bytes
        .split(|&byte| byte == b'\n')
        .next()
        .unwrap_or_default();
    if !bytes.is_empty() && first.trim_ascii_end() != header.as_bytes() {
        return Err(Problem::Scope {
            path: path.to_owned(),
            wanted: scope.words(),
            header,
        });
    }
    Ok(Some(bytes))
}

/// The rules of a file with the numbers of their lines.
fn rules(bytes: &[u8]) -> impl Iterator<Item = (u64, Result<Rule, LineError>)> {
    let lines = (1u64..).zip(bytes.split(|&byte| byte == b'\n'));
    lines.filter_map(|(number, line)| {
        let line = line.trim_ascii();
        if line.is_empty() || line.starts_with(b"#") {
            return None;
        }
        let text = std::str::from_utf8(line).map_err(|_| LineError::NotUtf8);
        let rule = text.and_then(|text| Ok(Rule::parse(text, Origin::Live)?));
        Some((number, rule))
    })
}

/// A path on one line; different paths stay different.
fn escaped(path: &Path) -> String {
    let mut text = String::new();
    for chunk in path.as_os_str().as_bytes().utf8_chunks() {
        for c in chunk.valid().chars() {
            let plain = c != '\\'
                && !c.is_control()
                && printable(c.encode_utf8(&mut [0; 4])).len() == c.len_utf8();
            if plain {
                text.push(c);
            } else {
                text.extend(c.escape_unicode());
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    #[test]
    fn paths_stay_apart_and_on_one_line() {
        let shown = |bytes: &[u8]| escaped(Path::new(OsStr::from_bytes(bytes)));
        assert_eq!(shown("/home/größe/a b".as_bytes()), "/home/größe/a b");
        assert_eq!(shown(b"/a\n\xff\\x"), "/a\\u{a}\\xff\\u{5c}x");
        assert_eq!(shown("/\u{202e}b".as_bytes()), "/\\u{202e}b");
    }
}
