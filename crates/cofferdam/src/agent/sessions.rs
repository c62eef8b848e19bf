//! Where an agent's program keeps its conversation records, and what makes one of them a record of another home and
//! another working directory. Pure: who calls this reads and writes the files.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::json;

/// Of the first line of a record, in bytes: what is parsed takes many times as many.
const HEAD: usize = 1 << 20;

/// How a conversation leaves one home and enters another.
#[derive(Debug, Clone, Copy)]
pub enum SessionFiles {
    /// As files.
    Layout(SessionLayout),
    /// Through its program: its records lie in a database that belongs to one directory.
    Commands(SessionCommands),
}

/// Which session a record is whose file begins so; `None` where it is no record.
pub type Identify = fn(beginning: &[u8]) -> Option<String>;

/// The files of an agent whose sessions are files. Paths are relative to [`Self::root`], with `/`.
#[derive(Debug, Clone, Copy)]
pub struct SessionLayout {
    /// The directory of its files, relative to the home.
    pub below_home: &'static str,
    /// The variable that names another directory, and where in that they are then.
    pub moved_by: Option<(&'static str, &'static str)>,
    /// A file that says of all sessions where they are: [`Self::moved`] is given the one of the new home.
    pub index: Option<&'static str>,
    /// Where the records are that a program which works in this directory makes; nothing of them is anywhere else.
    pub within: fn(directory: &str) -> String,
    /// Whether the file there is one of this session, or of an agent that it started.
    pub belongs: fn(path: &str, id: &str) -> bool,
    /// Which session a record is, by how it begins (16 KiB), where its path does not say so.
    pub identified: Option<Identify>,
    /// The same conversation, as files of a home in which the program works in another directory.
    pub moved: fn(Vec<SessionFile>, &SessionTarget<'_>) -> Result<Vec<SessionFile>, SessionError>,
}

/// One file of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionFile {
    /// Relative to [`SessionLayout::root`], with `/`.
    pub path: String,
    /// The content of the file.
    pub bytes: Vec<u8>,
}

/// Where a session goes on.
#[derive(Debug, Clone, Copy)]
pub struct SessionTarget<'a> {
    /// The working directory, absolute.
    pub directory: &'a str,
    /// The [`SessionLayout::index`] of that home, where it has one.
    pub index: Option<&'a [u8]>,
}

/// The commands of an agent whose sessions only its program can read.
#[derive(Debug, Clone, Copy)]
pub struct SessionCommands {
    /// Prints the session on standard output.
    pub export: fn(id: &str) -> Vec<OsString>,
    /// Takes in what was printed, from a file; to be run in the new working directory.
    pub import: fn(file: &Path) -> Vec<OsString>,
    /// Prints which sessions there are, in the directory where the program works.
    pub list: fn() -> Vec<OsString>,
    /// The session that was written to last, of what [`Self::list`] has printed, and when: seconds since 1970.
    pub newest: fn(printed: &[u8]) -> Option<(String, i64)>,
}

/// Files that are no session, though they lie where one is: a fragment says why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {why}")]
pub struct SessionError {
    /// Printable.
    pub path: String,
    /// Why, as a sentence fragment.
    pub why: &'static str,
}

impl SessionLayout {
    /// The directory of its files, for a program with this home and these variables.
    pub fn root(&self, home: &Path, environment: &BTreeMap<OsString, OsString>) -> PathBuf {
        let moved = self.moved_by.and_then(|(variable, below)| {
            let value = environment.get(OsStr::new(variable))?;
            (!value.is_empty()).then(|| join(Path::new(value), below))
        });
        moved.unwrap_or_else(|| join(home, self.below_home))
    }
}

fn join(path: &Path, below: &str) -> PathBuf {
    if below.is_empty() {
        path.to_owned()
    } else {
        path.join(below)
    }
}

/// The parts of a path that came out of a sandbox; nothing that would lead out of where it lies.
pub(super) fn parts(path: &str) -> Option<Vec<&str>> {
    let parts: Vec<&str> = path.split('/').collect();
    let plain = |part: &&str| !matches!(*part, "" | "." | "..");
    parts.iter().all(plain).then_some(parts)
}

/// A path as one name: what is no letter and no digit is a `-`.
pub(super) fn dashed(directory: &str) -> String {
    let one = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    // As JavaScript counts: what is outside of the basic plane is two.
    directory
        .chars()
        .flat_map(|c| std::iter::repeat_n(one(c), c.len_utf16()))
        .collect()
}

/// Each file with another path; `None` is one that is no session's.
pub(super) fn renamed(
    files: Vec<SessionFile>,
    place: impl Fn(&[&str]) -> Option<String>,
) -> Result<Vec<SessionFile>, SessionError> {
    let files = files.into_iter().map(|file| {
        let path = parts(&file.path).and_then(|parts| place(&parts));
        match path {
            Some(path) => Ok(SessionFile { path, ..file }),
            None => Err(wrong(&file, "no file of a session lies there")),
        }
    });
    files.collect()
}

/// A file of one JSON object a line, with another path and another directory in its first line, where the program
/// reads in which it works.
pub(super) fn headed(
    file: &SessionFile,
    path: String,
    directory: &str,
    is_head: impl Fn(&Value) -> bool,
) -> Result<SessionFile, SessionError> {
    let end = file.bytes.iter().position(|&byte| byte == b'\n');
    let (first, rest) = file.bytes.split_at(end.unwrap_or(file.bytes.len()));
    let head = (first.len() <= HEAD).then(|| json::object(first, false));
    let head = head.flatten().filter(is_head);
    let Some(mut head) = head else {
        return Err(wrong(file, "its first line is not that of a session"));
    };
    head["cwd"] = directory.into();
    let bytes = [head.to_string().as_bytes(), rest].concat();
    Ok(SessionFile { path, bytes })
}

pub(super) fn wrong(file: &SessionFile, why: &'static str) -> SessionError {
    SessionError {
        path: crate::text::printable_line(&file.path),
        why,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_moves_the_root() {
        let layout = SessionLayout {
            below_home: ".own",
            moved_by: Some(("OWN_HOME", "below")),
            index: None,
            within: |_| String::new(),
            belongs: |_, _| false,
            identified: None,
            moved: |files, _| Ok(files),
        };
        let root = |pairs: &[(&str, &str)]| {
            let pairs = pairs.iter().map(|&(k, v)| (k.into(), v.into()));
            layout.root(Path::new("/home/a"), &pairs.collect())
        };
        assert_eq!(root(&[]), Path::new("/home/a/.own"));
        assert_eq!(root(&[("OWN_HOME", "")]), Path::new("/home/a/.own"));
        assert_eq!(root(&[("OWN_HOME", "/x")]), Path::new("/x/below"));
    }

    #[test]
    fn paths_out_of_a_sandbox() {
        assert_eq!(parts("a/b.jsonl"), Some(vec!["a", "b.jsonl"]));
        for path in ["", "/a", "a//b", "../a", "a/..", "./a", "a/"] {
            assert_eq!(parts(path), None, "{path}");
        }
        assert_eq!(dashed("/work/a_b.c é😀"), "-work-a-b-c----");
    }
}
