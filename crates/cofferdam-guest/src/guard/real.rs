//! The real git: the next one in `PATH` that is not this program.

use std::ffi::{CString, OsStr};
use std::fmt;
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::Word;
use crate::sys;

/// Where programs are looked for without a `PATH`.
pub(crate) const USUAL_PATH: &[u8] = b"/usr/local/bin:/usr/bin:/bin";
/// More of what git answers is not read.
const LONGEST_ANSWER: u64 = 64 << 10;

/// Why there is none.
#[derive(Debug)]
pub(crate) enum Missing {
    /// It cannot be told from this program.
    Itself(io::Error),
    NotFound,
    NotExecuted(PathBuf, io::Error),
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Itself(error) => write!(
                f,
                "git cannot be told from what guards it: /proc/self/exe: {error}"
            ),
            Self::NotFound => f.write_str(
                "there is no git: nothing in PATH has that name but what guards it\nhint: install git in this sandbox",
            ),
            Self::NotExecuted(path, error) => {
                write!(f, "cannot execute {}: {error}", path.display())
            }
        }
    }
}

/// A program of that name.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Candidate {
    path: PathBuf,
    /// It stands before this program in `PATH`.
    is_before: bool,
}

#[derive(Debug)]
pub(crate) struct Real {
    /// At least one, the best first.
    candidates: Vec<Candidate>,
}

impl Real {
    /// `by_path`: this program was called by its path, not found in `PATH`.
    pub(crate) fn find(path: &[u8], by_path: bool) -> Result<Self, Missing> {
        let own = fs::metadata("/proc/self/exe").map_err(Missing::Itself)?;
        let is_own = |found: &Metadata| (found.dev(), found.ino()) == (own.dev(), own.ino());
        let found = places(path, b"git").filter_map(|place| {
            let found = program(&place)?;
            Some((place, is_own(&found)))
        });
        let candidates = candidates(&found.collect::<Vec<_>>(), by_path);
        if candidates.is_empty() {
            return Err(Missing::NotFound);
        }
        Ok(Self { candidates })
    }

    /// Returns only where none can be executed. The first word is git's name, as it was given.
    pub(super) fn execute(&self, words: &[Word]) -> Missing {
        let mut missing = Missing::NotFound;
        // The runtime of this program ignores it; whoever ignored it before us is answered the same by git, which has it as it is
        // by default in any case.
        sys::default_signal(libc::SIGPIPE);
        for candidate in &self.candidates {
            let mut words = words.to_vec();
            // Two programs that guard, of different versions, would start each other for ever.
            if candidate.is_before
                && let Some(name) = words.first_mut()
            {
                *name = b"git".to_vec();
            }
            let error = match arguments(&candidate.path, &words) {
                Ok((program, words)) => sys::replace(&program, &words),
                Err(error) => error,
            };
            // As a search in `PATH` goes on; anything else would be as wrong for the next one.
            let goes_on = [libc::EACCES, libc::ENOENT, libc::ENOTDIR]
                .iter()
                .any(|code| error.raw_os_error() == Some(*code));
            missing = Missing::NotExecuted(candidate.path.clone(), error);
            if !goes_on {
                break;
            }
        }
        missing
    }

    /// What git answers to these words, up to 64 KiB; it reads nothing.
    pub(crate) fn answer(&self, words: &[Word]) -> io::Result<Vec<u8>> {
        match self.candidates.first() {
            Some(first) => output(&first.path, words),
            None => Err(io::Error::from_raw_os_error(libc::ENOENT)),
        }
    }

    /// What git says that an alias stands for. Git alone knows where its configuration is, what it includes, and which value counts.
    pub(super) fn alias(&self, steering: &[Word], name: &[u8]) -> Option<Word> {
        let key = [b"alias.", name].concat();
        let own: [&[u8]; 4] = [b"config", b"-z", b"--get", &key];
        let mut words = vec![b"git".to_vec()];
        words.extend(steering.iter().cloned());
        words.extend(own.iter().map(|word| word.to_vec()));
        let output = self.answer(&words).ok()?;
        // Ended by NUL; git printed nothing where there is none.
        output.strip_suffix(b"\0").map(<[u8]>::to_vec)
    }
}

/// Those after this program; where it was called by its path also those before it, which a search in `PATH` would have found
/// first. Never by a search alone: what stands there may be a copy of this program, and find this one in turn.
fn candidates(found: &[(PathBuf, bool)], by_path: bool) -> Vec<Candidate> {
    let own = found.iter().rposition(|(_, is_own)| *is_own);
    let (before, after) = found.split_at(own.map_or(0, |own| own + 1));
    let candidate = |is_before: bool| {
        move |(path, _): &(PathBuf, bool)| Candidate {
            path: path.clone(),
            is_before,
        }
    };
    let before = before.iter().filter(|(_, is_own)| by_path && !is_own);
    after
        .iter()
        .map(candidate(false))
        .chain(before.map(candidate(true)))
        .collect()
}

/// Whether a program `git-<name>` is there, which comes before any alias of that name.
pub(super) fn has_external(path: &[u8], name: &[u8]) -> bool {
    let name = [b"git-", name].concat();
    !name.contains(&b'/') && places(path, &name).any(|place| program(&place).is_some())
}

/// An empty part is the directory that one is in.
fn places<'a>(path: &'a [u8], name: &'a [u8]) -> impl Iterator<Item = PathBuf> + 'a {
    path.split(|&byte| byte == b':').map(|directory| {
        let directory = if directory.is_empty() {
            b"."
        } else {
            directory
        };
        Path::new(OsStr::from_bytes(directory)).join(OsStr::from_bytes(name))
    })
}

fn program(path: &Path) -> Option<Metadata> {
    let found = fs::metadata(path).ok()?;
    let is_executable = found.permissions().mode() & 0o111 != 0;
    (found.is_file() && is_executable).then_some(found)
}

fn arguments(program: &Path, words: &[Word]) -> io::Result<(CString, Vec<CString>)> {
    let program = sys::c_string(program.as_os_str().as_bytes())?;
    let words = words.iter().map(|word| sys::c_string(word));
    Ok((program, words.collect::<io::Result<_>>()?))
}

/// What the program prints, up to a bound. It reads nothing, and nobody sees what else it says.
fn output(program: &Path, words: &[Word]) -> io::Result<Vec<u8>> {
    let (program, words) = arguments(program, words)?;
    let nothing = sys::open_at(libc::AT_FDCWD, c"/dev/null", libc::O_RDWR, 0)?;
    let (reader, writer) = sys::pipe()?;
    let child = sys::fork_into(0)?;
    if child == 0 {
        let installed = [(&nothing, 0), (&writer, 1), (&nothing, 2)]
            .iter()
            .try_for_each(|(from, to)| sys::install_fd(from.as_raw_fd(), *to));
        if installed.is_ok() {
            sys::default_signal(libc::SIGPIPE);
            sys::replace(&program, &words);
        }
        sys::exit(1);
    }
    drop(writer);
    let mut output = Vec::new();
    let read = File::from(reader)
        .take(LONGEST_ANSWER)
        .read_to_end(&mut output);
    // Whoever called may have chosen that nobody waits for children. How it ended says nothing that its output does not.
    let _ = sys::wait(child, true);
    read.map(|_| output)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_comes_after_this_program_is_searched() {
        let mark = |candidate: &Candidate| if candidate.is_before { "<" } else { "" };
        let check = |path: &str, by_path: bool, expected: &str| {
            let found = path
                .chars()
                .map(|c| (PathBuf::from(c.to_string()), c == '*'));
            let found = candidates(&found.collect::<Vec<_>>(), by_path);
            let found = found
                .iter()
                .map(|candidate| candidate.path.display().to_string() + mark(candidate));
            assert_eq!(found.collect::<String>(), expected, "{path}");
        };
        check("*ab", false, "ab");
        check("a*b", false, "b");
        check("*a*b", false, "b");
        check("a*", false, "");
        check("*", false, "");
        check("ab", false, "ab");
        check("a*b", true, "ba<");
        check("a*", true, "a<");
        check("*a*", true, "a<");
        check("", true, "");
    }

    #[test]
    fn an_empty_part_of_the_path_is_here() {
        let places: Vec<_> = places(b"/a::b/", b"git").collect();
        assert_eq!(places, ["/a/git", "./git", "b/git"].map(PathBuf::from));
    }
}
