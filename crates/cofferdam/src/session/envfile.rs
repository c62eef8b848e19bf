//! `.cofferdam/.env`: which variables go into the sandbox, and with which values (S2-19).
//!
//! One `KEY=VALUE` for each line, `#` starts a comment line, `export` before the key is fine. One
//! pair of quotes around a value is taken off; inside double quotes `\n`, `\r`, `\t`, `\\` and `\"`
//! are escapes. Nothing is interpolated, and a value never spans lines.
//!
//! A repository could bring this file, name any variable of the caller in it, choose what runs, and send the
//! agent with the caller's key to a host of its own: the caller decides whether the file is trusted before it
//! resolves it (invariant 4).

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::config::may_be_the_repositorys;
use crate::fsx::{Context, FileError};

/// Where the file is, below the repository's top.
pub(super) const PATH: &str = ".cofferdam/.env";

/// The largest file: 1 MiB.
pub(super) const LIMIT: u64 = 1 << 20;

/// Why the file was refused.
#[derive(Debug, thiserror::Error)]
pub enum EnvFileError {
    /// It could not be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// A line that is neither a variable nor a comment.
    #[error("{}:{line}: {why}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// Why, as a sentence fragment.
        why: &'static str,
    },
}

/// The file's variables. An empty value means: take the caller's.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct EnvFile(BTreeMap<String, String>);

/// Why the file may be the repository's, so that it does not say what only the user may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotTrusted {
    /// Git tracks it; what is staged counts.
    Tracked,
    /// It is behind a symlink, or in a submodule.
    Linked,
}

impl std::fmt::Display for NotTrusted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Tracked => "git tracks it",
            Self::Linked => "it is behind a symlink or in a submodule",
        })
    }
}

/// Variables that a file of the repository's own did not set.
#[derive(Debug, Clone, Default)]
pub struct Withheld {
    /// Why it did not; `None` where the file was not asked, as it says nothing that wants trust.
    pub why: Option<NotTrusted>,
    /// It asked for the caller's values.
    pub callers: Vec<String>,
    /// It gave values, and only the user says what these are.
    pub steering: Vec<String>,
}

impl Withheld {
    /// One of these keys, if the file has it.
    pub fn key<'k>(&self, keys: &[&'k str]) -> Option<(NotTrusted, &'k str)> {
        let mut keys = keys.iter();
        let key = keys.find(|key| self.steering.iter().any(|name| name == *key))?;
        Some((self.why?, key))
    }
}

impl EnvFile {
    /// Reads the file of the repository whose top is `root`. A missing one is empty. A symlink that
    /// leaves the repository is an error.
    pub(super) fn read(root: &Path) -> Result<Self, EnvFileError> {
        let path = root.join(PATH);
        let Some(file) = open_beneath(root)? else {
            return Ok(Self::default());
        };
        let refuse = |why: String| FileError::new("read", &path, io::Error::other(why));
        if !file.metadata().context("look at", &path)?.is_file() {
            return Err(refuse("it is not a regular file".to_owned()).into());
        }
        let mut bytes = Vec::new();
        file.take(LIMIT + 1)
            .read_to_end(&mut bytes)
            .context("read", &path)?;
        if bytes.len() as u64 > LIMIT {
            return Err(refuse(format!("it is larger than {LIMIT} bytes")).into());
        }
        let text = String::from_utf8(bytes).map_err(|_| refuse("it is not UTF-8".to_owned()))?;
        Self::parse(&text, &path)
    }

    /// `path` is for errors only. Of several lines for one key the last counts.
    pub(super) fn parse(text: &str, path: &Path) -> Result<Self, EnvFileError> {
        let mut variables = BTreeMap::new();
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (key, value) = entry(line).map_err(|why| EnvFileError::Line {
                path: path.to_owned(),
                line: index + 1,
                why,
            })?;
            variables.insert(key.to_owned(), value);
        }
        Ok(Self(variables))
    }

    /// Whether it holds what only the user may say.
    pub(super) fn needs_trust(&self) -> bool {
        self.0.iter().any(|(name, value)| wants_trust(name, value))
    }

    /// Takes out what only the user may say.
    pub(super) fn distrust(&mut self, why: NotTrusted) -> Withheld {
        let taken = self
            .0
            .extract_if(.., |name, value| wants_trust(name, value));
        let (callers, steering): (Vec<_>, Vec<_>) = taken.partition(|(_, value)| value.is_empty());
        let names = |taken: Vec<(String, String)>| taken.into_iter().map(|(name, _)| name);
        Withheld {
            why: Some(why),
            callers: names(callers).collect(),
            steering: names(steering).collect(),
        }
    }

    /// The variables for the sandbox: those that the file lists and those that the agent declares,
    /// nothing else. The file's value wins unless it is empty; what is empty on both sides is left
    /// out.
    pub(super) fn resolve(
        &self,
        caller: &BTreeMap<OsString, OsString>,
        declared: &[&str],
    ) -> BTreeMap<OsString, OsString> {
        let mut resolved = BTreeMap::new();
        for key in self
            .0
            .keys()
            .map(String::as_str)
            .chain(declared.iter().copied())
        {
            let own = self
                .0
                .get(key)
                .filter(|value| !value.is_empty())
                .map(OsString::from);
            let value = own.or_else(|| caller.get(OsStr::new(key)).cloned());
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                resolved.insert(OsString::from(key), value);
            }
        }
        resolved
    }
}

fn wants_trust(name: &str, value: &str) -> bool {
    value.is_empty() || !may_be_the_repositorys(name)
}

fn entry(line: &str) -> Result<(&str, String), &'static str> {
    let line = match line.strip_prefix("export") {
        Some(rest) if rest.starts_with([' ', '\t']) => rest.trim_start(),
        _ => line,
    };
    let (key, value) = line.split_once('=').ok_or("there is no `=`")?;
    let key = key.trim_end();
    let mut bytes = key.bytes();
    let fine = bytes
        .next()
        .is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if !fine {
        return Err("the name before `=` is not made of letters, digits and `_`");
    }
    let value = value.trim();
    if value.contains('\0') {
        return Err("the value contains a NUL");
    }
    let value = match value.chars().next() {
        Some('\'') => single_quoted(&value[1..])?,
        Some('"') => double_quoted(&value[1..])?,
        _ => value.to_owned(),
    };
    Ok((key, value))
}

const UNCLOSED: &str = "the quote is not closed on this line";
const TRAILING: &str = "there is text after the closing quote";

/// The closing quote is the last character; quotes in between are content.
fn single_quoted(rest: &str) -> Result<String, &'static str> {
    match rest.strip_suffix('\'') {
        Some(value) => Ok(value.to_owned()),
        None if rest.contains('\'') => Err(TRAILING),
        None => Err(UNCLOSED),
    }
}

fn double_quoted(rest: &str) -> Result<String, &'static str> {
    let mut value = String::with_capacity(rest.len());
    let mut chars = rest.chars();
    let mut quote_seen = false;
    while let Some(c) = chars.next() {
        match c {
            '"' if chars.as_str().is_empty() => return Ok(value),
            '"' => {
                quote_seen = true;
                value.push('"');
            }
            '\\' => match chars.next() {
                Some('n') => value.push('\n'),
                Some('r') => value.push('\r'),
                Some('t') => value.push('\t'),
                Some(c @ ('\\' | '"')) => value.push(c),
                Some(other) => value.extend(['\\', other]),
                None => return Err(UNCLOSED),
            },
            c => value.push(c),
        }
    }
    Err(if quote_seen { TRAILING } else { UNCLOSED })
}

/// Opens the file; symlinks are followed as long as they stay in the repository.
fn open_beneath(root: &Path) -> Result<Option<File>, FileError> {
    let path = root.join(PATH);
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let top =
        rustix::fs::open(root, flags | OFlags::DIRECTORY, Mode::empty()).context("open", root)?;
    // A rename in the tree makes the kernel give up with EAGAIN; it does so rarely (openat2(2)).
    for _ in 0..100 {
        match rustix::fs::openat2(&top, PATH, flags, Mode::empty(), ResolveFlags::BENEATH) {
            Ok(file) => return Ok(Some(file.into())),
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(Errno::XDEV) => {
                let why = io::Error::other("a symlink leads out of the repository");
                return Err(FileError::new("open", path, why));
            }
            Err(errno) => return Err(FileError::new("open", path, errno.into())),
        }
    }
    Err(FileError::new("open", path, Errno::AGAIN.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, want: Result<&[(&str, &str)], &str>) {
        let got = EnvFile::parse(text, Path::new("f"));
        match want {
            Ok(pairs) => {
                let pairs = pairs
                    .iter()
                    .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
                assert_eq!(got.unwrap().0, pairs.collect(), "{text:?}");
            }
            Err(message) => assert_eq!(got.unwrap_err().to_string(), message, "{text:?}"),
        }
    }

    /// An agent's own variables are the user's to give.
    #[test]
    fn nothing_that_an_agent_takes_from_the_caller() {
        for kind in crate::agent::AGENTS {
            let options = crate::agent::AgentOptions {
                arguments: vec!["x".into()],
                ..Default::default()
            };
            let agent = crate::agent::by_name(kind.name, options).unwrap();
            for name in agent.environment() {
                assert!(!may_be_the_repositorys(name), "{name}");
            }
        }
    }

    #[test]
    fn files() {
        check("", Ok(&[]));
        check(
            "\u{feff}A=1\r\n# c\n\n  B = two words \n",
            Ok(&[("A", "1"), ("B", "two words")]),
        );
        check(
            "export A=1\nexport\tB=2\nexportC=3",
            Ok(&[("A", "1"), ("B", "2"), ("exportC", "3")]),
        );
        check("A=1\nA=2", Ok(&[("A", "2")]));
        check("A=\nB=''\nC=\"\"", Ok(&[("A", ""), ("B", ""), ("C", "")]));
        check(r#"A="a\n\t\r\\\"\x b""#, Ok(&[("A", "a\n\t\r\\\"\\x b")]));
        check(r"A='a\n$B #x'", Ok(&[("A", r"a\n$B #x")]));
        check("A=a\\n${B}`c` #x", Ok(&[("A", "a\\n${B}`c` #x")]));
        check("A=\"a\"b\"\nB='a'b'", Ok(&[("A", "a\"b"), ("B", "a'b")]));
        check("A=x=y", Ok(&[("A", "x=y")]));
        check("A=1\nB", Err("f:2: there is no `=`"));
        check(
            "=1",
            Err("f:1: the name before `=` is not made of letters, digits and `_`"),
        );
        check(
            "1A=1",
            Err("f:1: the name before `=` is not made of letters, digits and `_`"),
        );
        check(
            "A B=1",
            Err("f:1: the name before `=` is not made of letters, digits and `_`"),
        );
        check("A=\"a", Err("f:1: the quote is not closed on this line"));
        check(
            "A=\"a\\\"",
            Err("f:1: the quote is not closed on this line"),
        );
        check("A=\"", Err("f:1: the quote is not closed on this line"));
        check("A='a", Err("f:1: the quote is not closed on this line"));
        check(
            "A=\"a\" # c",
            Err("f:1: there is text after the closing quote"),
        );
        check(
            "A='a' # c",
            Err("f:1: there is text after the closing quote"),
        );
        check("A=a\0", Err("f:1: the value contains a NUL"));
    }

    #[test]
    fn only_listed_and_declared_names_are_taken() {
        let file = EnvFile::parse("OWN=file\nEMPTY=\nNOWHERE=\nKEY=file", Path::new("f")).unwrap();
        let os = |pairs: &[(&str, &str)]| -> BTreeMap<OsString, OsString> {
            pairs.iter().map(|(k, v)| (k.into(), v.into())).collect()
        };
        let caller = os(&[
            ("OWN", "caller"),
            ("EMPTY", "caller"),
            ("DECLARED", "caller"),
            ("BLANK", ""),
            ("SECRET", "caller"),
            ("KEY", "caller"),
        ]);
        assert_eq!(
            file.resolve(&caller, &["DECLARED", "ABSENT", "BLANK", "KEY"]),
            os(&[
                ("OWN", "file"),
                ("EMPTY", "caller"),
                ("DECLARED", "caller"),
                ("KEY", "file")
            ])
        );
        assert_eq!(EnvFile::default().resolve(&caller, &[]), os(&[]));
    }

    #[test]
    fn files_are_read_beneath_the_repository_only() {
        use std::os::unix::fs::symlink;
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("repo");
        std::fs::create_dir_all(root.join(".cofferdam")).unwrap();
        assert_eq!(EnvFile::read(&root).unwrap(), EnvFile::default());

        let write = |path: &Path, bytes: &[u8]| crate::fsx::write_private(path, bytes).unwrap();
        let one = EnvFile::parse("A=1", Path::new("f")).unwrap();
        let file = root.join(PATH);
        write(&file, b"A=1\n");
        assert_eq!(EnvFile::read(&root).unwrap(), one);

        // A link inside the repository is fine, one out of it is not, in either spelling.
        write(&root.join("inside"), b"A=1\n");
        write(&dir.path().join("outside"), b"A=1\n");
        let refused = |target: &Path, message: &str| {
            std::fs::remove_file(&file).unwrap();
            symlink(target, &file).unwrap();
            let error = EnvFile::read(&root).unwrap_err().to_string();
            assert!(error.contains(PATH) && error.contains(message), "{error}");
        };
        refused(Path::new("../../outside"), "leads out of the repository");
        refused(&dir.path().join("outside"), "leads out of the repository");
        refused(Path::new(".env"), "symbolic links");
        std::fs::remove_file(&file).unwrap();
        symlink("../inside", &file).unwrap();
        assert_eq!(EnvFile::read(&root).unwrap(), one);

        std::fs::remove_file(&file).unwrap();
        write(&file, b"A=\xff\n");
        assert!(
            EnvFile::read(&root)
                .unwrap_err()
                .to_string()
                .contains("not UTF-8")
        );
        write(&file, &vec![b'#'; usize::try_from(LIMIT).unwrap() + 1]);
        assert!(
            EnvFile::read(&root)
                .unwrap_err()
                .to_string()
                .contains("larger than")
        );
        std::fs::remove_file(&file).unwrap();
        std::fs::create_dir(&file).unwrap();
        assert!(
            EnvFile::read(&root)
                .unwrap_err()
                .to_string()
                .contains("not a regular file")
        );
    }
}
